"""The records that a Java task has delivered, as its JVM reports them. Source: `RecordCounts.java`.

A sink reports the ranges of its topic partitions, in order, and why each of them starts where it does; a source reports
the last offset of each source partition. Both are JSON text.

    {"counts": [{"read": 10, "written": 9, …}], "ranges": [["orders", 0, 100, 110, "NEXT"]]}
    {"counts": [{"read": 10, "written": 9, …}], "offsets": [["{}", "{}"]]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from kraal.core.offsets import Offset, SourcePartition
from kraal.ledger.counts import NO_COUNTS, BatchEntry, Counts, Range, RangeStart
from kraal.ledger.source_ranges import SourceRanges

Ranges = dict[SourcePartition, Range]


class CountedRecords:
    """Creates the ledger entries of one run. Not thread-safe."""

    def __init__(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """`offsets` are the stored offsets with which a source has started."""
        self._source_ranges = SourceRanges(offsets)

    def make_entries(self, detail: Mapping[str, Any]) -> list[BatchEntry]:
        """Return the entries for a report. Several are required for several ranges of one partition."""
        counts = [Counts(**each) for each in detail["counts"]]
        if "ranges" in detail:
            ranges = _group_ranges(detail["ranges"])
        else:
            offsets = {
                SourcePartition.of(json.loads(key)): json.loads(text) for key, text in detail["offsets"]
            }
            ranges = [self._source_ranges.advance(offsets)]
        pairs = zip_longest(counts, ranges)
        return [BatchEntry(counts=each or NO_COUNTS, ranges=covered or {}) for each, covered in pairs]


def _group_ranges(rows: Sequence[tuple[str, int, int, int, str]]) -> list[Ranges]:
    """Return the ranges in groups with one range for each partition; adjacent ranges are joined."""
    groups: list[Ranges] = []
    group_counts: dict[SourcePartition, int] = {}
    for topic, number, start, end, reason in rows:
        partition = SourcePartition.of({"kafka_topic": topic, "kafka_partition": number})
        index = group_counts.get(partition, 0)
        latest = groups[index - 1][partition] if index else None
        if latest is not None and RangeStart[reason] is RangeStart.NEXT and latest.end == start:
            groups[index - 1][partition] = replace(latest, end=end)
            continue
        if index == len(groups):
            groups.append({})
        groups[index][partition] = Range(start, end, RangeStart[reason])
        group_counts[partition] = index + 1
    return groups
