"""The records of the ledger's log: JSON, compacted by key. A task has its counts, and a partition its ranges.

    ["orders-sink",0] -> {"version":1,"sequence":3,"writer":"…","config_offset":12,"batches":7,"read":1000,…}
    ["orders-sink",{"kafka_topic":"orders","kafka_partition":0}] -> {"version":1,…,"since":0,"end":1000,…}

A writer adds its batches to the totals of the latest record of the key, and increments the sequence number. So of two
records with the same number, the second one lacks the batches of the first one, and all readers ignore it.
The key of a partition has the form of the keys in Connect's offset topic.

When a connector is deleted, its records become tombstones. A worker that does not know of the deletion yet may write
another record afterwards. The config offset of such a record is lower than the offset of the deletion in the config
log, so that the other workers ignore it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.ledger.counts import Position
from kraal.ledger.totals import Break, PartitionTotals, TaskTotals

VERSION: Final = 1
"""The version of the format; records of later versions are ignored."""

MAX_POSITION_LENGTH: Final = 1_000
"""Maximum length of a source's offset, as JSON, that is stored as it is. It limits the size of records."""

_COUNTS: Final = tuple(field.name for field in fields(TaskTotals) if field.name != "breaks")

LedgerKey = TaskId | tuple[ConnectorName, SourcePartition]
"""A task, or a partition of a connector."""
LedgerTotals = TaskTotals | PartitionTotals


def get_key_connector(key: LedgerKey) -> ConnectorName:
    """Return the connector of a task or partition."""
    return key.connector if isinstance(key, TaskId) else key[0]


def encode_key(key: LedgerKey) -> str:
    """Return the key of a record."""
    if isinstance(key, TaskId):
        return _to_json([key.connector, key.task])
    connector, partition = key
    return _to_json([connector, dict(sorted(partition.fields))])


def decode_key(text: str) -> LedgerKey | None:
    """Return the task or the partition of a record; None if the key has another format."""
    try:
        content = json.loads(text)
    except ValueError:
        return None
    match content:
        case [str(connector), bool()]:
            return None
        case [str(connector), int(task)]:
            return TaskId(ConnectorName(connector), task)
        case [str(connector), dict(partition)]:
            return ConnectorName(connector), SourcePartition.of(partition)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class LedgerValue:
    """The value of a record."""

    totals: LedgerTotals
    sequence: int
    """The number of the record among those of its key, from 1."""
    writer: str
    """A unique id of the keeper that wrote the record."""
    config_offset: int
    """The offset in the config log of the task configs with which the latest batch was delivered."""


def encode_value(value: LedgerValue) -> bytes:
    """Return the bytes of a value."""
    head = {
        "version": VERSION,
        "sequence": value.sequence,
        "writer": value.writer,
        "config_offset": value.config_offset,
    }
    return _to_json({**head, **asdict(value.totals)}).encode()


def decode_value(key: LedgerKey, value: bytes | None) -> LedgerValue | None:
    """Return the value of a record; None for a tombstone, another version or an invalid value."""
    if value is None:
        return None
    try:
        content = json.loads(value)
        if content["version"] != VERSION:
            return None
        totals = _decode_task(content) if isinstance(key, TaskId) else _decode_partition(content)
        return LedgerValue(
            totals, int(content["sequence"]), str(content["writer"]), int(content["config_offset"])
        )
    except (KeyError, TypeError, ValueError):
        return None


def _decode_task(content: Mapping[str, Any]) -> TaskTotals:
    breaks = tuple(
        Break(ranges=str(each["ranges"]), reason=str(each["reason"]), time_ms=int(each["time_ms"]))
        for each in content["breaks"]
    )
    return TaskTotals(**{name: int(content[name]) for name in _COUNTS}, breaks=breaks)


def _decode_partition(content: Mapping[str, Any]) -> PartitionTotals:
    return PartitionTotals(
        since=_check_position(content["since"]),
        end=_check_position(content["end"]),
        repeated=int(content["repeated"]),
        uncounted=tuple(
            (_check_position(start), _check_position(end)) for start, end in content["uncounted"]
        ),
        uncounted_count=int(content["uncounted_count"]),
    )


def _check_position(value: Any) -> Position:
    if isinstance(value, bool) or not isinstance(value, (int, str, type(None))):
        raise TypeError(value)
    return value


def offset_position(offset: Offset | None) -> Position:
    """Return a source's offset as a position; equal offsets have equal positions, and long ones are hashed."""
    if offset is None:
        return None
    text = json.dumps(dict(offset), sort_keys=True, separators=(",", ":"))
    if len(text) <= MAX_POSITION_LENGTH:
        return text
    return _to_json({"sha256": hashlib.sha256(text.encode()).hexdigest()})


def _to_json(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))  # in ASCII: strings may have unpaired surrogates
