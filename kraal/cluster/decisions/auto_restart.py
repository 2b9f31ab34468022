"""Automatic restarts: whether and when a failed instance is restarted. Pure.

The herder keeps a `FailureHistory` for each instance that failed on this worker, and calls `next_history` after every
event. A restart has an absolute due time, so that a restarted herder continues with the same plan. A restart over REST
or a new config cancels the plan and resets the count, because an operator has intervened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from kraal.cluster.decisions.failures import Failure, classify, first_line
from kraal.cluster.state.wanted_work import Incarnation
from kraal.config.connector.auto_restart import AutoRestart, RestartScope
from kraal.core.ids import Instance, TaskId

MAX_BACKOFF_S = 300.0
"""Maximum backoff, unless the configured initial backoff is longer."""
_TIMER_TOLERANCE_S = 0.001
"""Tolerance for timers that fire early because clocks differ slightly."""
_MAX_DOUBLINGS = 30
"""Every backoff reaches its maximum before this many doublings."""


class NoRestartReason(StrEnum):
    """Reason why a supervised instance stays FAILED; also the value in REST responses."""

    PERMANENT = "lasting"
    """A restart cannot fix this kind of failure."""
    SAME_RECORD = "same-record"
    """The same record failed again after a restart."""
    TOO_OFTEN = "too-often"
    """The restart budget is exhausted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureHistory:
    """Failure history of one instance.

    Times are monotonic seconds, or wall-clock milliseconds in fields with the suffix `_ms`.
    """

    incarnation: Incarnation
    """The incarnation that failed or was started by an automatic restart."""
    config_version: int
    """Version of the connector config when this incarnation failed or was started."""
    trace: str | None = None
    """Trace of the failure; None if this incarnation has not failed."""
    restarts: tuple[float, ...] = ()
    """Times of the restarts that may still be in the window."""
    total: int = 0
    """Total number of automatic restarts."""
    restarted_ms: int | None = None
    """Time of the last automatic restart."""
    previous_cause: str | None = None
    """Root cause of the failure before the latest restart."""
    due_s: float | None = None
    """Time of the next restart; None if none is planned."""
    due_ms: int | None = None
    given_up: NoRestartReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSituation:
    """Current situation of one instance."""

    policy: AutoRestart
    incarnation: Incarnation | None
    """The incarnation wanted on this worker, if any."""
    config_version: int
    is_started: bool
    """Whether the target state of the instance's connector is STARTED."""
    now_s: float
    now_ms: int
    chance: float
    """Random number from 0 to 1."""


@dataclass(frozen=True, slots=True)
class RestartAfter:
    """Restart the instance after `delay_s` seconds."""

    delay_s: float


def is_supervised(policy: AutoRestart, instance: Instance) -> bool:
    """Return whether the policy restarts instances of this kind: tasks, or connectors and tasks."""
    if isinstance(instance, TaskId):
        return policy.scope is not RestartScope.NONE
    return policy.scope is RestartScope.ALL


def decide_restart(
    policy: AutoRestart, history: FailureHistory, trace: str, *, now_s: float, chance: float
) -> RestartAfter | NoRestartReason:
    """Decide whether, and after which delay, to restart an instance that failed with `trace`."""
    failure = classify(trace)
    if failure is Failure.PERMANENT:
        return NoRestartReason.PERMANENT
    if failure is Failure.RECORD and history.previous_cause == first_line(trace):
        return NoRestartReason.SAME_RECORD
    count = len(restarts_in_window(policy, history.restarts, now_s))
    if count >= policy.max_restarts:
        return NoRestartReason.TOO_OFTEN
    return RestartAfter(backoff_s(policy, count, chance))


def restarts_in_window(policy: AutoRestart, restarts: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    """Return the restarts within the window."""
    return tuple(time_s for time_s in restarts if time_s > now_s - policy.window_s)


def backoff_s(policy: AutoRestart, count: int, chance: float) -> float:
    """Return the backoff after `count` earlier restarts: exponential, minus up to half as jitter."""
    max_backoff_s = max(policy.backoff_s, MAX_BACKOFF_S)
    return min(policy.backoff_s * 2.0 ** min(count, _MAX_DOUBLINGS), max_backoff_s) * (1 - chance / 2)


def record_failure(
    history: FailureHistory | None, incarnation: Incarnation, trace: str, situation: InstanceSituation
) -> FailureHistory:
    """Return the history with a failure; unchanged if the failure is already recorded or of an older incarnation.

    The caller must then call `next_history`.
    """
    if history is not None and incarnation < history.incarnation:
        return history
    if history is not None and history.incarnation == incarnation:
        return history if history.trace is not None else replace(history, trace=trace)
    return FailureHistory(
        incarnation=incarnation,
        config_version=situation.config_version,
        trace=trace,
        total=0 if history is None else history.total,
        restarted_ms=None if history is None else history.restarted_ms,
    )


def record_success(history: FailureHistory) -> FailureHistory:
    """Return the history without the failure and the planned restart."""
    return replace(history, trace=None, due_s=None, due_ms=None, given_up=None)


def next_history(instance: Instance, history: FailureHistory, situation: InstanceSituation) -> FailureHistory:
    """Return the next history of an instance, given its current situation."""
    if situation.incarnation is None:  # not on this worker; the next owner starts a new history
        return record_success(history)
    if situation.incarnation < history.incarnation:
        return history  # a restarted herder has not computed its wanted instances yet
    if situation.incarnation != history.incarnation:
        return record_success(
            replace(
                history,
                incarnation=situation.incarnation,
                config_version=situation.config_version,
                restarts=(),
                previous_cause=None,
            )
        )
    if history.trace is None:
        return history
    if situation.config_version != history.config_version:
        history = replace(
            record_success(history),
            trace=history.trace,
            config_version=situation.config_version,
            restarts=(),
            previous_cause=None,
        )
    if not situation.is_started or not is_supervised(situation.policy, instance):
        return replace(history, due_s=None, due_ms=None, given_up=None)
    if history.due_s is not None or history.given_up is not None:
        return history
    decision = decide_restart(
        situation.policy, history, history.trace or "", now_s=situation.now_s, chance=situation.chance
    )
    if isinstance(decision, NoRestartReason):
        return replace(history, given_up=decision)
    return replace(
        history,
        due_s=situation.now_s + decision.delay_s,
        due_ms=situation.now_ms + round(decision.delay_s * 1000),
    )


def is_due(history: FailureHistory, situation: InstanceSituation) -> bool:
    """Return whether the instance must be restarted now."""
    if history.due_s is None or history.due_s > situation.now_s + _TIMER_TOLERANCE_S:
        return False
    return history.incarnation == situation.incarnation and situation.is_started


def record_restart(
    history: FailureHistory, incarnation: Incarnation, situation: InstanceSituation
) -> FailureHistory:
    """Return the history after a restart; `incarnation` is the new incarnation."""
    return replace(
        record_success(history),
        incarnation=incarnation,
        restarts=(*restarts_in_window(situation.policy, history.restarts, situation.now_s), situation.now_s),
        total=history.total + 1,
        restarted_ms=situation.now_ms,
        previous_cause=first_line(history.trace or ""),
    )


def explain_no_restart(policy: AutoRestart, given_up: NoRestartReason) -> str:
    """Return an explanation for the operator, with a remedy."""
    if given_up is NoRestartReason.PERMANENT:
        return "A restart cannot fix this failure: fix the cause shown in its trace, then restart it."
    if given_up is NoRestartReason.SAME_RECORD:
        return (
            "The same record failed again after a restart: fix the cause shown in its trace, then restart it."
        )
    return (
        f"It was restarted {policy.max_restarts} times within {policy.window_s:g} s, and errors.auto.restart.max "
        "allows no more: see its trace, then restart it."
    )
