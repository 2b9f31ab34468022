"""Whether an old owner committed after the new one had started, by the records of Kafka's topics. Pure.

Each task continues from the offset that was committed last, and commits what it has done from there, so that offsets
only ever rise, of sources in the worker's offset topic and of sinks in Kafka's own. What an old owner commits once the
new one has committed is behind that, and seen here. Records do not say who wrote them: an old owner's commit that is
not behind is not seen, and does no harm, for it tells of records that came out.

An offset that a source's worker sent while its connections were half-open is another matter: the network may hold it
back until the new owner has committed, and no client can call it back. Only exactly-once support fences it. Such
offsets are counted apart.
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
"""Where Kafka keeps what groups commit, each group in one partition."""
_LAST_COMMIT_KEY: Final = 1
"""Keys of this version or below are of commits; above are groups. Source: CoordinatorRecordType (Kafka 4.4.0)."""


@dataclass(frozen=True, slots=True)
class Backwards:
    """Where the offset of a pipe's source went back."""

    sent_late: Sequence[str]
    """By a worker that was not the owner any more when it sent the offset."""
    held_back: Sequence[str]
    """By the network: the offset was sent while connections were half-open."""


def backwards(
    records: Iterable[BrokerRecord], pipes: Sequence[Pipe], half_open: Sequence[tuple[int, int]]
) -> Backwards:
    """Return where the offset of a pipe's source went back; `records` are the offset topic's, in their order.

    `half_open`: when connections of some worker were, in milliseconds since 1970.
    """
    ours = {f"{pipe.name}-source" for pipe in pipes}
    newest: dict[bytes, int] = {}
    regressions: list[str] = []
    held: list[str] = []
    for record in records:
        connector, _ = json.loads(record.key or b"[null, null]")
        if connector not in ours or record.key is None or record.value is None:
            continue
        position = int(json.loads(record.value)["position"])
        if position < newest.get(record.key, 0):
            was_held = any(begin <= record.timestamp_ms <= end for begin, end in half_open)
            (held if was_held else regressions).append(
                f"{connector}: from {newest[record.key]} to {position}"
            )
        newest[record.key] = position
    return Backwards(regressions, held)


def commits_backwards(records: Iterable[BrokerRecord], pipes: Sequence[Pipe]) -> list[str]:
    """Return where an offset of a pipe's sink went back; `records` are those of `GROUPS_TOPIC`, in their order."""
    newest: dict[tuple[str, str, int], int] = {}
    regressions = []
    for record in records:
        key = _committed(record, pipes)
        if key is None:
            continue
        # Shape, big endian: int16 version, int64 offset, and more. Source: OffsetCommitValue.json.
        [offset] = struct.unpack_from(">q", record.value or b"", 2)
        if offset < newest.get(key, 0):
            group, topic, partition = key
            regressions.append(f"{group}: {topic}-{partition} from {newest[key]} to {offset}")
        newest[key] = offset
    return regressions


def is_commit(record: BrokerRecord, pipes: Sequence[Pipe]) -> bool:
    """Whether it is a commit of a pipe's sink."""
    return _committed(record, pipes) is not None


def _committed(record: BrokerRecord, pipes: Sequence[Pipe]) -> tuple[str, str, int] | None:
    """Return group, topic and partition of a commit of a pipe's sink; None for all else.

    Shape of the key, big endian: int16 version, group and topic as int16 length + UTF-8, int32 partition.
    Source: OffsetCommitKey.json (Kafka 4.4.0).
    """
    key = record.key or b""
    if record.value is None or len(key) < 2 or struct.unpack_from(">h", key)[0] > _LAST_COMMIT_KEY:  # noqa: PLR2004
        return None
    group, at = _text(key, 2)
    topic, at = _text(key, at)
    if group not in {f"connect-{pipe.name}-sink" for pipe in pipes}:
        return None
    return group, topic, int(struct.unpack_from(">i", key, at)[0])


def _text(data: bytes, at: int) -> tuple[str, int]:
    [length] = struct.unpack_from(">h", data, at)
    end = at + 2 + int(length)
    return data[at + 2 : end].decode(), end
