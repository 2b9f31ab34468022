"""Records for the tests of table sinks: keys and values as JSON with schemas, as JsonConverter writes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from kraal.plugins.api import TopicPartition

Node = dict[str, Any]
TOPIC = "shop.public.orders"


def field(name: str, kind: str = "string", logical: str | None = None, **members: Any) -> Node:
    """Return an optional field of a struct."""
    node = {"field": name, "type": kind, "optional": True, **members}
    return node if logical is None else {**node, "name": logical}


def struct(*fields: Node, **members: Any) -> Node:
    """Return the schema of a struct."""
    return {"type": "struct", "optional": True, "fields": list(fields), **members}


def change_event(row: Node) -> Node:
    """Return the schema of Debezium's envelope for rows of a schema."""
    before, after = ({**row, "field": name} for name in ("before", "after"))
    return struct(before, after, field("op"), name="orders.Envelope")


def envelope(schema: Node | None, payload: Any) -> str:
    """Return a key or value."""
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":"))


def encode_decimal(unscaled: int) -> str:
    """Return the JSON form of a decimal with this unscaled value."""
    length = (unscaled.bit_length() + 8) // 8
    return base64.b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()


KEY = struct(field("id", "int32"))
ROW = struct(field("id", "int32"), field("name"))
EVENT = change_event(ROW)

Record = tuple[str | None, str | None]


def row(number: int | None, name: str | None, schema: Node = ROW, **fields: Any) -> Record:
    """Return a record with a plain row as its value."""
    return envelope(KEY, {"id": number}), envelope(schema, {"id": number, "name": name, **fields})


def tombstone(number: int) -> Record:
    """Return a record without a value."""
    return envelope(KEY, {"id": number}), None


def event(op: str, number: int, name: str | None = None, schema: Node = EVENT, **fields: Any) -> Record:
    """Return a change event of Debezium; a delete has the old row only."""
    values = {"id": number, "name": name, **fields}
    payload = {"before": values if op == "d" else None, "after": None if op == "d" else values, "op": op}
    return envelope(KEY, {"id": number}), envelope(schema, payload)


def truncation(schema: Node = EVENT) -> Record:
    """Return a change event of a table that was truncated."""
    return None, envelope(schema, {"before": None, "after": None, "op": "t"})


def batch(
    records: Sequence[Record], start: int = 0, partition: int = 0
) -> tuple[pa.Table, Mapping[TopicPartition, tuple[int, int]]]:
    """Return consecutive records of a partition as a sink receives them, and their range."""
    count = len(records)
    table = pa.table(
        {
            "topic": pa.array([TOPIC] * count, pa.string()),
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(range(start, start + count), pa.int64()),
            "key": pa.array([key for key, _ in records], pa.string()),
            "value": pa.array([value for _, value in records], pa.string()),
        }
    )
    return table, {TopicPartition(TOPIC, partition): (start, start + count)}
