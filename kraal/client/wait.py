"""Wait until connectors reach their target state.

Connect answers requests before it carries them out, and reports old states for a moment. Therefore a state that may be
outdated counts only after it has not changed for a while; see `believed_s`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus

from kraal.client.rest import NoAnswer, Refused, Rest, Unreachable
from kraal.client.status_tables import RUNNING, Status, Statuses, Verdict, summary, verdict
from kraal.core.errors import KraalError

_EVERY_S = 0.5
CHANGED_S = 2.0
"""How long RUNNING must last after a change of a connector that may have been RUNNING before."""
_DOUBTFUL_S = 5.0
"""How long FAILED, or RUNNING without tasks, must last."""


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
        if error.status == HTTPStatus.NOT_FOUND and not error.no_such_path:
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
        wanted: RUNNING, PAUSED or STOPPED, by name.
        settle_s: how long the state must last, by name (default: 0).
        timeout_s: for all connectors together.
    """
    deadline = rest.clock.now() + timeout_s
    left = dict(wanted)
    seen: dict[str, tuple[Status | None, float]] = {}
    while left:
        trouble = ""
        for name in list(left):
            try:
                status = fetch_one(rest, name)
            except (Refused, NoAnswer, Unreachable) as error:  # the worker may be restarting
                trouble = str(error)
                continue
            now = rest.clock.now()
            if name not in seen or seen[name][0] != status:
                seen[name] = (status, now)
            found = verdict(status, left[name])
            enough_s = believed_s(found, settle_s.get(name, 0.0))
            if enough_s is not None and now - seen[name][1] >= enough_s:
                yield (
                    name,
                    None if found is not Verdict.FAILED else TooLate(f"{name} failed: {summary(status)}"),
                )
                del left[name]
        if left and rest.clock.now() >= deadline:
            for name, state in left.items():
                is_now = trouble or summary(seen[name][0] if name in seen else None)
                yield name, TooLate(f"{name} is not {state} after {timeout_s:g} s: {is_now}")
            return
        if left:
            rest.clock.pause(min(_EVERY_S, max(deadline - rest.clock.now(), 0.01)))


def current_target(status: Status | None) -> str:
    """Return the target state of a connector as far as its status shows it."""
    state = None if status is None else status.get("connector", {}).get("state")
    return state if state in ("PAUSED", "STOPPED") else RUNNING
