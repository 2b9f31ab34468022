"""Tests for sinks that receive each record with its schema."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from typing_extensions import override

from kraal.converters.json.converter import JsonConverter
from kraal.converters.primitive.numbers import IntegerConverter
from kraal.converters.primitive.string import StringConverter
from kraal.engine.record_path import RecordPath
from kraal.engine.sink.direct import DirectWriter
from kraal.engine.sink.envelopes import (
    are_envelopes,
    make_envelope_converter,
    needs_envelopes,
    with_envelopes,
)
from kraal.engine.sink.frame import tail_table
from kraal.engine.sink.member_record import Record
from kraal.engine.sink.write_paths import ReadBatch
from kraal.plugins.api import SinkBatch, SinkTask, TaskContext
from kraal.plugins.registry import Registry

PATH = RecordPath(cast("Any", None), None, None)


class EnvelopeSink(SinkTask):
    """A sink that requires schemas."""

    values = "json-envelope"
    takes_tables = True

    @override
    def start(self, config: object, context: TaskContext) -> None: ...

    @override
    def write(self, batch: SinkBatch) -> None: ...


def converters(key: Any, value: Any, **value_settings: str) -> Any:
    key.configure({}, is_key=True)
    value.configure(value_settings, is_key=False)
    return SimpleNamespace(key=key, value=value)


def test_json_with_schemas_is_passed_on_unchanged() -> None:
    json_converters = converters(JsonConverter(), JsonConverter())
    assert needs_envelopes(EnvelopeSink())
    assert are_envelopes(json_converters)
    assert with_envelopes(PATH, json_converters, has_java_chain=False) is PATH
    table = tail_table(
        [Record("t", 0, 5, 1000, (), b'{"key"}', b"value"), Record("t", 0, 6, 1000, (), None, None)]
    )
    call: dict[str, Any] = {}
    writer = DirectWriter(None, None, "json-envelope")
    writer.write(
        ReadBatch(ranges={}, records=2, table=table), cast("Any", None), lambda *_, **more: call.update(more)
    )
    assert call["values"] == "json-envelope"
    assert call["table"]["key"].to_pylist() == ['{"key"}', None]
    assert call["table"]["value"].type == pa.string()


@pytest.mark.parametrize(
    "other",
    [
        converters(StringConverter(), JsonConverter()),
        converters(JsonConverter(), IntegerConverter()),
        converters(JsonConverter(), JsonConverter(), **{"schemas.enable": "false"}),
    ],
)
def test_other_records_are_processed_one_by_one(other: Any) -> None:
    path = with_envelopes(PATH, other, has_java_chain=False)
    assert path.why == "which are processed one by one because the sink requires their schemas"


def test_java_transforms_are_refused() -> None:
    with pytest.raises(ValueError, match="Java transforms and converters do not pass on"):
        with_envelopes(PATH, converters(JsonConverter(), JsonConverter()), has_java_chain=True)


def test_envelopes_contain_the_schema() -> None:
    converter = make_envelope_converter(Registry.load())
    schema, value = IntegerConverter().decode("t", b"\0\0\0\7")
    assert converter.encode("", schema, value) == b'{"schema":{"type":"int32","optional":true},"payload":7}'
    assert converter.encode("", None, None) is None
