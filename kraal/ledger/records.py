"""The records of the ledger's topic: JSON, one record per partition of a connector, compacted by key.

    ["orders-sink",{"kafka_topic":"orders","kafka_partition":0}] -> {"version":1,"since":0,"end":1000,…}

The key is that of Connect's offset topic. Checksums are hexadecimal, because JSON numbers of other languages are not
exact beyond 2^53.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.ledger.counts import Counts, Position
from kraal.ledger.tally import Tally
from kraal.ledger.totals import Break, Segment, Totals

VERSION: Final = 1
"""The version of the format; records of later versions are ignored."""


def encode_key(connector: ConnectorName, partition: SourcePartition) -> str:
    """Return the key of a partition's record."""
    return json.dumps([connector, dict(sorted(partition.fields))], separators=(",", ":"))


def decode_key(key: str) -> tuple[ConnectorName, SourcePartition] | None:
    """Return the connector and partition of a record; None if the key has another format."""
    try:
        content = json.loads(key)
    except ValueError:
        return None
    match content:
        case [str(connector), dict(fields)]:
            return ConnectorName(connector), SourcePartition.of(fields)
        case _:
            return None


def encode_totals(totals: Totals) -> bytes:
    """Return the value of a partition's record."""
    content = {
        "version": VERSION,
        "since": totals.since,
        "end": totals.end,
        "counts": _encode_counts(totals.counts),
        "repeated": totals.repeated,
        "segments": [
            [each.start, each.end, each.level, _encode_counts(each.counts)] for each in totals.segments
        ],
        "breaks": [[each.start, each.end, each.reason] for each in totals.breaks],
        "break_count": totals.break_count,
        "uncounted": totals.uncounted,
        "uncounted_count": totals.uncounted_count,
    }
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def decode_totals(value: bytes | None) -> Totals | None:
    """Return the totals of a record; None for a tombstone, another version or an invalid value."""
    if value is None:
        return None
    try:
        content = json.loads(value)
        if content["version"] != VERSION:
            return None
        return Totals(
            since=_position(content["since"]),
            end=_position(content["end"]),
            counts=_decode_counts(content["counts"]),
            repeated=int(content["repeated"]),
            segments=tuple(
                Segment(
                    start=_position(start),
                    end=_position(end),
                    level=int(level),
                    counts=_decode_counts(counts),
                )
                for start, end, level, counts in content["segments"]
            ),
            breaks=tuple(
                Break(start=_position(start), end=_position(end), reason=str(reason))
                for start, end, reason in content["breaks"]
            ),
            break_count=int(content["break_count"]),
            uncounted=tuple((_position(start), _position(end)) for start, end in content["uncounted"]),
            uncounted_count=int(content["uncounted_count"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _position(value: Any) -> Position:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(value)
    return value


def _encode_counts(counts: Counts) -> Sequence[object]:
    """Return the fields of counts as a list; without the trailing zeros of what rarely happens."""
    read, written = counts.read, counts.written
    fields: list[object] = [read.count, f"{read.checksum:x}", written.count, f"{written.checksum:x}"]
    others = [counts.dropped, counts.made, counts.dead_letters, counts.tolerated]
    return [*fields, *others] if any(others) else fields


def _decode_counts(fields: Sequence[Any]) -> Counts:
    read, read_checksum, written, written_checksum, *others = fields
    dropped, made, dead_letters, tolerated = others or (0, 0, 0, 0)
    return Counts(
        read=Tally(int(read), int(read_checksum, 16)),
        written=Tally(int(written), int(written_checksum, 16)),
        dropped=int(dropped),
        made=int(made),
        dead_letters=int(dead_letters),
        tolerated=int(tolerated),
    )


def partition_fields(topic: str, partition: int) -> Mapping[str, str | int]:
    """Return the fields of a topic partition, as in Connect's offsets of sinks."""
    return {"kafka_topic": topic, "kafka_partition": partition}
