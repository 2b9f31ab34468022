"""The offsets that a table stores, and which records of a batch it does not contain yet. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from kraal.plugins.api import TopicPartition

OFFSETS: Final = "kraal.offsets."
"""The prefix of the property with the offsets; the name of the connector follows."""

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Offsets `[start, end)` of each partition."""


class TableMoved(Exception):
    """The offsets of a table went back while a task was writing to it; the records in between would be lost."""


def find_starts(
    ranges: Ranges,
    table_offsets: Mapping[TopicPartition, int],
    expected_offsets: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the first offset of each range that a table does not contain, or the range's end if it contains all.

    Args:
        ranges: the records of the batch. A range may start after `expected_offsets`, because topics have gaps.
        table_offsets: the next offsets in the table.
        expected_offsets: the next offsets in the table when the task last read or wrote them. All records from there to
            the start of the range were read, so the table may have advanced (another task has written the records),
            but must not have moved back.

    Raises:
        TableMoved: an offset in the table is lower than expected, or missing.
    """
    starts: dict[TopicPartition, int] = {}
    for partition, (start, end) in ranges.items():
        offset, expected_offset = table_offsets.get(partition), expected_offsets.get(partition)
        if expected_offset is not None and (offset is None or offset < expected_offset):
            name = f"{partition.topic}-{partition.partition}"
            actual = "contains no offset" if offset is None else f"continues at offset {offset}"
            raise TableMoved(
                f"the table {actual} of {name}, but the task has already written up to offset {expected_offset}: the "
                "table was replaced, rolled back, or its offsets were changed. Restart the task to continue where the "
                "table ends"
            )
        starts[partition] = start if offset is None else min(max(start, offset), end)
    return starts


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Return offsets as JSON: `{"topic": {"0": 17}}`."""
    topics: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return json.dumps(topics, separators=(",", ":"))


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Return the offsets that `format_offsets` has written."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
    }
