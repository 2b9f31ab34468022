"""Pure functions that detect late commits of previous owners in the records of Kafka's topics.

Each task resumes from the last committed offset and commits its own progress, so committed offsets never decrease.
Offsets of sources are in the worker's offset topic, and offsets of sinks in `__consumer_offsets`. A late commit of a
previous owner is detected if its offset is lower than the last one of the new owner. Records do not identify their
writer, so a late commit with a higher offset is not detected. Such a commit loses no records, because the records below
its offset were delivered.

Offsets that a source's worker sent over half-open connections are counted separately. The network may deliver them
after the new owner has committed, and no client can revoke them. Only exactly-once support fences them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kraal.broker.records import BrokerRecord
from scripts.chaos_run.pipes import Pipe

GROUPS_TOPIC: Final = "__consumer_offsets"
"""Kafka's topic of committed offsets, in which each group uses one partition."""
_MAX_COMMIT_KEY_VERSION: Final = 1
"""Highest key version of offset commits; higher versions are group metadata. Source: CoordinatorRecordType (4.4.0)."""


@dataclass(frozen=True, slots=True)
class Regressions:
    """The decreases of the offsets of the pipes' sources."""

    sent_late: Sequence[str]
    """Decreases due to a worker that was no longer the owner when it sent the offset."""
    delayed: Sequence[str]
    """Decreases due to offsets that were sent over half-open connections and delayed by the network."""


def find_source_regressions(
    records: Iterable[BrokerRecord], pipes: Sequence[Pipe], half_open: Sequence[tuple[int, int]]
) -> Regressions:
    """Return the decreases of the offsets of the pipes' sources.

    `records` must be those of the offset topic, in order. `half_open`: start and end of each period with half-open
    connections, in milliseconds since the epoch.
    """
    sources = {f"{pipe.name}-source" for pipe in pipes}
    latest: dict[bytes, int] = {}
    regressions: list[str] = []
    delayed: list[str] = []
    for record in records:
        connector, _ = json.loads(record.key or b"[null, null]")
        if connector not in sources or record.key is None or record.value is None:
            continue
        position = int(json.loads(record.value)["position"])
        if position < latest.get(record.key, 0):
            is_delayed = any(begin <= record.timestamp_ms <= end for begin, end in half_open)
            (delayed if is_delayed else regressions).append(
                f"{connector}: from {latest[record.key]} to {position}"
            )
        latest[record.key] = position
    return Regressions(regressions, delayed)


def find_commit_regressions(records: Iterable[BrokerRecord], pipes: Sequence[Pipe]) -> list[str]:
    """Return the decreases of the offsets of the pipes' sinks. `records` must be those of `GROUPS_TOPIC`, in order."""
    latest: dict[tuple[str, str, int], int] = {}
    regressions = []
    for record in records:
        key = _parse_commit(record, pipes)
        if key is None:
            continue
        # Format, big endian: int16 version, int64 offset, further fields. Source: OffsetCommitValue.json.
        [offset] = struct.unpack_from(">q", record.value or b"", 2)
        if offset < latest.get(key, 0):
            group, topic, partition = key
            regressions.append(f"{group}: {topic}-{partition} from {latest[key]} to {offset}")
        latest[key] = offset
    return regressions


def is_commit(record: BrokerRecord, pipes: Sequence[Pipe]) -> bool:
    """Return whether a record is a commit of a pipe's sink."""
    return _parse_commit(record, pipes) is not None


def _parse_commit(record: BrokerRecord, pipes: Sequence[Pipe]) -> tuple[str, str, int] | None:
    """Return the group, topic and partition of a commit of a pipe's sink; None for other records.

    Format of the key, big endian: int16 version, group and topic as int16 length + UTF-8, int32 partition.
    Source: OffsetCommitKey.json (Kafka 4.4.0).
    """
    key = record.key or b""
    if record.value is None or len(key) < 2 or struct.unpack_from(">h", key)[0] > _MAX_COMMIT_KEY_VERSION:  # noqa: PLR2004
        return None
    group, at = _parse_text(key, 2)
    topic, at = _parse_text(key, at)
    if group not in {f"connect-{pipe.name}-sink" for pipe in pipes}:
        return None
    return group, topic, int(struct.unpack_from(">i", key, at)[0])


def _parse_text(data: bytes, at: int) -> tuple[str, int]:
    [length] = struct.unpack_from(">h", data, at)
    end = at + 2 + int(length)
    return data[at + 2 : end].decode(), end
