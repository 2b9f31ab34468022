"""Tests for tails that are passed to the plugin without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from typing_extensions import override

from kraal.connectors.file.sink import FileStreamSinkTask, list_texts
from kraal.converters.json.converter import JsonConverter
from kraal.converters.primitive.bytearray import ByteArrayConverter
from kraal.converters.primitive.string import StringConverter
from kraal.engine.sink.direct import COLUMNS, DirectWriter, takes_tables
from kraal.engine.sink.frame import tail_table
from kraal.engine.sink.member_record import Record
from kraal.engine.sink.write_paths import ReadBatch
from kraal.plugins.api import Converter, SinkBatch
from kraal.plugins.model.schema import OPTIONAL_BYTES, OPTIONAL_STRING, Schema


class UpperCaseConverter(StringConverter):
    """Converts values to upper case, without declaring a `column_format`."""

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        schema, value = super().decode(topic, data)
        return schema, value and value.upper()


def converters(key: Converter, value: Converter) -> Any:
    for is_key, converter in ((True, key), (False, value)):
        converter.configure({}, is_key=is_key)
    return SimpleNamespace(key=key, value=value)


@pytest.mark.parametrize("converter", [JsonConverter(), UpperCaseConverter()])
def test_converters_that_change_values_require_spark(converter: Converter) -> None:
    assert DirectWriter.of(converters(StringConverter(), converter)) is None
    assert DirectWriter.of(converters(converter, ByteArrayConverter())) is None


def test_charset_other_than_utf8_requires_spark() -> None:
    converter = StringConverter()
    converter.configure({"converter.encoding": "ISO-8859-1"}, is_key=False)
    assert DirectWriter.of(SimpleNamespace(key=StringConverter(), value=converter)) is None  # type: ignore[arg-type]


def test_table_has_the_columns_and_types_of_the_frame() -> None:
    direct = DirectWriter.of(converters(ByteArrayConverter(), StringConverter()))
    assert direct is not None
    values = [b"one", None, b"caf\xc3\xa9", b"\xff"]
    table = tail_table([Record("t", 0, offset, 1000, (), b"k", value) for offset, value in enumerate(values)])
    call: dict[str, Any] = {}

    def put(frame: object, *schemas: Schema, **more: Any) -> None:
        assert frame is None
        call.update(more, schemas=schemas)

    def no_spark() -> Any:
        pytest.fail("Spark is not needed")

    direct.write(ReadBatch(ranges={}, records=4, table=table), no_spark, put)
    output: pa.Table = call["table"]
    assert call["schemas"] == (OPTIONAL_BYTES, OPTIONAL_STRING)
    assert call["records"] == 4
    assert tuple(output.column_names) == COLUMNS
    assert (output.schema.field("key").type, output.schema.field("value").type) == (
        pa.binary(),
        pa.string(),
    )
    (texts,) = list_texts(output)
    assert texts.to_pylist() == [b"one", b"null", b"caf\xc3\xa9", b"\xff"], "as Java's println prints them"


class OverridingSink(FileStreamSinkTask):
    """Overrides `write`."""

    @override
    def write(self, batch: SinkBatch) -> None:
        del batch


def test_subclass_that_overrides_write_must_declare_tables() -> None:
    assert takes_tables(FileStreamSinkTask())
    assert not takes_tables(OverridingSink())
    declaring_sink = OverridingSink()
    declaring_sink.takes_tables = True
    assert takes_tables(declaring_sink)
