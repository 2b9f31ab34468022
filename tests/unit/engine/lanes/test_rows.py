"""Tests for the conditions under which a lane accepts a batch, and for the stream of rows that a lane receives."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest
from typing_extensions import override

from kraal.converters.json.converter import JsonConverter
from kraal.converters.primitive.bytearray import ByteArrayConverter
from kraal.converters.primitive.string import StringConverter
from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.lanes.rows import MAX_BYTES, MAX_ROWS, is_plain, is_small, write_stream
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import Converter, Schema
from kraal.plugins.model.schema import STRING, Type

TEXT_TABLE = pa.table({"value": ["a"]})
BINARY = Schema(type=Type.BYTES)


def configure(converter: Converter, **config: str) -> Converter:
    converter.configure(config, is_key=False)
    return converter


class PrefixingConverter(StringConverter):
    """Adds a prefix to each value, without declaring a `column_format`."""

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return b"!" + (super().encode(topic, schema, value) or b"")


def make_plan(
    value_converter: Converter, schema: Schema | None = STRING, key: Schema | None = None
) -> WritePlan:
    converters = Converters(configure(StringConverter()), value_converter, ("any",))
    return WritePlan(converters=converters, options={}, key_schema=key, value_schema=schema)


@pytest.mark.parametrize(
    ("table", "converter", "schema"),
    [
        pytest.param(TEXT_TABLE, configure(StringConverter()), STRING, id="strings"),
        pytest.param(pa.table({"value": [b"a"]}), configure(ByteArrayConverter()), BINARY, id="bytes"),
        pytest.param(pa.table({"partition": [1]}), configure(ByteArrayConverter()), None, id="tombstones"),
    ],
)
def test_records_whose_bytes_need_no_conversion_are_plain(
    table: pa.Table, converter: Converter, schema: Schema | None
) -> None:
    assert is_plain(table, make_plan(converter, schema))


@pytest.mark.parametrize(
    ("table", "converter", "schema"),
    [
        pytest.param(TEXT_TABLE, configure(JsonConverter()), STRING, id="converter that changes values"),
        pytest.param(TEXT_TABLE, configure(ByteArrayConverter()), STRING, id="text for a bytes converter"),
        pytest.param(
            pa.table({"value": [1]}), configure(StringConverter()), Schema(type=Type.INT64), id="a number"
        ),
        pytest.param(
            TEXT_TABLE,
            configure(StringConverter(), **{"converter.encoding": "UTF-16"}),
            STRING,
            id="encoding",
        ),
        pytest.param(
            TEXT_TABLE, configure(StringConverter()), Schema(type=Type.STRING, name="x"), id="a named schema"
        ),
        pytest.param(TEXT_TABLE, configure(StringConverter()), None, id="a value without a schema"),
        pytest.param(TEXT_TABLE, configure(PrefixingConverter()), STRING, id="subclass with another format"),
        pytest.param(
            TEXT_TABLE.append_column("timestamp", [[1]]),
            configure(StringConverter()),
            STRING,
            id="timestamp column",
        ),
    ],
)
def test_records_with_other_formats_or_columns_are_not_plain(
    table: pa.Table, converter: Converter, schema: Schema | None
) -> None:
    assert not is_plain(table, make_plan(converter, schema))


def test_output_of_a_pass_is_plain_and_column_transforms_are_not() -> None:
    pass_plan = WritePlan(converters=None, options={}, key_schema=None, value_schema=None)
    assert is_plain(TEXT_TABLE, pass_plan)
    transform_plan = WritePlan(
        converters=None, options={}, key_schema=None, value_schema=None, transforms=cast("Any", object())
    )
    assert not is_plain(TEXT_TABLE, transform_plan)


def test_batch_with_many_records_or_bytes_is_not_small() -> None:
    assert is_small(MAX_ROWS, MAX_BYTES)
    assert not is_small(MAX_ROWS + 1, MAX_BYTES)
    assert not is_small(MAX_ROWS, MAX_BYTES + 1)


def pending_batch(table: pa.Table, topic: str | None) -> PendingBatch:
    return PendingBatch(
        task=TaskId(ConnectorName("c"), 0),
        table=table,
        topic=topic,
        offsets={},
        plan=make_plan(configure(StringConverter())),
        done=lambda _: None,
    )


def test_stream_contains_the_numbered_rows_of_all_batches() -> None:
    headers = pa.array(
        [[{"key": "h", "value": b"x"}]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    other_table = pa.table(
        {"topic": ["v"], "key": [None], "value": [b"\xff"], "headers": headers, "partition": [3]}
    )
    stream = write_stream(
        [(7, pending_batch(pa.table({"value": ["a", "b"]}), "t")), (8, pending_batch(other_table, None))]
    )
    with pa.ipc.open_stream(stream) as reader:
        rows = reader.read_all()
    assert rows["batch"].to_pylist() == [7, 7, 8]
    assert rows["topic"].to_pylist() == ["t", "t", "v"]
    assert rows["value"].to_pylist() == [b"a", b"b", b"\xff"]
    assert rows["headers"].to_pylist() == [None, None, [{"key": "h", "value": b"x"}]]
    assert rows["partition"].to_pylist() == [None, None, 3]
    assert {str(rows.schema.field(name).type) for name in ("key", "value")} == {"binary"}
