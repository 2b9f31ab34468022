"""Tests for automatic restarts: the classification of failures, the backoff and the restart budget."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.cluster.decisions.auto_restart import (
    MAX_BACKOFF_S,
    FailureHistory,
    InstanceSituation,
    NoRestartReason,
    RestartAfter,
    backoff_s,
    decide_restart,
    is_due,
    is_supervised,
    next_history,
    record_failure,
    record_restart,
    record_success,
)
from kraal.cluster.decisions.failures import Failure, classify
from kraal.cluster.state.wanted_work import Incarnation
from kraal.config.connector.auto_restart import AutoRestart, RestartScope
from kraal.core.ids import ConnectorName, TaskId

NAME = ConnectorName("c")
TASK = TaskId(NAME, 0)
INCARNATION = Incarnation(7)
POLICY = AutoRestart(scope=RestartScope.TASK, max_restarts=3, window_s=60, backoff_s=2)
SITUATION = InstanceSituation(
    policy=POLICY,
    incarnation=INCARNATION,
    config_version=5,
    is_started=True,
    now_s=1000.0,
    now_ms=5_000_000,
    chance=0.0,
)
TRACE = "OSError: [Errno 5] Input/output error\n  in task c-0, batch 7"
UNREADABLE_TRACE = (
    "The value of orders-0@41 cannot be converted: Converting byte[] to Kafka Connect data failed"
)


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        pytest.param("FileNotFoundError: [Errno 2] No such file: '/in'", Failure.TRANSIENT, id="file missing"),
        pytest.param("OSError: [Errno 28] cannot write to /out: No space left", Failure.TRANSIENT, id="disk full"),
        pytest.param("OSError: [Errno 30] Read-only file system", Failure.TRANSIENT, id="read-only"),
        pytest.param("ConnectionRefusedError: [Errno 111]", Failure.TRANSIENT, id="connection refused"),
        pytest.param("StoreError: the offsets cannot be read", Failure.TRANSIENT, id="offsets"),
        pytest.param("org.apache.kafka.common.errors.TimeoutException: x", Failure.TRANSIENT, id="Java"),
        pytest.param("MemberFailed: Broker: Unknown topic or partition", Failure.TRANSIENT, id="librdkafka"),
        pytest.param(
            "RuntimeError: boom\nthe actor of c-0 exhausted its restart budget", Failure.TRANSIENT, id="actor"
        ),
        pytest.param("ValueError", Failure.TRANSIENT, id="no message"),
        pytest.param("", Failure.TRANSIENT, id="no trace"),
        pytest.param("ValueError: the parameter authorization is odd", Failure.TRANSIENT, id="the word authorization"),
        pytest.param("ValueError: x\nPermissionError: y", Failure.TRANSIENT, id="only the root cause counts"),
        pytest.param("ConfigInvalid: Invalid value", Failure.PERMANENT, id="config"),
        pytest.param("PluginMissing: Failed to find any class", Failure.PERMANENT, id="unknown class"),
        pytest.param("org.apache.kafka.common.config.ConfigException: x", Failure.PERMANENT, id="Java's config"),
        pytest.param("ModuleNotFoundError: No module named 'x'", Failure.PERMANENT, id="module"),
        pytest.param("ImportError", Failure.PERMANENT, id="import, no message"),
        pytest.param("java.lang.ClassNotFoundException: x.Y", Failure.PERMANENT, id="Java's class"),
        pytest.param("PermissionError: [Errno 13] Permission denied: '/in'", Failure.PERMANENT, id="file permission"),
        pytest.param("java.nio.file.AccessDeniedException: /in", Failure.PERMANENT, id="Java's file permission"),
        pytest.param(
            "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [x]",
            Failure.PERMANENT, id="Java's authorization",
        ),
        pytest.param("org.apache.kafka.common.errors.SaslAuthenticationException: x", Failure.PERMANENT, id="SASL"),
        pytest.param("GroupAuthorizationFailedError: [Error 30]", Failure.PERMANENT, id="kafka-python"),
        pytest.param("MemberFailed: Broker: Group authorization failed", Failure.PERMANENT, id="librdkafka group"),
        pytest.param("KafkaException: KafkaError{code=TOPIC_AUTHORIZATION_FAILED}", Failure.PERMANENT, id="code"),
        pytest.param(
            "The connector c has generated 3 tasks, which is greater than 1, the maximum", Failure.PERMANENT,
            id="too many tasks",
        ),
        pytest.param("DataException: x", Failure.RECORD, id="data"),
        pytest.param("org.apache.kafka.connect.errors.DataException: x", Failure.RECORD, id="Java's data"),
        pytest.param("LineTooLongError: the line at byte 7", Failure.RECORD, id="line"),
        pytest.param(f"org.apache.spark.SparkRuntimeException: {UNREADABLE_TRACE}", Failure.RECORD, id="converter"),
        pytest.param(UNREADABLE_TRACE, Failure.RECORD, id="converter message without a class"),
        pytest.param(
            "builtins.ValueError: record t.x-0@17 failed at VALUE_CONVERTER: odd", Failure.RECORD,
            id="converter's own error",
        ),
        pytest.param(
            "builtins.OSError: record t-0@17 failed at TRANSFORMATION: no network", Failure.TRANSIENT,
            id="transform's own error",
        ),
        pytest.param(
            "builtins.OSError: record authorization_failed-0@17 failed at TRANSFORMATION: x", Failure.TRANSIENT,
            id="topic named like an error code",
        ),
    ],
)  # fmt: skip
def test_failures_are_classified(trace: str, expected: Failure) -> None:
    assert classify(trace) is expected


@pytest.mark.parametrize(
    ("restarts", "trace", "previous_cause", "expected"),
    [
        pytest.param((), TRACE, None, RestartAfter(2.0), id="first"),
        pytest.param((990.0,), TRACE, None, RestartAfter(4.0), id="second waits twice as long"),
        pytest.param((980.0, 990.0), TRACE, None, RestartAfter(8.0), id="third"),
        pytest.param(
            (970.0, 980.0, 990.0), TRACE, None, NoRestartReason.TOO_OFTEN, id="fourth exceeds the budget"
        ),
        pytest.param(
            (940.0, 980.0, 990.0), TRACE, None, RestartAfter(8.0), id="restarts are not counted after 60 s"
        ),
        pytest.param((), "PermissionError: x", None, NoRestartReason.PERMANENT, id="permanent failure"),
        pytest.param((), UNREADABLE_TRACE, None, RestartAfter(2.0), id="first failure of a record"),
        pytest.param(
            (900.0,),
            UNREADABLE_TRACE,
            UNREADABLE_TRACE,
            NoRestartReason.SAME_RECORD,
            id="second failure of the same record",
        ),
        pytest.param(
            (990.0,),
            UNREADABLE_TRACE.replace("@41", "@42"),
            UNREADABLE_TRACE,
            RestartAfter(4.0),
            id="failure of the next record",
        ),
        pytest.param(
            (990.0,), TRACE, TRACE.partition("\n")[0], RestartAfter(4.0), id="same error without a record"
        ),
    ],
)
def test_restart_delay_depends_on_the_failure_and_its_history(
    restarts: tuple[float, ...],
    trace: str,
    previous_cause: str | None,
    expected: RestartAfter | NoRestartReason,
) -> None:
    history = FailureHistory(
        incarnation=INCARNATION,
        config_version=5,
        trace=trace,
        restarts=restarts,
        previous_cause=previous_cause,
    )
    assert decide_restart(POLICY, history, trace, now_s=1000.0, chance=0.0) == expected


@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0.001, 3_600))
def test_backoff_is_bounded_with_jitter_up_to_half(count: int, chance: float, first_s: float) -> None:
    policy = replace(POLICY, backoff_s=first_s)
    full_backoff_s = backoff_s(policy, count, 0.0)
    assert first_s <= full_backoff_s <= max(first_s, MAX_BACKOFF_S)
    assert full_backoff_s / 2 <= backoff_s(policy, count, chance) <= full_backoff_s
    assert backoff_s(policy, count + 1, 0.0) >= full_backoff_s


@pytest.mark.parametrize(
    ("scope", "is_task_supervised", "is_connector_supervised"),
    [(RestartScope.NONE, False, False), (RestartScope.TASK, True, False), (RestartScope.ALL, True, True)],
)
def test_supervised_instances_depend_on_the_scope(
    scope: RestartScope, *, is_task_supervised: bool, is_connector_supervised: bool
) -> None:
    policy = replace(POLICY, scope=scope)
    assert is_supervised(policy, TASK) is is_task_supervised
    assert is_supervised(policy, NAME) is is_connector_supervised


def history_with_planned_restart() -> FailureHistory:
    """Return the history of a failed task that will be restarted in 2 s."""
    history = next_history(TASK, record_failure(None, INCARNATION, TRACE, SITUATION), SITUATION)
    assert (history.due_s, history.due_ms) == (1002.0, 5_002_000)
    return history


def test_planned_restart_is_not_rescheduled() -> None:
    history = history_with_planned_restart()
    later_situation = replace(SITUATION, now_s=1001.0, now_ms=5_001_000, chance=0.7)
    assert next_history(TASK, history, later_situation) == history
    assert record_failure(history, INCARNATION, "another text", later_situation) == history, (
        "the failure has already been recorded"
    )
    assert not is_due(history, later_situation)
    assert is_due(history, replace(SITUATION, now_s=1002.0))


def test_restart_is_counted_and_backoff_grows() -> None:
    due_situation = replace(SITUATION, now_s=1002.0, now_ms=5_002_000)
    new_incarnation = Incarnation(7, 1)
    history = record_restart(history_with_planned_restart(), new_incarnation, due_situation)
    assert history == FailureHistory(
        incarnation=new_incarnation,
        config_version=5,
        restarts=(1002.0,),
        total=1,
        restarted_ms=5_002_000,
        previous_cause=TRACE.partition("\n")[0],
    )
    next_situation = replace(due_situation, incarnation=new_incarnation)
    assert not is_due(history, next_situation)
    updated_history = next_history(
        TASK, record_failure(history, new_incarnation, TRACE, next_situation), next_situation
    )
    assert updated_history.due_s == 1006.0


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"incarnation": Incarnation(7, 1)}, id="restarted by a user"),
        pytest.param({"incarnation": Incarnation(9)}, id="new config"),
        pytest.param({"incarnation": None}, id="reassigned, stopped or deleted"),
        pytest.param({"is_started": False}, id="paused"),
        pytest.param({"policy": replace(POLICY, scope=RestartScope.NONE)}, id="no longer supervised"),
    ],
)
def test_change_cancels_a_planned_restart(change: dict[str, object]) -> None:
    new_situation = replace(SITUATION, now_s=1002.0, **change)  # type: ignore[arg-type]
    assert next_history(TASK, history_with_planned_restart(), new_situation).due_s is None
    assert not is_due(next_history(TASK, history_with_planned_restart(), new_situation), new_situation)


def test_manual_restart_resets_the_restart_budget() -> None:
    exhausted_history = replace(
        history_with_planned_restart(),
        restarts=(997.0, 998.0, 999.0),
        total=3,
        previous_cause=UNREADABLE_TRACE,
    )
    situation = replace(SITUATION, incarnation=Incarnation(7, 1))
    after_restart = next_history(TASK, exhausted_history, situation)
    assert (after_restart.restarts, after_restart.previous_cause, after_restart.total) == ((), None, 3)
    assert (
        next_history(
            TASK, record_failure(after_restart, Incarnation(7, 1), TRACE, situation), situation
        ).due_s
        == 1002.0
    )


def test_new_config_of_a_failing_connector_resets_the_restart_budget() -> None:
    exhausted_history = next_history(
        TASK, replace(history_with_planned_restart(), due_s=None, restarts=(997.0, 998.0, 999.0)), SITUATION
    )
    assert exhausted_history.given_up is NoRestartReason.TOO_OFTEN
    new_situation = replace(SITUATION, config_version=6, policy=replace(POLICY, backoff_s=20))
    assert next_history(TASK, exhausted_history, new_situation).due_s == 1020.0


def test_resumed_instance_is_restarted_after_a_new_backoff() -> None:
    paused_history = next_history(TASK, history_with_planned_restart(), replace(SITUATION, is_started=False))
    assert next_history(TASK, paused_history, replace(SITUATION, now_s=2000.0)).due_s == 2002.0


def test_permanently_failed_instance_is_not_restarted_later() -> None:
    updated_history = next_history(
        TASK, record_failure(None, INCARNATION, "PermissionError: x", SITUATION), SITUATION
    )
    assert updated_history.given_up is NoRestartReason.PERMANENT
    assert next_history(TASK, updated_history, replace(SITUATION, now_s=1e9)) == updated_history
    assert not is_due(updated_history, replace(SITUATION, now_s=1e9))


def test_recovering_instance_is_not_restarted() -> None:
    assert not is_due(record_success(history_with_planned_restart()), replace(SITUATION, now_s=2000.0))


def test_reassigned_instance_keeps_its_restart_count() -> None:
    exhausted_history = replace(history_with_planned_restart(), restarts=(997.0, 998.0, 999.0))
    returned_history = next_history(
        TASK, next_history(TASK, exhausted_history, replace(SITUATION, incarnation=None)), SITUATION
    )
    assert (
        next_history(
            TASK, record_failure(returned_history, INCARNATION, TRACE, SITUATION), SITUATION
        ).given_up
        is NoRestartReason.TOO_OFTEN
    )
