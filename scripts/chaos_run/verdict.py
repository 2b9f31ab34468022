"""The verdict on a run: one line per guarantee of Kraal, met or not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scripts.chaos_run.lines import Delivery

_MAX_LISTED_FAULTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The observations of a run."""

    deliveries: Mapping[str, Delivery]
    """Deliveries by pipe."""
    responses: Mapping[int, int]
    """Number of REST responses by status code."""
    unanswered_count: int
    """Number of requests without a response: refused or broken connections, and timeouts."""
    malformed_responses: Sequence[str]
    """Responses that are not well-formed."""
    recovery_s: float | None
    """Seconds from the last repair until the target state was reached; None if the state was not reached."""
    recovery_limit_s: float
    missing: str
    """Description of the difference between the final state and the target state; empty if there is none."""
    unexpected_exits: Sequence[str]
    """Workers that exited without having been killed, or that failed to stop properly on SIGTERM."""
    unexpected_deaths: Sequence[str]
    """Deaths of actors that were not injected."""
    offset_regressions: Sequence[str]
    """Decreases of the offsets of sources and sinks, caused by a previous owner that committed after its successor."""
    delayed_offsets: Sequence[str]
    """Offsets of sources that the network delivered after the successor's offsets."""
    commits: int
    """Number of checked commits of the pipes' sources and sinks."""
    leaks: Sequence[str]
    """Resources that exceed their limits after the run."""
    remaining_processes: Sequence[str]
    """Processes that outlived their worker."""
    exactly_once_violations: Sequence[str]
    """Violations of exactly-once delivery by the sinks that guarantee it."""
    out_of_order: Sequence[str]
    """Topics whose records are not in the order of their source."""
    violations: Sequence[str]
    """Guarantees that were violated during a fault."""
    failed_faults: Sequence[str]
    """Faults that could not be injected or undone."""
    proof_disagreements: Sequence[str]
    """Differences between the lines of the sinks and `kraal prove`."""
    ledger_disagreements: Sequence[str]
    """Differences between the ledger and the lines of the pipes."""
    standstill_s: float
    """Maximum time without progress of a sink file."""
    lane_events: Mapping[str, int] = field(default_factory=dict)
    """Number of logged events of lanes, by event."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """Number of injected faults by kind."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the verdict; `is_met` is None for an informational line."""

    text: str
    is_met: bool | None


def make_verdict(findings: Findings) -> list[Line]:
    """Return all lines, starting with the informational ones."""
    return [*_list_information(findings), *_list_guarantees(findings)]


def meets_all_guarantees(lines: Sequence[Line]) -> bool:
    """Return whether every guarantee is met."""
    return all(line.is_met is not False for line in lines)


def _list_information(findings: Findings) -> list[Line]:
    faults = ", ".join(f"{count} x {kind}" for kind, count in sorted(findings.faults.items()))
    lanes = ", ".join(f"{count} x {event}" for event, count in sorted(findings.lane_events.items()))
    codes = ", ".join(f"{count} x {status}" for status, count in sorted(findings.responses.items()))
    deliveries = findings.deliveries.values()
    line_count = sum(delivery.written_count for delivery in deliveries)
    duplicate_count = sum(delivery.duplicate_count for delivery in deliveries)
    decrease_count = sum(delivery.decrease_count for delivery in deliveries)
    return [
        Line(f"faults: {faults or 'none'}", None),
        Line(f"lanes: {lanes or 'none started'}", None),
        Line(f"REST: {codes or 'nothing'}; {findings.unanswered_count} without a response", None),
        Line(f"records: {line_count}; {duplicate_count} duplicates in {decrease_count} stretches", None),
        Line(
            f"commits checked: {findings.commits}; {len(findings.delayed_offsets)} delayed by the network",
            None,
        ),
        Line(f"longest standstill of a pipe: {findings.standstill_s:.1f} s", None),
    ]


def _list_guarantees(findings: Findings) -> list[Line]:
    is_recovered = findings.recovery_s is not None and findings.recovery_s <= findings.recovery_limit_s
    when = "never" if findings.recovery_s is None else f"after {findings.recovery_s:.1f} s"
    missing = _append_missing(findings.missing, is_recovered=is_recovered)
    return [
        *(_check_delivery(pipe, delivery) for pipe, delivery in sorted(findings.deliveries.items())),
        _require_none(
            "the records of each task are in order in their topic, ignoring duplicates",
            findings.out_of_order,
        ),
        _require_none(
            "the files and tables of the exactly-once sinks contain each record once",
            findings.exactly_once_violations,
        ),
        Line(f"target state reached {when} (limit {findings.recovery_limit_s:.0f} s){missing}", is_recovered),
        _require_none("every REST response is well-formed", findings.malformed_responses),
        _require_none("no worker exited unexpectedly, and all exited with 0", findings.unexpected_exits),
        _require_none("no actor died except through an injected fault", findings.unexpected_deaths),
        _require_none(
            "no offset of a source or sink decreased, so no previous owner sent a late commit",
            findings.offset_regressions,
        ),
        *([] if findings.commits else [Line("no commits were checked", is_met=False)]),
        _require_none(
            "slow sinks commit, no pipe stops at hostile records or small topics, and every standstill has a cause",
            findings.violations,
        ),
        _require_none(
            "`kraal prove` reads each line of the sinks, and finds none missing that was delivered",
            findings.proof_disagreements,
        ),
        _require_none(
            "the ledger has counted each line and record, or names the range, and no record is unaccounted for",
            findings.ledger_disagreements,
        ),
        _require_none("no thread or file was leaked", findings.leaks),
        _require_none("no process remained", findings.remaining_processes),
        _require_none("every fault was injected and undone", findings.failed_faults),
    ]


def _append_missing(missing: str, *, is_recovered: bool) -> str:
    return "" if is_recovered or not missing else f": {missing}"


def _check_delivery(pipe: str, delivery: Delivery) -> Line:
    if delivery.written_count == 0:
        return Line(f"{pipe}: nothing was written", is_met=False)
    distinct_count = delivery.written_count - delivery.missing_count
    text = f"{pipe}: {distinct_count} of {delivery.written_count} records delivered"
    if delivery.missing_count:
        text += f", first missing: {delivery.first_missing}"
    if delivery.unknown_count:
        text += (
            f", {delivery.unknown_count} lines that were never written, such as {delivery.unknown_example!r}"
        )
    return Line(text, is_met=not delivery.missing_count and not delivery.unknown_count)


def _require_none(guarantee: str, faults: Sequence[str]) -> Line:
    if not faults:
        return Line(guarantee, is_met=True)
    fault_lines = "".join(f"\n      {fault}" for fault in faults[:_MAX_LISTED_FAULTS])
    remainder = (
        f"\n      and {len(faults) - _MAX_LISTED_FAULTS} more" if len(faults) > _MAX_LISTED_FAULTS else ""
    )
    return Line(f"{guarantee}: violated {len(faults)} times{fault_lines}{remainder}", is_met=False)
