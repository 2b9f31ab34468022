"""Facts that make a task or a connector stalled, and the causes."""

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

RUNS = TaskFacts(state=State.RUNNING, started_s=0.0, reported=State.RUNNING, reported_s=1.0)
GROWS = Backlog(records=1_500, read_total=7, least=100, grows_since_s=10.0)
STANDS = Backlog(records=2, read_total=7, least=0, grows_since_s=10.0, exact=True)
SINK = replace(RUNS, partitions=3, read_total=7)
NO_TOPIC = "None of its topics exists: orders"


@pytest.mark.parametrize(
    ("facts", "stall"),
    [
        pytest.param(RUNS, None, id="idle"),
        pytest.param(
            replace(RUNS, step=Step("poll", 10.0)),
            Stall(StallKind.STEP, 10.0, "Its poll does not return"),
            id="poll",
        ),
        pytest.param(
            replace(RUNS, step=Step("batch", 10.0, "brokers are away")),
            Stall(StallKind.STEP, 10.0, "Its batch does not end: brokers are away"),
            id="retried batch",
        ),
        pytest.param(
            replace(RUNS, step=Step("commit", 10.0)),
            Stall(StallKind.STEP, 10.0, "Its commit does not end"),
            id="commit of a sink",
        ),
        pytest.param(
            replace(RUNS, step=Step("", 10.0)),
            Stall(StallKind.STEP, 10.0, "It has records that it neither writes nor commits"),
            id="java task",
        ),
        pytest.param(
            replace(RUNS, committing_s=10.0, commit_failure="the disk is full", step=Step("poll", 50.0)),
            Stall(StallKind.STEP, 10.0, "Its commit does not end: the disk is full"),
            id="commit of a source",
        ),
        pytest.param(
            replace(SINK, backlog=GROWS),
            Stall(
                StallKind.BACKLOG,
                10.0,
                "It reads no record, although its backlog has grown to 1,500 records; "
                "a producer's open transaction may hold them back",
            ),
            id="backlog",
        ),
        pytest.param(replace(SINK, backlog=replace(GROWS, read_total=6)), None, id="backlog, but it reads"),
        pytest.param(
            replace(SINK, backlog=replace(GROWS, records=103)), None, id="markers of transactions only"
        ),
        pytest.param(
            replace(SINK, backlog=replace(GROWS, grows_since_s=None)), None, id="backlog that does not grow"
        ),
        pytest.param(
            replace(SINK, backlog=STANDS),
            Stall(
                StallKind.BACKLOG,
                10.0,
                "It reads no record, although its backlog is 2 records; "
                "a producer's open transaction may hold them back",
            ),
            id="backlog of a Java sink that stands",
        ),
        pytest.param(
            replace(SINK, backlog=replace(STANDS, paused=3)),
            Stall(
                StallKind.BACKLOG,
                10.0,
                "It reads no record, although its backlog is 2 records; 3 of 3 partitions are paused, by its plugin "
                "or while a batch is repeated",
            ),
            id="backlog of a Java sink that has paused",
        ),
        pytest.param(replace(SINK, backlog=GROWS, reported_s=50.0), None, id="backlog, but just resumed"),
        pytest.param(
            replace(RUNS, unassigned=NO_TOPIC, unassigned_s=5.0),
            Stall(StallKind.NO_TOPIC, 5.0, NO_TOPIC),
            id="no topic",
        ),
        pytest.param(replace(RUNS, unassigned_s=5.0), None, id="spare member of a group"),
        pytest.param(
            replace(RUNS, reported=None, reported_s=None),
            Stall(StallKind.START, 0.0, "Its start does not return"),
            id="start",
        ),
        pytest.param(
            replace(RUNS, state=State.RESTARTING, reported=None, reported_s=None),
            Stall(StallKind.START, 0.0, "Its start does not return"),
            id="restart",
        ),
        pytest.param(
            replace(RUNS, state=State.UNASSIGNED, reported=State.UNASSIGNED, trace="Spark is starting"),
            Stall(StallKind.WAITING, 1.0, "It waits: Spark is starting"),
            id="waits for an engine",
        ),
        pytest.param(
            replace(RUNS, state=State.PAUSED, reported=State.PAUSED, step=Step("batch", 1.0)),
            None,
            id="paused",
        ),
        pytest.param(
            replace(RUNS, state=State.FAILED, reported=State.FAILED, step=Step("batch", 1.0)),
            None,
            id="failed",
        ),
    ],
)
def test_task_without_progress_for_a_minute_is_stalled(facts: TaskFacts, stall: Stall | None) -> None:
    assert task_stall(facts, 71.0, 60.0) == stall
    assert task_stall(facts, 71.0, 0.0) is None, "0 disables detection"
    if stall is not None:
        assert task_stall(facts, stall.since_s + 60.0, 60.0) is None


UP = ConnectorFacts(state=State.RUNNING, started_s=0.0, reported=State.RUNNING, reported_s=1.0)


@pytest.mark.parametrize(
    ("facts", "stall"),
    [
        pytest.param(UP, None, id="with task configs, maybe none"),
        pytest.param(
            replace(UP, has_configs=False),
            Stall(
                StallKind.NO_TASKS, 1.0, "It has no tasks, because no complete set of task configs is stored"
            ),
            id="no stored task configs",
        ),
        pytest.param(
            replace(
                UP, has_configs=False, failure="the JVM of Java plugins is starting", failing_since_s=4.0
            ),
            Stall(
                StallKind.NO_TASKS,
                4.0,
                "It fails to generate task configs: the JVM of Java plugins is starting",
            ),
            id="task configs that are not made",
        ),
        pytest.param(
            replace(UP, failure="OSError: x", failing_since_s=4.0),
            Stall(StallKind.NO_TASKS, 4.0, "It fails to generate task configs: OSError: x"),
            id="tasks with the former config",
        ),
        pytest.param(
            replace(UP, reported=None, reported_s=None),
            Stall(StallKind.START, 0.0, "Its start does not return"),
            id="start",
        ),
        pytest.param(
            replace(UP, state=State.UNASSIGNED, reported=State.UNASSIGNED, trace="no JVM"),
            Stall(StallKind.WAITING, 1.0, "It waits: no JVM"),
            id="waits",
        ),
        pytest.param(
            replace(UP, state=State.PAUSED, reported=State.PAUSED, has_configs=False), None, id="paused"
        ),
        pytest.param(
            replace(UP, state=State.FAILED, reported=State.FAILED, has_configs=False), None, id="failed"
        ),
    ],
)
def test_connector_without_task_configs_for_a_minute_is_stalled(
    facts: ConnectorFacts, stall: Stall | None
) -> None:
    assert connector_stall(facts, 65.0, 60.0) == stall
    assert connector_stall(facts, 60.0, 60.0) is None
    assert connector_stall(facts, 65.0, 0.0) is None
