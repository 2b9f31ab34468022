"""Determines, before each job, the offsets that a sink reads next: Spark's reader fails on or skips missing offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kraal.config.clients.offset_reset import OffsetReset
from kraal.config.connector.batches import DEFAULT_MAX_RECORDS
from kraal.core.offsets import Offset, SourcePartition
from kraal.plugins.api import TopicPartition

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Offsets `[start, end)` of each partition."""

MIN_PIECE_RECORDS = 50_000
"""Minimum number of records per Spark task if several Spark tasks read a single partition."""
MAX_BYTES = 512 * 1024 * 1024
"""Maximum size of a batch, estimated from the mean size of the latest records."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets of a partition on the broker: `[low, high)`."""

    low: int
    high: int


class OffsetOutOfRange(Exception):
    """A partition has no usable position, and `auto.offset.reset` is `none`."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start offset of a partition; `gap` explains why it differs from the committed offset."""

    offset: int
    gap: str | None = None


FindOffsetSince = Callable[[TopicPartition, int], int | None]
"""Returns the offset of a partition's first record that is not older than an age in ms; None if all are older."""


def choose_start(
    partition: TopicPartition,
    committed: int | None,
    bounds: Bounds,
    reset: OffsetReset,
    find_offset_since: FindOffsetSince,
) -> Start:
    """Return the start offset of a partition. Raises OffsetOutOfRange if a reset is required and the policy is `none`.

    Like KafkaConsumer, apply `auto.offset.reset` to both missing and out-of-range offsets.
    """
    if committed is not None and bounds.low <= committed <= bounds.high:
        return Start(committed)
    name = f"{partition.topic}-{partition.partition}"
    if reset.policy == "none":
        problem = (
            "no committed offset"
            if committed is None
            else f"the committed offset {committed} is not in [{bounds.low}, {bounds.high}]"
        )
        raise OffsetOutOfRange(f"{name}: {problem}, and auto.offset.reset is none")
    offset = bounds.low if reset.policy == "earliest" else bounds.high
    if reset.policy == "by_duration" and (first := find_offset_since(partition, reset.age_ms)) is not None:
        offset = min(max(first, bounds.low), bounds.high)
    if committed is None:
        return Start(offset)
    return Start(
        offset, f"{name}: offset {committed} is not in [{bounds.low}, {bounds.high}]; continuing at {offset}"
    )


def check_stored_offsets(
    stored: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds]
) -> None:
    """Raise OffsetOutOfRange if a sink's target contains records after the end of a partition.

    This happens if the topic was deleted and created again. A reset of the position would skip or repeat records.
    """
    for partition, offset in stored.items():
        if partition in bounds and offset > bounds[partition].high:
            name = f"{partition.topic}-{partition.partition}"
            raise OffsetOutOfRange(
                f"{name}: the target of the connector continues at offset {offset}, but the partition ends at "
                f"{bounds[partition].high}. The topic was probably deleted and created again. To read it from its "
                "start, stop the connector, and set the offset of this partition to null (PATCH "
                "/connectors/NAME/offsets)"
            )


def count_records(positions: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds]) -> int:
    """Return the number of offsets from the positions to the ends of their partitions."""
    return sum(bounds[p].high - offset for p, offset in positions.items() if p in bounds)


def next_ranges(
    positions: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, Bounds],
    *,
    record_bytes: float = 0.0,
    max_records: int = DEFAULT_MAX_RECORDS,
) -> dict[TopicPartition, tuple[int, int]]:
    """Return `[start, end)` for each partition with new records.

    The ranges contain at most about `max_records` and `MAX_BYTES` in total, distributed fairly, and at least one record
    per partition.
    """
    backlogs = {
        partition: bounds[partition].high - position
        for partition, position in positions.items()
        if partition in bounds and bounds[partition].high > position
    }
    budget = max_records
    if record_bytes > 0:
        budget = min(budget, max(1000, int(MAX_BYTES / record_bytes)))
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    for index, (partition, count) in enumerate(sorted(backlogs.items(), key=lambda item: item[1])):
        share = max(1, budget // (len(backlogs) - index))
        length = min(count, share)
        budget = max(0, budget - length)
        ranges[partition] = (positions[partition], positions[partition] + length)
    return dict(sorted(ranges.items()))


def to_offsets(ranges: Ranges) -> dict[SourcePartition, Offset]:
    """Return the ends of the ranges in the form of Connect's sink offsets."""
    return {to_source_partition(p): {"kafka_offset": end} for p, (_, end) in ranges.items()}


def to_source_partition(partition: TopicPartition) -> SourcePartition:
    """Return a partition in the form of Connect's sink offsets."""
    return SourcePartition.of({"kafka_topic": partition.topic, "kafka_partition": partition.partition})


def get_ends(offsets: Mapping[SourcePartition, Offset]) -> dict[TopicPartition, int]:
    """Return the end of each partition's range; the inverse of `to_offsets`."""
    ends: dict[TopicPartition, int] = {}
    for partition, offset in offsets.items():
        fields = partition.as_dict()
        topic_partition = TopicPartition(str(fields["kafka_topic"]), int(str(fields["kafka_partition"])))
        ends[topic_partition] = int(str(offset["kafka_offset"]))
    return ends


def count_pieces(ranges: Ranges, cores: int) -> int:
    """Return the number of Spark partitions for reading the ranges.

    A partition is not split unless it is the only one: several partitions use the cores anyway, and a sink that writes
    one file per partition requires each partition in one piece.
    """
    if len(ranges) != 1:
        return len(ranges)
    record_count = sum(end - start for start, end in ranges.values())
    return max(1, min(cores, record_count // MIN_PIECE_RECORDS))
