"""Whether what has failed is restarted by itself, and when. Pure.

The herder keeps a `Watched` for each instance that has failed here, and asks `look` for the next one whenever
something happened; nothing is decided anywhere else. A restart is due at a time, not after a pause, so that a herder
that died meanwhile goes on where the one before it stood. A life that somebody else began (a restart over REST,
another config) ends what was planned, and begins the count anew: somebody has looked at it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from kraal.cluster.failures import Failure, first_line, judge
from kraal.cluster.work import Incarnation
from kraal.config.supervision import AutoRestart, Restarted
from kraal.ids import Instance, TaskId

LONGEST_BACKOFF_S = 300.0
"""A pause does not grow beyond this, unless it begins so."""
_EARLY_S = 0.001
"""A clock may be so much early, for it counts from a moment of its own."""
_DOUBLINGS = 30
"""After so many any pause is at its longest."""


class GivenUp(StrEnum):
    """Why something stays FAILED although it is supervised; as words of REST."""

    LASTING = "lasting"
    """A restart does not cure this kind of failure."""
    SAME_RECORD = "same-record"
    """The record that it was restarted for failed again."""
    TOO_OFTEN = "too-often"
    """It has failed more often than its budget of restarts allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is known of the failures of one instance. Times are monotonic seconds, `…_ms` those of the wall clock."""

    life: Incarnation
    """What is said here is about this life of it, which failed, or was begun by an automatic restart."""
    config_version: int
    """Of its connector's config, as it was then."""
    trace: str | None = None
    """Of its failure; None: it has not failed in this life."""
    restarts: tuple[float, ...] = ()
    """When it was restarted, of those that may still count."""
    total: int = 0
    """How often it was restarted by itself, ever."""
    restarted_ms: int | None = None
    """When that was last."""
    cured: str | None = None
    """The cause of the failure that the latest restart was to cure."""
    due_s: float | None = None
    """When the next restart is due; None: there is none to come."""
    due_ms: int | None = None
    given_up: GivenUp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """How things stand with one instance."""

    policy: AutoRestart
    life: Incarnation | None
    """The life that is wanted here; None: none is."""
    config_version: int
    started: bool
    """Its connector is to run: neither paused nor stopped."""
    now_s: float
    now_ms: int
    chance: float
    """From 0 to 1."""


@dataclass(frozen=True, slots=True)
class Again:
    """Restart it."""

    delay_s: float


def applies(policy: AutoRestart, instance: Instance) -> bool:
    """Whether an instance is supervised."""
    if isinstance(instance, TaskId):
        return policy.restarted is not Restarted.NONE
    return policy.restarted is Restarted.ALL


def decide(
    policy: AutoRestart, watched: Watched, trace: str, *, now_s: float, chance: float
) -> Again | GivenUp:
    """Say whether, and after which pause, what failed with `trace` is restarted."""
    failure = judge(trace)
    if failure is Failure.LASTING:
        return GivenUp.LASTING
    if failure is Failure.RECORD and watched.cured == first_line(trace):
        return GivenUp.SAME_RECORD
    count = len(recent(policy, watched.restarts, now_s))
    if count >= policy.most:
        return GivenUp.TOO_OFTEN
    return Again(backoff_s(policy, count, chance))


def recent(policy: AutoRestart, restarts: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    """Return the restarts that still count."""
    return tuple(each for each in restarts if each > now_s - policy.window_s)


def backoff_s(policy: AutoRestart, count: int, chance: float) -> float:
    """Return the pause before a restart that `count` others came before: doubled by each, less up to half of it."""
    longest = max(policy.backoff_s, LONGEST_BACKOFF_S)
    return min(policy.backoff_s * 2.0 ** min(count, _DOUBLINGS), longest) * (1 - chance / 2)


def failed(watched: Watched | None, life: Incarnation, trace: str, now: Situation) -> Watched:
    """Take note of a failure; telling the same one again, or an older life's, changes nothing. `look` has to follow."""
    if watched is not None and life < watched.life:
        return watched
    if watched is not None and watched.life == life:
        return watched if watched.trace is not None else replace(watched, trace=trace)
    return Watched(
        life=life,
        config_version=now.config_version,
        trace=trace,
        total=0 if watched is None else watched.total,
        restarted_ms=None if watched is None else watched.restarted_ms,
    )


def works(watched: Watched) -> Watched:
    """It runs: nothing is to be cured any more in this life."""
    return replace(watched, trace=None, due_s=None, due_ms=None, given_up=None)


def look(instance: Instance, watched: Watched, now: Situation) -> Watched:
    """Return what follows for an instance from how things stand now."""
    if now.life is None:  # not ours, for now or for ever: whoever runs it next begins anew
        return works(watched)
    if now.life < watched.life:  # a herder that has just come back has not said yet what it wants
        return watched
    if now.life != watched.life:
        return works(
            replace(watched, life=now.life, config_version=now.config_version, restarts=(), cured=None)
        )
    if watched.trace is None:
        return watched
    if now.config_version != watched.config_version:
        watched = replace(
            works(watched), trace=watched.trace, config_version=now.config_version, restarts=(), cured=None
        )
    if not now.started or not applies(now.policy, instance):
        return replace(watched, due_s=None, due_ms=None, given_up=None)
    if watched.due_s is not None or watched.given_up is not None:
        return watched
    decision = decide(now.policy, watched, watched.trace or "", now_s=now.now_s, chance=now.chance)
    if isinstance(decision, GivenUp):
        return replace(watched, given_up=decision)
    return replace(
        watched, due_s=now.now_s + decision.delay_s, due_ms=now.now_ms + round(decision.delay_s * 1000)
    )


def is_due(watched: Watched, now: Situation) -> bool:
    """Whether it is to be restarted now."""
    if watched.due_s is None or watched.due_s > now.now_s + _EARLY_S:
        return False
    return watched.life == now.life and now.started


def restarted(watched: Watched, life: Incarnation, now: Situation) -> Watched:
    """Return the same after its restart; `life` is what it is now."""
    return replace(
        works(watched),
        life=life,
        restarts=(*recent(now.policy, watched.restarts, now.now_s), now.now_s),
        total=watched.total + 1,
        restarted_ms=now.now_ms,
        cured=first_line(watched.trace or ""),
    )


def why_given_up(policy: AutoRestart, given_up: GivenUp) -> str:
    """Return a sentence for an operator, and what to do about it."""
    if given_up is GivenUp.LASTING:
        return "A restart does not cure this failure: change what its trace names, then restart it."
    if given_up is GivenUp.SAME_RECORD:
        return "The record that it was restarted for failed again: see its trace, then restart it."
    return (
        f"It was restarted {policy.most} times within {policy.window_s:g} s, and errors.auto.restart.max allows no "
        "more: see its trace, then restart it."
    )
