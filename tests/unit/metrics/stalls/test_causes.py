"""Tests for the facts from which a stall of a task or connector is detected, and for the reported causes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraal.core.ids import State
from kraal.metrics.stalls.causes import (
    ConnectorFacts,
    Stall,
    StallKind,
    TaskFacts,
    connector_stall,
    task_stall,
)
from kraal.metrics.stalls.work import Backlog, Step

RUNNING_TASK = TaskFacts(state=State.RUNNING, started_s=0.0, reported_state=State.RUNNING, reported_s=1.0)
GROWING_BACKLOG = Backlog(records=1_500, read_total=7, min_records=100, grows_since_s=10.0)
UNCHANGED_BACKLOG = Backlog(records=2, read_total=7, min_records=0, grows_since_s=10.0, is_exact=True)
RUNNING_SINK = replace(RUNNING_TASK, partitions=3, read_total=7)
NO_TOPIC = "None of its topics exists: orders"


@pytest.mark.parametrize(
    ("facts", "stall"),
    [
        pytest.param(RUNNING_TASK, None, id="idle"),
        pytest.param(
            replace(RUNNING_TASK, step=Step("poll", 10.0)),
            Stall(StallKind.STEP, 10.0, "The poll does not return"),
            id="poll",
        ),
        pytest.param(
            replace(RUNNING_TASK, step=Step("batch", 10.0, "brokers are away")),
            Stall(StallKind.STEP, 10.0, "The batch does not complete: brokers are away"),
            id="retried batch",
        ),
        pytest.param(
            replace(RUNNING_TASK, step=Step("commit", 10.0)),
            Stall(StallKind.STEP, 10.0, "The commit does not complete"),
            id="commit of a sink",
        ),
        pytest.param(
            replace(RUNNING_TASK, step=Step("", 10.0)),
            Stall(StallKind.STEP, 10.0, "It has records that it neither writes nor commits"),
            id="Java task",
        ),
        pytest.param(
            replace(
                RUNNING_TASK, committing_s=10.0, commit_failure="the disk is full", step=Step("poll", 50.0)
            ),
            Stall(StallKind.STEP, 10.0, "The commit does not complete: the disk is full"),
            id="commit of a source",
        ),
        pytest.param(
            replace(RUNNING_SINK, backlog=GROWING_BACKLOG),
            Stall(
                StallKind.BACKLOG,
                10.0,
                "It reads no record, although its backlog has grown to 1,500 records; "
                "a producer's open transaction may block them",
            ),
            id="backlog",
        ),
        pytest.param(
            replace(RUNNING_SINK, backlog=replace(GROWING_BACKLOG, read_total=6)),
            None,
            id="backlog of a task that reads records",
        ),
        pytest.param(
            replace(RUNNING_SINK, backlog=replace(GROWING_BACKLOG, records=103)),
            None,
            id="markers of transactions only",
        ),
        pytest.param(
            replace(RUNNING_SINK, backlog=replace(GROWING_BACKLOG, grows_since_s=None)),
            None,
            id="backlog that does not grow",
        ),
        pytest.param(
            replace(RUNNING_SINK, backlog=UNCHANGED_BACKLOG),
            Stall(
                StallKind.BACKLOG,
                10.0,
                "It reads no record, although its backlog is 2 records; "
                "a producer's open transaction may block them",
            ),
            id="unchanged backlog of a Java sink",
        ),
        pytest.param(
            replace(RUNNING_SINK, backlog=replace(UNCHANGED_BACKLOG, paused_partitions=3)),
            Stall(
                StallKind.BACKLOG,
                10.0,
                "It reads no record, although its backlog is 2 records; 3 of 3 partitions are paused by its plugin, "
                "or until the retry of a batch succeeds",
            ),
            id="backlog of a Java sink with paused partitions",
        ),
        pytest.param(
            replace(RUNNING_SINK, backlog=GROWING_BACKLOG, reported_s=50.0),
            None,
            id="backlog of a task that has just resumed",
        ),
        pytest.param(
            replace(RUNNING_TASK, no_partitions_reason=NO_TOPIC, no_partitions_since_s=5.0),
            Stall(StallKind.NO_TOPIC, 5.0, NO_TOPIC),
            id="no topic",
        ),
        pytest.param(replace(RUNNING_TASK, no_partitions_since_s=5.0), None, id="spare member of a group"),
        pytest.param(
            replace(RUNNING_TASK, no_partitions_since_s=5.0, waiting_for_group_since_s=4.0),
            Stall(
                StallKind.GROUP,
                4.0,
                "It has no partitions, because the rebalance of its consumer group has not completed: another member "
                "or the coordinator does not respond",
            ),
            id="rebalance that does not complete",
        ),
        pytest.param(
            replace(
                RUNNING_TASK,
                no_partitions_since_s=50.0,
                no_partitions_reason=NO_TOPIC,
                waiting_for_group_since_s=35.0,
            ),
            Stall(
                StallKind.GROUP,
                35.0,
                "It has no partitions, because the rebalance of its consumer group has not completed: another member "
                "or the coordinator does not respond",
            ),
            id="rebalance that does not complete, after a restart of the task",
        ),
        pytest.param(
            replace(RUNNING_TASK, reported_state=None, reported_s=None),
            Stall(StallKind.START, 0.0, "Its start has not completed"),
            id="start",
        ),
        pytest.param(
            replace(RUNNING_TASK, state=State.RESTARTING, reported_state=None, reported_s=None),
            Stall(StallKind.START, 0.0, "Its start has not completed"),
            id="restart",
        ),
        pytest.param(
            replace(
                RUNNING_TASK,
                state=State.UNASSIGNED,
                reported_state=State.UNASSIGNED,
                trace="Spark is starting",
            ),
            Stall(StallKind.WAITING, 1.0, "It is waiting: Spark is starting"),
            id="waits for an engine",
        ),
        pytest.param(
            replace(RUNNING_TASK, state=State.PAUSED, reported_state=State.PAUSED, step=Step("batch", 1.0)),
            None,
            id="paused",
        ),
        pytest.param(
            replace(RUNNING_TASK, state=State.FAILED, reported_state=State.FAILED, step=Step("batch", 1.0)),
            None,
            id="failed",
        ),
    ],
)
def test_task_without_progress_for_a_minute_is_stalled(facts: TaskFacts, stall: Stall | None) -> None:
    assert task_stall(facts, 71.0, 60.0) == stall
    assert task_stall(facts, 71.0, 0.0) is None, "0 disables detection"
    if stall is not None:
        timeout_s = 30.0 if stall.kind is StallKind.GROUP else 60.0
        assert task_stall(facts, stall.since_s + timeout_s, 60.0) is None


RUNNING_CONNECTOR = ConnectorFacts(
    state=State.RUNNING, started_s=0.0, reported_state=State.RUNNING, reported_s=1.0
)


@pytest.mark.parametrize(
    ("facts", "stall"),
    [
        pytest.param(RUNNING_CONNECTOR, None, id="with a possibly empty set of task configs"),
        pytest.param(
            replace(RUNNING_CONNECTOR, has_configs=False),
            Stall(
                StallKind.NO_TASKS, 1.0, "It has no tasks, because no complete set of task configs is stored"
            ),
            id="no stored task configs",
        ),
        pytest.param(
            replace(
                RUNNING_CONNECTOR,
                has_configs=False,
                failure="the JVM of Java plugins is starting",
                failing_since_s=4.0,
            ),
            Stall(
                StallKind.NO_TASKS,
                4.0,
                "It fails to generate task configs: the JVM of Java plugins is starting",
            ),
            id="no generated task configs",
        ),
        pytest.param(
            replace(RUNNING_CONNECTOR, failure="OSError: x", failing_since_s=4.0),
            Stall(StallKind.NO_TASKS, 4.0, "It fails to generate task configs: OSError: x"),
            id="tasks with the previous config",
        ),
        pytest.param(
            replace(RUNNING_CONNECTOR, reported_state=None, reported_s=None),
            Stall(StallKind.START, 0.0, "Its start has not completed"),
            id="start",
        ),
        pytest.param(
            replace(
                RUNNING_CONNECTOR, state=State.UNASSIGNED, reported_state=State.UNASSIGNED, trace="no JVM"
            ),
            Stall(StallKind.WAITING, 1.0, "It is waiting: no JVM"),
            id="connector waiting for a JVM",
        ),
        pytest.param(
            replace(RUNNING_CONNECTOR, state=State.PAUSED, reported_state=State.PAUSED, has_configs=False),
            None,
            id="paused",
        ),
        pytest.param(
            replace(RUNNING_CONNECTOR, state=State.FAILED, reported_state=State.FAILED, has_configs=False),
            None,
            id="failed",
        ),
    ],
)
def test_connector_without_task_configs_for_a_minute_is_stalled(
    facts: ConnectorFacts, stall: Stall | None
) -> None:
    assert connector_stall(facts, 65.0, 60.0) == stall
    assert connector_stall(facts, 60.0, 60.0) is None
    assert connector_stall(facts, 65.0, 0.0) is None
