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
    """The record that caused the restart failed again."""
    TOO_OFTEN = "too-often"
    """The restart budget is exhausted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureHistory:
    """Failure history of one instance.

    Times are monotonic seconds, or wall-clock milliseconds in fields with the suffix `_ms`.
    """

    life: Incarnation
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
    cured: str | None = None
    """Root cause of the failure before the latest restart."""
    due_s: float | None = None
    """Time of the next restart; None if none is planned."""
    due_ms: int | None = None
    given_up: NoRestartReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSituation:
    """Current situation of one instance."""

    policy: AutoRestart
    life: Incarnation | None
    """The incarnation wanted on this worker, if any."""
    config_version: int
    started: bool
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
    """Return whether an instance is supervised."""
    if isinstance(instance, TaskId):
        return policy.scope is not RestartScope.NONE
    return policy.scope is RestartScope.ALL


def decide_restart(
    policy: AutoRestart, watched: FailureHistory, trace: str, *, now_s: float, chance: float
) -> RestartAfter | NoRestartReason:
    """Decide whether, and after which delay, to restart an instance that failed with `trace`."""
    failure = classify(trace)
    if failure is Failure.PERMANENT:
        return NoRestartReason.PERMANENT
    if failure is Failure.RECORD and watched.cured == first_line(trace):
        return NoRestartReason.SAME_RECORD
    count = len(restarts_in_window(policy, watched.restarts, now_s))
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
    watched: FailureHistory | None, life: Incarnation, trace: str, situation: InstanceSituation
) -> FailureHistory:
    """Record a failure, unless it is already recorded or belongs to an older incarnation.

    `next_history` must be called afterwards.
    """
    if watched is not None and life < watched.life:
        return watched
    if watched is not None and watched.life == life:
        return watched if watched.trace is not None else replace(watched, trace=trace)
    return FailureHistory(
        life=life,
        config_version=situation.config_version,
        trace=trace,
        total=0 if watched is None else watched.total,
        restarted_ms=None if watched is None else watched.restarted_ms,
    )


def record_success(watched: FailureHistory) -> FailureHistory:
    """Clear the failure and the planned restart after the instance has recovered."""
    return replace(watched, trace=None, due_s=None, due_ms=None, given_up=None)


def next_history(instance: Instance, watched: FailureHistory, situation: InstanceSituation) -> FailureHistory:
    """Return the next history of an instance, given its current situation."""
    if situation.life is None:  # not on this worker; the next owner starts a new history
        return record_success(watched)
    if situation.life < watched.life:  # a restarted herder has not computed its wanted instances yet
        return watched
    if situation.life != watched.life:
        return record_success(
            replace(
                watched, life=situation.life, config_version=situation.config_version, restarts=(), cured=None
            )
        )
    if watched.trace is None:
        return watched
    if situation.config_version != watched.config_version:
        watched = replace(
            record_success(watched),
            trace=watched.trace,
            config_version=situation.config_version,
            restarts=(),
            cured=None,
        )
    if not situation.started or not is_supervised(situation.policy, instance):
        return replace(watched, due_s=None, due_ms=None, given_up=None)
    if watched.due_s is not None or watched.given_up is not None:
        return watched
    decision = decide_restart(
        situation.policy, watched, watched.trace or "", now_s=situation.now_s, chance=situation.chance
    )
    if isinstance(decision, NoRestartReason):
        return replace(watched, given_up=decision)
    return replace(
        watched,
        due_s=situation.now_s + decision.delay_s,
        due_ms=situation.now_ms + round(decision.delay_s * 1000),
    )


def is_due(watched: FailureHistory, situation: InstanceSituation) -> bool:
    """Return whether the instance must be restarted now."""
    if watched.due_s is None or watched.due_s > situation.now_s + _TIMER_TOLERANCE_S:
        return False
    return watched.life == situation.life and situation.started


def record_restart(
    watched: FailureHistory, life: Incarnation, situation: InstanceSituation
) -> FailureHistory:
    """Return the history after a restart; `life` is the new incarnation."""
    return replace(
        record_success(watched),
        life=life,
        restarts=(*restarts_in_window(situation.policy, watched.restarts, situation.now_s), situation.now_s),
        total=watched.total + 1,
        restarted_ms=situation.now_ms,
        cured=first_line(watched.trace or ""),
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
