"""Waits until connectors reach their target state.

Connect responds to requests before it carries them out, and briefly reports old states. A possibly outdated state
therefore counts only after it has been stable for some time; see `required_s`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kraal.client import hints
from kraal.client.rest import NoResponse, RequestRejected, Rest, Unreachable
from kraal.client.status_tables import RUNNING, Status, Statuses, Verdict, summary, verdict
from kraal.core.errors import KraalError

_POLL_INTERVAL_S = 0.5
SETTLE_S = 2.0
"""Minimum duration of RUNNING after a change of a connector that may already have been RUNNING."""
_UNCERTAIN_SETTLE_S = 5.0
"""Minimum duration of FAILED, or of RUNNING without tasks."""
DELETED = "DELETED"
"""Target state of a connector without config and status."""
NO_LAG = "without lag"
"""Target state of a sink that has committed the end offset of each of its partitions."""


@dataclass(frozen=True, slots=True)
class _PollResult:
    """Result of one poll of a connector."""

    observed_value: object
    """Value that must not change while the verdict lasts."""
    verdict: Verdict
    text: str
    """State of the connector, for errors."""


class StateUnreachable(KraalError):
    """A connector cannot reach its target state."""


class WaitTimedOut(KraalError):
    """A connector failed, or did not reach its target state in time; the message contains its status."""


def fetch(rest: Rest, *, expand: str | None = None) -> Statuses:
    """Return the status of every connector by name; None for connectors without a status.

    `expand` requests an additional field of each status; Java workers ignore it. Raises RequestRejected, NoResponse,
    Unreachable.
    """
    names = rest.names()
    query = [("expand", "status"), *([] if expand is None else [("expand", expand)])]
    parts_by_name = rest.get("connectors", query=query)
    return {name: _to_status(parts_by_name.get(name, {}), expand) for name in names}


def _to_status(parts: Mapping[str, Any], expand: str | None) -> Status | None:
    """Return the status of a connector in the form of its own endpoint, in which `expand` is a field of the status."""
    status: Status | None = parts.get("status")
    if status is None or expand is None or expand not in parts:
        return status
    return {**status, expand: parts[expand]}


def fetch_one(rest: Rest, name: str, *, expand: str | None = None) -> Status | None:
    """Return the status of a connector; None if it has no status. Raises RequestRejected, NoResponse, Unreachable.

    `expand` requests additional fields; Java workers ignore it.
    """
    try:
        query = [] if expand is None else [("expand", expand)]
        status: Status = rest.get("connectors", name, "status", query=query)
    except RequestRejected as error:
        if error.is_not_found:
            return None
        raise
    return status


def required_s(current: Verdict, settle_s: float) -> float | None:
    """Return how long a verdict must last to count; None if it never counts. See `wait` for `settle_s`."""
    match current:
        case Verdict.READY:
            return settle_s
        case Verdict.FAILED | Verdict.WITHOUT_TASKS:
            return max(_UNCERTAIN_SETTLE_S, settle_s)
        case Verdict.PENDING:
            return None


def wait(
    rest: Rest, targets: Mapping[str, str], *, settle_s: Mapping[str, float], timeout_s: float
) -> Iterator[tuple[str, KraalError | None]]:
    """Wait for connectors; yield each name with an error, or with None if it reached its target state.

    Args:
        rest: the worker.
        targets: RUNNING, PAUSED, STOPPED, DELETED or NO_LAG, by name.
        settle_s: minimum duration of the state, by name (default: 0).
        timeout_s: timeout for all connectors together.
    """
    deadline = rest.clock.now() + timeout_s
    remaining_targets = dict(targets)
    last_polls: dict[str, tuple[_PollResult, float]] = {}
    while remaining_targets:
        problem = ""
        for name in list(remaining_targets):
            try:
                result = _poll(rest, name, remaining_targets[name])
            except StateUnreachable as error:
                yield name, error
                del remaining_targets[name]
                continue
            except (RequestRejected, NoResponse, Unreachable) as error:  # the worker may be restarting
                problem = str(error)
                continue
            now = rest.clock.now()
            if name not in last_polls or last_polls[name][0].observed_value != result.observed_value:
                last_polls[name] = (result, now)
            minimum_s = required_s(result.verdict, settle_s.get(name, 0.0))
            if minimum_s is not None and now - last_polls[name][1] >= minimum_s:
                has_failed = result.verdict is Verdict.FAILED
                yield (
                    name,
                    WaitTimedOut(f"{name} failed: {result.text}", hint=hints.FAILED) if has_failed else None,
                )
                del remaining_targets[name]
        if remaining_targets and rest.clock.now() >= deadline:
            for name, state in remaining_targets.items():
                description = problem or (last_polls[name][0].text if name in last_polls else summary(None))
                text = f"{name} is not {state} after {timeout_s:g} s: {description}"
                yield name, WaitTimedOut(text, hint=hints.TOO_LATE)
            return
        if remaining_targets:
            rest.clock.pause(min(_POLL_INTERVAL_S, max(deadline - rest.clock.now(), 0.01)))


def _poll(rest: Rest, name: str, target: str) -> _PollResult:
    """Poll a connector once. Raises RequestRejected, NoResponse, Unreachable, StateUnreachable."""
    status = fetch_one(rest, name)
    if target == NO_LAG:
        return _poll_lag(rest, name, status)
    if target != DELETED:
        return _PollResult(status, verdict(status, target), summary(status))
    still_exists = status is not None or _exists(rest, name)
    return _PollResult(status, Verdict.PENDING if still_exists else Verdict.READY, summary(status))


def _poll_lag(rest: Rest, name: str, status: Status | None) -> _PollResult:
    """Poll the lag of a sink. Raises StateUnreachable for a source, or if the worker does not report lag."""
    if status is None or verdict(status, RUNNING) is Verdict.FAILED:
        current_verdict = Verdict.PENDING if status is None else Verdict.FAILED
        return _PollResult(status, current_verdict, summary(status))
    if status.get("type") == "source":
        raise StateUnreachable(f"{name} is a source connector, which has no lag")
    entries = rest.get("connectors", name, "offsets", query=[("expand", "lag")])["offsets"]
    if any("lag" not in entry for entry in entries):
        raise StateUnreachable(
            f"{rest.target.url} does not report the lag of {name}; only Kraal's workers do"
        )
    if not entries:
        return _PollResult(status, Verdict.PENDING, "it has not committed an offset yet")
    lagging_entries = [entry for entry in entries if entry["lag"] != 0]
    lag = sum(entry["lag"] or 0 for entry in lagging_entries)
    text = f"it is {lag} offsets behind in {len(lagging_entries)} of {len(entries)} partitions"
    return _PollResult(entries, Verdict.PENDING if lagging_entries else Verdict.READY, text)


def _exists(rest: Rest, name: str) -> bool:
    try:
        rest.get("connectors", name)
    except RequestRejected as error:
        if error.is_not_found:
            return False
        raise
    return True


def current_target(status: Status | None) -> str:
    """Return the target state of a connector, as far as it can be inferred from the status."""
    state = None if status is None else status.get("connector", {}).get("state")
    return state if state in ("PAUSED", "STOPPED") else RUNNING
