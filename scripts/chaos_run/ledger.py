"""Compares the totals of the workers' ledger with the lines of the pipes and the ends of their topics.

The lines of a pipe have the same length, so the positions of its source are converted to numbers of lines.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraal.broker.records import BrokerRecord
from scripts.chaos_run.lines import Delivery, make_line
from scripts.chaos_run.members import Member
from scripts.chaos_run.pipes import Pipe

TIMEOUT_S: Final = 30.0
"""Time within which all workers must have written the totals of the last batches."""
_POLL_INTERVAL_S: Final = 1.0
_OK: Final = 200
_COUNTS: Final = ("read", "written", "dropped", "dead_letters", "tolerated", "break_count")


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the ledger must contain for a pipe."""

    delivery: Delivery
    ends: Mapping[int, int]
    """The end offset of each partition of the pipe's topic."""
    fault_count: int
    """Number of injected faults. Each of them may leave one uncounted range in a partition."""


def find_disagreements(
    member: Member,
    pipes: Sequence[Pipe],
    expectations: Mapping[str, Expectation],
    read_records: Callable[[], Iterable[BrokerRecord]],
) -> list[str]:
    """Return how the ledger differs from the expectations, once they agree or `TIMEOUT_S` have passed.

    `read_records` returns the records of the ledger's topic.
    """
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        disagreements = [
            f"{pipe.name}-{role}: {difference}"
            for pipe in pipes
            for role in ("source", "sink")
            for difference in _compare(member, pipe, role, expectations[pipe.name])
        ]
        disagreements += find_leftovers(read_records(), [name for pipe in pipes for name in pipe.configs])
        if not disagreements or time.monotonic() > deadline_s:
            return disagreements
        time.sleep(_POLL_INTERVAL_S)


def _compare(member: Member, pipe: Pipe, role: str, expected: Expectation) -> Iterator[str]:
    response = member.process.get(f"/connectors/{pipe.name}-{role}/ledger")
    if response.status != _OK:
        return iter([f"no totals: {response.status} {response.body}"])
    if role == "sink":
        return compare_sink(response.body, expected)
    return compare_source(response.body, expected, len(make_line(pipe.name, 0)))


def compare_source(totals: Mapping[str, Any], expected: Expectation, line_length: int) -> Iterator[str]:
    """Yield how the totals of a pipe's source differ from the lines in its file. Pure.

    Lines that were written twice are counted once, because a batch is counted when its offset is stored.
    """
    yield from _check_law(totals)
    read, written_count = _sum_up(totals, "read"), expected.delivery.written_count
    if len(totals["partitions"]) != 1:
        yield f"{len(totals['partitions'])} partitions instead of one file"
        return
    [partition] = totals["partitions"]
    end = _count_lines(partition["end"], line_length)
    if end != written_count:
        yield f"the counted ranges end at line {end} instead of {written_count}"
    yield from _check_uncounted(partition, expected)
    uncounted = _count_uncounted(partition, lambda position: _count_lines(position, line_length))
    if uncounted is not None and read + uncounted != end:
        yield f"{read} lines were read and {uncounted} not counted, but the file has {end}"


def compare_sink(totals: Mapping[str, Any], expected: Expectation) -> Iterator[str]:
    """Yield how the totals of a pipe's sink differ from its topic and from the lines that it has written. Pure."""
    yield from _check_law(totals)
    read, written = _sum_up(totals, "read"), _sum_up(totals, "written")
    ends = {each["partition"]["kafka_partition"]: each["end"] for each in totals["partitions"]}
    expected_ends = {partition: end for partition, end in expected.ends.items() if end}
    if ends != expected_ends:
        yield f"the counted ranges end at {ends} instead of {expected_ends}"
    for partition in totals["partitions"]:
        yield from _check_uncounted(partition, expected)
    counts = [_count_uncounted(partition, int) for partition in totals["partitions"]]
    uncounted, repeated = sum(count or 0 for count in counts), _sum_up(totals, "repeated", "partitions")
    if None not in counts and read + uncounted - repeated != sum(ends.values()):
        yield (
            f"{read} records were read, {repeated} of them again, and {uncounted} not counted, but the topic has"
            f" {sum(ends.values())}"
        )
    if written - repeated > expected.delivery.delivered_count:  # a file of a range replaces an earlier one
        yield f"{written - repeated} lines were written, but {expected.delivery.delivered_count} were delivered"


def find_leftovers(records: Iterable[BrokerRecord], names: Iterable[str]) -> list[str]:
    """Return messages about totals of connectors that do not exist. `records` must be those of the topic. Pure."""
    latest = {record.key: record.value for record in records if record.key is not None}
    connectors = {json.loads(key)[0] for key, value in latest.items() if value is not None}
    return [f"the ledger has totals of {name}, which was deleted" for name in sorted(connectors - set(names))]


def _check_law(totals: Mapping[str, Any]) -> Iterator[str]:
    """Yield breaks of the law, and differences between the counts if both sides are counted."""
    if totals["problem"] is not None:
        yield f"the ledger has a problem: {totals['problem']}"
    for task in totals["tasks"]:
        if task["break_count"]:
            yield f"{task['break_count']} breaks, such as {task['breaks'][-1]}"
    if any(task["batches_without_read"] or task["batches_without_written"] for task in totals["tasks"]):
        return
    counts = {name: _sum_up(totals, name) for name in _COUNTS}
    if counts["read"] != counts["written"]:
        yield f"{counts['read']} records were read, and {counts['written']} written: {counts}"


def _check_uncounted(partition: Mapping[str, Any], expected: Expectation) -> Iterator[str]:
    count = partition["uncounted_count"]
    if count > expected.fault_count:
        yield f"{count} uncounted ranges after {expected.fault_count} faults"


def _count_uncounted(partition: Mapping[str, Any], convert: Callable[[Any], int]) -> int | None:
    """Return the number of records that are not counted; None if the ledger does not list all ranges."""
    uncounted = partition["uncounted"]
    if len(uncounted) < partition["uncounted_count"]:
        return None
    ranges = sum(convert(each["end"]) - convert(each["start"]) for each in uncounted)
    return ranges + convert(partition["since"] or 0)


def _count_lines(position: Any, line_length: int) -> int:
    return int(position["position"]) // line_length if position else 0


def _sum_up(totals: Mapping[str, Any], name: str, items: str = "tasks") -> int:
    return sum(int(each[name]) for each in totals[items])
