"""The records of the ledger's log: JSON, compacted by key. A task has its counts, and a partition its ranges.

    ["orders-sink",0] -> {"version":1,"batches":7,"read":1000,"written":990,"dropped":10,…}
    ["orders-sink",{"kafka_topic":"orders","kafka_partition":0}] -> {"version":1,"since":0,"end":1000,…}

The key of a partition has the form of the keys in Connect's offset topic.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.ledger.counts import Position
from kraal.ledger.totals import Break, PartitionTotals, TaskTotals

VERSION: Final = 1
"""The version of the format; records of later versions are ignored."""

_COUNTS: Final = tuple(field.name for field in fields(TaskTotals) if field.name != "breaks")

LedgerKey = TaskId | tuple[ConnectorName, SourcePartition]
"""A task, or a partition of a connector."""
LedgerTotals = TaskTotals | PartitionTotals


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


def encode_totals(totals: LedgerTotals) -> bytes:
    """Return the value of a record."""
    return _to_json({"version": VERSION, **asdict(totals)}).encode()


def decode_totals(key: LedgerKey, value: bytes | None) -> LedgerTotals | None:
    """Return the totals of a record; None for a tombstone, another version or an invalid value."""
    if value is None:
        return None
    try:
        content = json.loads(value)
        if content["version"] != VERSION:
            return None
        return _decode_task(content) if isinstance(key, TaskId) else _decode_partition(content)
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
    """Return a source's offset as a position; equal offsets have equal positions."""
    return None if offset is None else json.dumps(offset, sort_keys=True, separators=(",", ":"))


def _to_json(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))  # in ASCII: strings may have unpaired surrogates
