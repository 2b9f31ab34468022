"""Tests for the choice of the record path, and for converters without a column form."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import TaskSpec
from kraal.engine.record_path import record_path
from kraal.engine.records import sink_pass, source_pass
from kraal.engine.records.sink_pass import SinkPass
from kraal.engine.records.source_pass import SourcePass
from kraal.engine.records.steps import Steps
from kraal.engine.task_plugins import make_converters
from kraal.plugins.model.schema import STRING, Field, Schema, Type
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import Chain
from tests.fakes.servers.schema_registry import schema_registry

AVRO_CONVERTER = "io.confluent.connect.avro.AvroConverter"
PROTOBUF_CONVERTER = "io.confluent.connect.protobuf.ProtobufConverter"
JSON_SCHEMA_CONVERTER = "io.confluent.connect.json.JsonSchemaConverter"
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
ORDER = Schema(type=Type.STRUCT, name="Order", fields=(Field(name="id", schema=STRING),))


def steps(worker: dict[str, str], config: dict[str, str]) -> Steps | None:
    """Return the steps of a connector's record path, or None if the connector takes the column path."""
    plugins = Registry.load()
    task = TaskId(ConnectorName("c"), 0)
    spec = TaskSpec(task=task, task_config={}, connector_config=config, lease=lambda: True)
    context: Any = SimpleNamespace(plugins=plugins, worker=worker, chains=lambda _: Chain())
    path = record_path(context, spec, make_converters(plugins, worker, spec))
    return None if path.why is None else path.steps


@pytest.mark.parametrize("part", ["key", "value"])
def test_converter_without_column_form_requires_the_record_path(part: str) -> None:
    worker = {"key.converter": STRING_CONVERTER, "value.converter": STRING_CONVERTER}
    config = {
        f"{part}.converter": AVRO_CONVERTER,
        f"{part}.converter.schema.registry.url": "http://127.0.0.1:1",
    }
    assert steps(worker, {}) is None
    record_steps = steps(worker, config)
    assert record_steps is not None
    assert getattr(record_steps, f"{part}_class") == AVRO_CONVERTER


@pytest.mark.parametrize(
    ("value_converter", "data", "error"),
    [
        ("Avro", b"\x02a", "Cannot decode a record of topic t as Avro"),
        (PROTOBUF_CONVERTER, b"\0\x0a\x01a", "Cannot decode a record of topic t as Protobuf"),
        (
            JSON_SCHEMA_CONVERTER,
            b'{"id":"a"}',
            "Cannot decode a record of topic t as JSON",
        ),
    ],
)
def test_sink_pass_reads_the_output_of_a_source_pass(value_converter: str, data: bytes, error: str) -> None:
    with schema_registry() as registry:
        worker = {
            "key.converter": STRING_CONVERTER,
            "value.converter": value_converter,
            "header.converter": AVRO_CONVERTER,
        }
        worker |= {f"{part}.converter.schema.registry.url": registry.url for part in ("value", "header")}
        record_steps = steps(worker, {"errors.log.enable": "true"})
        assert record_steps is not None
        original_pass = SourcePass(steps=record_steps, topic="t", key_schema=STRING, value_schema=ORDER)
        source_copy: SourcePass = pickle.loads(pickle.dumps(original_pass))  # noqa: S301 - trusted bytes
        table = pa.table({"key": ["k"], "value": [{"id": "a"}]})
        output = pa.Table.from_batches(list(source_copy(table.to_batches())), source_pass.OUT)
        row = output.to_pylist()[0]
        assert (row["topic"], row["key"], row["value"]) == ("t", b"k", b"\0\0\0\0\1" + data)
        consumed_table = pa.table(
            {
                "topic": pa.array(["t", "t"]),
                "partition": pa.array([0, 0], pa.int32()),
                "offset": pa.array([0, 1], pa.int64()),
                "timestamp": pa.array([0, 0], pa.timestamp("us", tz="UTC")),
                "timestampType": pa.array([0, 0], pa.int32()),
                "headers": pa.array([None, None], source_pass.HEADERS),
                "key": pa.array([b"k", b"k"]),
                "value": pa.array([row["value"], b"{}"]),
            }
        )
        sink_copy: SinkPass = pickle.loads(pickle.dumps(SinkPass(steps=record_steps, value_form="json")))  # noqa: S301 - as above
        rows = pa.Table.from_batches(list(sink_copy(consumed_table.to_batches())), sink_pass.OUT).to_pylist()
        assert rows[0]["value"] == b'{"id":"a"}'
        assert f"{error}: expected magic byte 0" in rows[-1]["note"]
