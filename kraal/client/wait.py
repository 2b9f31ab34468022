"""Wait until connectors reach their target state.

Connect answers requests before it carries them out, and reports old states for a moment. Therefore a state that may be
outdated counts only after it has not changed for a while; see `believed_s`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kraal.client import hints
from kraal.client.rest import NoAnswer, Refused, Rest, Unreachable
from kraal.client.status_tables import RUNNING, Status, Statuses, Verdict, summary, verdict
from kraal.core.errors import KraalError

_EVERY_S = 0.5
CHANGED_S = 2.0
"""How long RUNNING must last after a change of a connector that may have been RUNNING before."""
_DOUBTFUL_S = 5.0
"""How long FAILED, or RUNNING without tasks, must last."""
DELETED = "DELETED"
"""Target state of a connector that neither its config nor its status is left of."""
NO_LAG = "without lag"
"""Target state of a sink that has committed the end of each of its partitions."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """Result of one poll of a connector."""

    seen: object
    """What must stay equal for the verdict to last."""
    verdict: Verdict
    text: str
    """State of the connector, for errors."""


class NeverReached(KraalError):
    """A connector cannot reach its target state."""


class TooLate(KraalError):
    """A connector did not reach its target state; the message contains its status."""


def fetch(rest: Rest) -> Statuses:
    """Return the status of every connector by name; None for connectors without a status.

    Raises Refused, NoAnswer, Unreachable.
    """
    names = rest.names()
    found = rest.get("connectors", query=[("expand", "status")])
    return {name: found.get(name, {}).get("status") for name in names}


def fetch_one(rest: Rest, name: str, *, expand: str | None = None) -> Status | None:
    """Return the status of a connector, None if it has none. Raises Refused, NoAnswer, Unreachable.

    `expand` requests additional fields; Java workers ignore it.
    """
    try:
        query = [] if expand is None else [("expand", expand)]
        status: Status = rest.get("connectors", name, "status", query=query)
    except Refused as error:
        if error.not_found:
            return None
        raise
    return status


def believed_s(found: Verdict, settle_s: float) -> float | None:
    """Return how long a verdict must last until it counts, None if it never does. `settle_s`: see `wait`."""
    match found:
        case Verdict.READY:
            return settle_s
        case Verdict.FAILED | Verdict.WITHOUT_TASKS:
            return max(_DOUBTFUL_S, settle_s)
        case Verdict.PENDING:
            return None


def wait(
    rest: Rest, wanted: Mapping[str, str], *, settle_s: Mapping[str, float], timeout_s: float
) -> Iterator[tuple[str, KraalError | None]]:
    """Wait for connectors and yield each name when it is finished, with an error or None.

    Args:
        rest: the worker.
        wanted: RUNNING, PAUSED, STOPPED, DELETED or NO_LAG, by name.
        settle_s: how long the state must last, by name (default: 0).
        timeout_s: for all connectors together.
    """
    deadline = rest.clock.now() + timeout_s
    left = dict(wanted)
    last: dict[str, tuple[_Sight, float]] = {}
    while left:
        trouble = ""
        for name in list(left):
            try:
                sight = _look(rest, name, left[name])
            except NeverReached as error:
                yield name, error
                del left[name]
                continue
            except (Refused, NoAnswer, Unreachable) as error:  # the worker may be restarting
                trouble = str(error)
                continue
            now = rest.clock.now()
            if name not in last or last[name][0].seen != sight.seen:
                last[name] = (sight, now)
            enough_s = believed_s(sight.verdict, settle_s.get(name, 0.0))
            if enough_s is not None and now - last[name][1] >= enough_s:
                failed = sight.verdict is Verdict.FAILED
                yield name, TooLate(f"{name} failed: {sight.text}", hint=hints.FAILED) if failed else None
                del left[name]
        if left and rest.clock.now() >= deadline:
            for name, state in left.items():
                is_now = trouble or (last[name][0].text if name in last else summary(None))
                text = f"{name} is not {state} after {timeout_s:g} s: {is_now}"
                yield name, TooLate(text, hint=hints.TOO_LATE)
            return
        if left:
            rest.clock.pause(min(_EVERY_S, max(deadline - rest.clock.now(), 0.01)))


def _look(rest: Rest, name: str, wanted: str) -> _Sight:
    """Poll a connector once. Raises Refused, NoAnswer, Unreachable, NeverReached."""
    status = fetch_one(rest, name)
    if wanted == NO_LAG:
        return _lag(rest, name, status)
    if wanted != DELETED:
        return _Sight(status, verdict(status, wanted), summary(status))
    is_left = status is not None or _exists(rest, name)
    return _Sight(status, Verdict.PENDING if is_left else Verdict.READY, summary(status))


def _lag(rest: Rest, name: str, status: Status | None) -> _Sight:
    """Poll the lag of a sink. Raises NeverReached for a source, or if the worker does not report lag."""
    if status is None or verdict(status, RUNNING) is Verdict.FAILED:
        found = Verdict.PENDING if status is None else Verdict.FAILED
        return _Sight(status, found, summary(status))
    if status.get("type") == "source":
        raise NeverReached(f"{name} is a source connector, which has no lag")
    entries = rest.get("connectors", name, "offsets", query=[("expand", "lag")])["offsets"]
    if any("lag" not in each for each in entries):
        raise NeverReached(f"{rest.target.url} does not report the lag of {name}; only Kraal's workers do")
    if not entries:
        return _Sight(status, Verdict.PENDING, "it has not committed an offset yet")
    behind = [each for each in entries if each["lag"] != 0]
    lag = sum(each["lag"] or 0 for each in behind)
    text = f"it is {lag} offsets behind in {len(behind)} of {len(entries)} partitions"
    return _Sight(entries, Verdict.PENDING if behind else Verdict.READY, text)


def _exists(rest: Rest, name: str) -> bool:
    try:
        rest.get("connectors", name)
    except Refused as error:
        if error.not_found:
            return False
        raise
    return True


def current_target(status: Status | None) -> str:
    """Return the target state of a connector as far as its status shows it."""
    state = None if status is None else status.get("connector", {}).get("state")
    return state if state in ("PAUSED", "STOPPED") else RUNNING
