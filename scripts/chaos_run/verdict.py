"""The verdict on a run: one line per guarantee of Kraal, met or not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scripts.chaos_run.lines import Delivery

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The observations of a run."""

    deliveries: Mapping[str, Delivery]
    """Deliveries by pipe."""
    responses: Mapping[int, int]
    """Number of REST responses by status code."""
    unanswered: int
    """Requests without a response: refused or broken connections, and timeouts."""
    malformed: Sequence[str]
    back_s: float | None
    """Seconds from the last repair until the target state was reached; None if it was not."""
    bound_s: float
    missing: str
    """How the final state differs from the target state."""
    ended: Sequence[str]
    """Workers that exited without having been killed, and those that failed to stop properly on SIGTERM."""
    died: Sequence[str]
    """Deaths of actors that were not injected."""
    backwards: Sequence[str]
    """Decreases of the offsets of sources and sinks, due to a commit of a former owner after that of its successor."""
    held_back: Sequence[str]
    """Offsets of sources that the network delivered after those of the successor."""
    commits: int
    """Number of checked commits of the pipes' sources and sinks."""
    leaks: Sequence[str]
    left: Sequence[str]
    """Processes that outlived their worker."""
    twice: Sequence[str]
    """Violations of exactly-once delivery by the sink that guarantees it."""
    disordered: Sequence[str]
    """Topics whose records are not in the order of their source."""
    broken: Sequence[str]
    """Guarantees that were violated during a fault."""
    failed: Sequence[str]
    """Faults that could not be injected or undone."""
    standstill_s: float
    """Maximum time without progress of a sink file."""
    lanes: Mapping[str, int] = field(default_factory=dict)
    """Number of logged events of lanes, by event."""
    killed: Mapping[str, int] = field(default_factory=dict)
    """Number of injected faults by kind."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the verdict; `met` is None for information."""

    text: str
    met: bool | None


def verdict(findings: Findings) -> list[Line]:
    """Return all lines, starting with information."""
    return [*_list_information(findings), *_list_guarantees(findings)]


def is_passed(lines: Sequence[Line]) -> bool:
    """Return whether every guarantee is met."""
    return all(each.met is not False for each in lines)


def _list_information(findings: Findings) -> list[Line]:
    faults = ", ".join(f"{count} x {kind}" for kind, count in sorted(findings.killed.items()))
    lanes = ", ".join(f"{count} x {event}" for event, count in sorted(findings.lanes.items()))
    codes = ", ".join(f"{count} x {status}" for status, count in sorted(findings.responses.items()))
    deliveries = findings.deliveries.values()
    written, repeated = sum(d.written for d in deliveries), sum(d.repeated for d in deliveries)
    stretches = sum(d.stretches for d in deliveries)
    return [
        Line(f"faults: {faults or 'none'}", None),
        Line(f"lanes: {lanes or 'none started'}", None),
        Line(f"REST: {codes or 'nothing'}; {findings.unanswered} without a response", None),
        Line(f"records: {written}, of which {repeated} were repeated, in {stretches} stretches", None),
        Line(
            f"commits checked: {findings.commits}; {len(findings.held_back)} held back by the network", None
        ),
        Line(f"longest standstill of a pipe: {findings.standstill_s:.1f} s", None),
    ]


def _list_guarantees(findings: Findings) -> list[Line]:
    back = findings.back_s is not None and findings.back_s <= findings.bound_s
    took = "never" if findings.back_s is None else f"after {findings.back_s:.1f} s"
    missing = _append_missing(findings.missing, back=back)
    return [
        *(_check_delivery(pipe, each) for pipe, each in sorted(findings.deliveries.items())),
        _require_none(
            "the records of each task are in order in their topic, apart from repetitions",
            findings.disordered,
        ),
        _require_none("files of offsets hold each record exactly once", findings.twice),
        Line(f"target state reached {took} (bound {findings.bound_s:.0f} s){missing}", back),
        _require_none("every REST response is well-formed", findings.malformed),
        _require_none("no worker exited unexpectedly, and all exited with 0", findings.ended),
        _require_none("no actor died except by this script", findings.died),
        _require_none(
            "no offset of a source or sink decreased: no former owner sent a commit", findings.backwards
        ),
        *([] if findings.commits else [Line("no commits were checked", met=False)]),
        _require_none(
            "slow sinks commit, hostile records and small topics stop no pipe, and every standstill has a cause",
            findings.broken,
        ),
        _require_none("no thread or file was leaked", findings.leaks),
        _require_none("no process remained", findings.left),
        _require_none("every fault was injected and undone", findings.failed),
    ]


def _append_missing(missing: str, *, back: bool) -> str:
    return "" if back or not missing else f": {missing}"


def _check_delivery(pipe: str, each: Delivery) -> Line:
    if each.written == 0:
        return Line(f"{pipe}: nothing was written", met=False)
    text = f"{pipe}: {each.written - each.missing} of {each.written} records delivered"
    if each.missing:
        text += f", the first missing one is {each.first_missing}"
    if each.strange:
        text += f", {each.strange} lines that were never written, such as {each.strange_example!r}"
    return Line(text, met=not each.missing and not each.strange)


def _require_none(promise: str, faults: Sequence[str]) -> Line:
    if not faults:
        return Line(promise, met=True)
    listed = "".join(f"\n      {each}" for each in faults[:_SHOWN])
    more = f"\n      and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return Line(f"{promise}: violated {len(faults)} times{listed}{more}", met=False)
