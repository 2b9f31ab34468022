"""Which offsets a sink reads next: decided before any job, because Spark's reader fails on gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kraal.config.batches import DEFAULT_MAX_RECORDS
from kraal.plugins.api import TopicPartition

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Offsets `[start, end)` of each partition."""

PIECE_RECORDS = 50_000
"""A single partition's records are read by several of Spark's tasks where each gets so many."""
MAX_BYTES = 512 * 1024 * 1024
"""A batch has no more, by the mean size of the records last seen."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the broker has of a partition: `[low, high)`."""

    low: int
    high: int


class OffsetOutOfRange(Exception):
    """A partition has no usable position, and `auto.offset.reset` is `none`."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where to read a partition from; `gap` says why it is not where the group had left off."""

    offset: int
    gap: str | None = None


def start_of(partition: TopicPartition, committed: int | None, bounds: Bounds, policy: str) -> Start:
    """Decide where to start. Raises OffsetOutOfRange when the policy is `none` and there is no good offset.

    Source: consumer's `auto.offset.reset`; KafkaConsumer resets missing and out-of-range offsets alike.
    """
    if committed is not None and bounds.low <= committed <= bounds.high:
        return Start(committed)
    where = f"{partition.topic}-{partition.partition}"
    if policy not in {"earliest", "latest"}:
        has = "no committed offset" if committed is None else f"the committed offset {committed}"
        raise OffsetOutOfRange(
            f"{where}: {has} is not in [{bounds.low}, {bounds.high}] and auto.offset.reset is {policy}"
        )
    offset = bounds.low if policy == "earliest" else bounds.high
    if committed is None:
        return Start(offset)
    return Start(
        offset, f"{where}: offset {committed} is not in [{bounds.low}, {bounds.high}]; goes on at {offset}"
    )


def next_ranges(
    positions: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, Bounds],
    *,
    record_bytes: float = 0.0,
    most: int = DEFAULT_MAX_RECORDS,
) -> dict[TopicPartition, tuple[int, int]]:
    """Return `[start, end)` for each partition with something new, `most` records at most, shared fairly."""
    waiting = {
        partition: bounds[partition].high - position
        for partition, position in positions.items()
        if partition in bounds and bounds[partition].high > position
    }
    budget = most
    if record_bytes > 0:
        budget = min(budget, max(1000, int(MAX_BYTES / record_bytes)))
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    for done, (partition, count) in enumerate(sorted(waiting.items(), key=lambda item: item[1])):
        share = max(1, budget // (len(waiting) - done))
        taken = min(count, share)
        budget = max(0, budget - taken)
        ranges[partition] = (positions[partition], positions[partition] + taken)
    return dict(sorted(ranges.items()))


def pieces(ranges: Ranges, cores: int) -> int:
    """Return how many Spark partitions to read the ranges in.

    A partition's records stay together unless it is the only one: several keep the cores busy as they are, and a sink
    that writes a file for each wants each in one piece.
    """
    if len(ranges) != 1:
        return len(ranges)
    count = sum(end - start for start, end in ranges.values())
    return max(1, min(cores, count // PIECE_RECORDS))
