"""Whether the cluster kept what Kraal promises: one line for each promise, met or not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scripts.chaos_run.lines import Delivery

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was seen."""

    deliveries: Mapping[str, Delivery]
    """By pipe."""
    answers: Mapping[int, int]
    """How often REST answered with each status."""
    unanswered: int
    """Requests without an answer: connections refused or broken, and time-outs."""
    malformed: Sequence[str]
    back_s: float | None
    """From the last repair until all was as it is wanted; None: never."""
    bound_s: float
    missing: str
    """What was not as it is wanted in the end."""
    ended: Sequence[str]
    """Workers that ended though no one killed them, and such that did not end well when they were told to."""
    died: Sequence[str]
    """Deaths of actors that no one asked for."""
    backwards: Sequence[str]
    """Offsets of sources and sinks that went back: an old owner's commit after the new one's."""
    held_back: Sequence[str]
    """Offsets of sources that the network delivered after those of the new owner."""
    commits: int
    """Of the pipes' sources and sinks, that were looked at."""
    leaks: Sequence[str]
    left: Sequence[str]
    """Processes that outlived what they belong to."""
    twice: Sequence[str]
    """Where a sink that writes each record exactly once did not."""
    disordered: Sequence[str]
    """Topics whose records are not in the order of their task."""
    broken: Sequence[str]
    """Promises that were broken while a fault lasted."""
    failed: Sequence[str]
    """Faults that the script could not carry out or undo."""
    standstill_s: float
    """The longest time without a line in some sink file."""
    lanes: Mapping[str, int] = field(default_factory=dict)
    """How often workers logged what happened to their lanes, by event."""
    killed: Mapping[str, int] = field(default_factory=dict)
    """Faults that were carried out, by kind."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the verdict; `met` None: it only tells."""

    text: str
    met: bool | None


def verdict(findings: Findings) -> list[Line]:
    """Return all lines, those that tell first."""
    return [*_told(findings), *_judged(findings)]


def passed(lines: Sequence[Line]) -> bool:
    """Whether no line is unmet."""
    return all(each.met is not False for each in lines)


def _told(findings: Findings) -> list[Line]:
    faults = ", ".join(f"{count} x {kind}" for kind, count in sorted(findings.killed.items()))
    lanes = ", ".join(f"{count} x {event}" for event, count in sorted(findings.lanes.items()))
    codes = ", ".join(f"{count} x {status}" for status, count in sorted(findings.answers.items()))
    deliveries = findings.deliveries.values()
    written, repeated = sum(d.written for d in deliveries), sum(d.repeated for d in deliveries)
    stretches = sum(d.stretches for d in deliveries)
    return [
        Line(f"faults: {faults or 'none'}", None),
        Line(f"lanes: {lanes or 'none started'}", None),
        Line(f"REST: {codes or 'nothing'}; {findings.unanswered} without an answer", None),
        Line(f"records: {written}, of which {repeated} came again, in {stretches} stretches", None),
        Line(
            f"commits looked at: {findings.commits}; {len(findings.held_back)} held back by the network", None
        ),
        Line(f"longest standstill of a pipe: {findings.standstill_s:.1f} s", None),
    ]


def _judged(findings: Findings) -> list[Line]:
    back = findings.back_s is not None and findings.back_s <= findings.bound_s
    took = "never" if findings.back_s is None else f"after {findings.back_s:.1f} s"
    return [
        *(_delivered(pipe, each) for pipe, each in sorted(findings.deliveries.items())),
        _none(
            "the records of each task are in order in their topic, apart from repetitions",
            findings.disordered,
        ),
        _none("files of offsets hold each record exactly once", findings.twice),
        Line(
            f"back to the wanted state {took} (bound {findings.bound_s:.0f} s){_and(findings.missing, back=back)}",
            back,
        ),
        _none("every answer of REST is well-formed", findings.malformed),
        _none("no worker ended by itself, and all ended with 0", findings.ended),
        _none("no actor died of anything but this script", findings.died),
        _none("no offset of a source or sink went back: no old owner sent a commit", findings.backwards),
        *([] if findings.commits else [Line("not one commit was found", met=False)]),
        _none(
            "slow sinks commit, hostile records and small topics stop nothing, and what stands still says why",
            findings.broken,
        ),
        _none("no thread or file was leaked", findings.leaks),
        _none("no process was left", findings.left),
        _none("every fault was carried out and undone", findings.failed),
    ]


def _and(missing: str, *, back: bool) -> str:
    return "" if back or not missing else f": {missing}"


def _delivered(pipe: str, each: Delivery) -> Line:
    if each.written == 0:
        return Line(f"{pipe}: nothing was written", met=False)
    text = f"{pipe}: {each.written - each.missing} of {each.written} records delivered"
    if each.missing:
        text += f", the first missing one is {each.first_missing}"
    if each.strange:
        text += f", {each.strange} lines that were never written, such as {each.an_example!r}"
    return Line(text, met=not each.missing and not each.strange)


def _none(promise: str, faults: Sequence[str]) -> Line:
    if not faults:
        return Line(promise, met=True)
    shown = "".join(f"\n      {each}" for each in faults[:_SHOWN])
    more = f"\n      and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return Line(f"{promise}: not so {len(faults)} times{shown}{more}", met=False)
