"""Stall detection: decides whether an instance is stalled, and why. Pure.

An instance is *stalled* if it should make progress and has made none for longer than `task.stall.timeout.ms`:

    RUNNING      it has been in one step for that time, or its backlog grows (Java: does not shrink) while it reads
                 no records, or its subscription matches no topic, or no task of its connector has a partition
    UNASSIGNED   it has waited for that time, for example for the JVM that runs it
    no state     its start has not returned for that time
    a connector  as above, or it has no stored task configs

An idle task is never stalled: a source whose poll returns no records, or a sink without a backlog.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from kraal.core.ids import State
from kraal.core.traces import root_cause

if TYPE_CHECKING:
    from kraal.metrics.stalls.work import Backlog, Step


class StallKind(StrEnum):
    """The kind of a stall; also the label value in metrics."""

    STEP = "step"
    BACKLOG = "backlog"
    NO_TOPIC = "no-topic"
    GROUP = "group"
    START = "start"
    WAITING = "waiting"
    NO_TASKS = "no-tasks"


@dataclass(frozen=True, slots=True)
class Stall:
    """A stall of an instance."""

    kind: StallKind
    since_s: float
    """Time of the last progress, in monotonic seconds."""
    cause: str
    """Description of the problem, without a time, so that equal causes have equal texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """The published facts about a task of this worker. Times are monotonic seconds."""

    state: State
    """State in the REST API."""
    trace: str | None = None
    """The trace in the task's status; the trace of an UNASSIGNED task names what the task is waiting for."""
    started_s: float | None = None
    reported_state: State | None = None
    """The latest state that the task has reported since its start, if any."""
    reported_s: float | None = None
    """Time of that report."""
    step: Step | None = None
    committing_s: float | None = None
    """Start of the current offset commit, if any."""
    commit_failure: str = ""
    read_total: int = 0
    backlog: Backlog | None = None
    partitions: int = 0
    """Number of a sink's partitions."""
    no_partitions_reason: str = ""
    """Reason why a sink task has no partitions; empty if unknown or if the task has partitions."""
    waiting_for_group_since_s: float | None = None
    """Time since which the consumer of a sink has waited for its group."""
    no_partitions_since_s: float | None = None
    """Time since which a sink has had no partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorFacts:
    """The published facts about a connector instance of this worker."""

    state: State
    trace: str | None = None
    started_s: float | None = None
    reported_state: State | None = None
    reported_s: float | None = None
    has_configs: bool = True
    """Whether a complete set of task configs is stored; the set may be empty."""
    failure: str = ""
    """Reason why the latest attempt to generate task configs failed; empty if the attempt succeeded."""
    failing_since_s: float | None = None
    """Time of the first failure since the last success."""


_STEP_TEXTS: Final = {
    "poll": "The poll does not return",
    "batch": "The batch does not complete",
    "commit": "The commit does not complete",
    "": "It has records that it neither writes nor commits",
}
_GROUP_TEXT: Final = (
    "It has no partitions, because the rebalance of its consumer group has not completed: another member or the "
    "coordinator does not respond"
)
_GROUP_TIMEOUT_SHARE: Final = 0.5
"""The share of the stall timeout after which a task that waits for its group is stalled. It is shorter because the
cause is certain, and because each move to another worker starts a new wait."""
_WAITING_STATES: Final = (State.UNASSIGNED, State.RESTARTING)


def task_stall(facts: TaskFacts, now_s: float, stall_timeout_s: float) -> Stall | None:
    """Return the stall of a task if it has exceeded the timeout, otherwise None. 0 disables the check."""
    if stall_timeout_s <= 0:
        return None
    stall = (
        _running_stall(facts) if facts.state is State.RUNNING and facts.reported_state is not None else None
    )
    stall = stall or _startup_stall(facts)
    if stall is None:
        return None
    timeout_s = stall_timeout_s * (_GROUP_TIMEOUT_SHARE if stall.kind is StallKind.GROUP else 1.0)
    return stall if now_s - stall.since_s > timeout_s else None


def connector_stall(facts: ConnectorFacts, now_s: float, stall_timeout_s: float) -> Stall | None:
    """Return the stall of a connector if it has exceeded the timeout, otherwise None. 0 disables the check."""
    if stall_timeout_s <= 0:
        return None
    stall = _startup_stall(facts)
    if facts.state is State.RUNNING and facts.reported_state is State.RUNNING:
        if facts.failing_since_s is not None:
            stall = Stall(
                StallKind.NO_TASKS,
                facts.failing_since_s,
                f"It fails to generate task configs: {facts.failure}",
            )
        elif not facts.has_configs and facts.reported_s is not None:
            text = "It has no tasks, because no complete set of task configs is stored"
            stall = Stall(StallKind.NO_TASKS, facts.reported_s, text)
    return stall if stall is not None and now_s - stall.since_s > stall_timeout_s else None


def _running_stall(facts: TaskFacts) -> Stall | None:
    """Return the potential stall of a running task, regardless of its duration."""
    step, committing_s = facts.step, facts.committing_s
    if committing_s is not None and (step is None or committing_s < step.since_s):
        return Stall(
            StallKind.STEP, committing_s, _append_failure(_STEP_TEXTS["commit"], facts.commit_failure)
        )
    if step is not None:
        text = _STEP_TEXTS.get(step.name, _STEP_TEXTS[""])
        return Stall(
            StallKind.STEP, step.since_s, _append_failure(text, step.failure or facts.commit_failure)
        )
    if facts.waiting_for_group_since_s is not None:
        return Stall(StallKind.GROUP, facts.waiting_for_group_since_s, _GROUP_TEXT)
    if facts.no_partitions_since_s is not None and facts.no_partitions_reason:
        return Stall(StallKind.NO_TOPIC, facts.no_partitions_since_s, facts.no_partitions_reason)
    return _unread_backlog_stall(facts)


def _unread_backlog_stall(facts: TaskFacts) -> Stall | None:
    """Return the potential stall of a sink that does not read its backlog."""
    backlog = facts.backlog
    if (
        backlog is None
        or backlog.grows_since_s is None
        or backlog.read_total != facts.read_total
        or facts.reported_s is None
    ):
        return None
    markers = 0 if backlog.is_exact else facts.partitions  # each partition may end with a transaction marker
    if backlog.growth <= markers:
        return None
    text = "It reads no record, although its backlog has grown to {:,} records; {}"
    if backlog.is_exact:
        text = "It reads no record, although its backlog is {:,} records; {}"
    reason = "a producer's open transaction may block them"
    if backlog.paused_partitions:
        paused_clause = f"{backlog.paused_partitions} of {facts.partitions} partitions are paused"
        reason = f"{paused_clause} by its plugin, or until the retry of a batch succeeds"
    since_s = max(backlog.grows_since_s, facts.reported_s)
    return Stall(StallKind.BACKLOG, since_s, text.format(backlog.records, reason))


def _startup_stall(facts: TaskFacts | ConnectorFacts) -> Stall | None:
    """Return the potential stall of an instance that does not run yet."""
    if facts.started_s is not None and facts.reported_state is None:
        return Stall(StallKind.START, facts.started_s, "Its start has not completed")
    is_waiting = facts.state in _WAITING_STATES and facts.reported_state is State.UNASSIGNED
    if is_waiting and facts.reported_s is not None:
        reason = root_cause(facts.trace) if facts.trace else "its worker does not report the cause"
        return Stall(StallKind.WAITING, facts.reported_s, f"It is waiting: {reason}")
    return None


def _append_failure(text: str, failure: str) -> str:
    return f"{text}: {failure}" if failure else text
