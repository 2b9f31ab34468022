"""Tests for Java transforms and converters that process source batches: frames, values, faults and connections."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kraal.core.errors import PluginFailed
from kraal.core.offsets import SourcePartition
from kraal.engine.records.source_pass import HEADERS, OUT, DeadTopic, SourcePass
from kraal.engine.records.steps import Summary, merge_notes
from kraal.engine.records.tolerance import Tolerance
from kraal.java_plugins.chains.chain import JavaChain
from kraal.java_plugins.chains.connection import ChainCancelled, ChainLost
from kraal.metrics.errors import ErrorCounts
from kraal.plugins.api import SourceBatch
from kraal.plugins.model.records import DECIMAL, TIMESTAMP
from kraal.plugins.model.schema import STRING, Field, Schema, Type
from tests.fakes.spark.passes import ALL, steps
from tests.integration.java_plugins.chains.conftest import RunChain

pytestmark = pytest.mark.ci

MOODY_CONFIG = {"transforms": "m", "transforms.m.type": "kraal.testing.Moody", "transforms.m.prefix": "-"}
SHOUTING_CONFIG = {"value.converter": "kraal.testing.Shouting"}
DEAD_LETTER_TOPIC = DeadTopic(name="dead", with_context=True, connector="c", task=3)


@pytest.fixture(scope="module")
def moody_chain(run_chain: RunChain) -> Iterator[JavaChain]:
    """Start one chain for all tests of the module, because the transform counts all records."""
    with run_chain("source", MOODY_CONFIG | SHOUTING_CONFIG | {"errors.retry.timeout": "5000"}) as chain:
        yield chain


def run_pass(
    chain: JavaChain,
    table: pa.Table,
    *,
    cancelled: threading.Event | None = None,
    **options: Any,
) -> tuple[list[dict[str, Any]], Summary]:
    """Pass a table through the chain, and return the rows and the summary."""
    source_pass = SourcePass(
        steps=steps(options.pop("tolerance", None)), topic="t", value_schema=STRING, timestamp_ms=5
    )
    batch = SourceBatch(offsets={SourcePartition.of({"file": "f"}): {"position": 9}})
    run = chain.source_pass(replace(source_pass, **options), batch, cancelled)
    rows = pa.Table.from_batches(list(run(table.to_batches(3))), OUT).to_pylist()
    notes = [row.pop("note") for row in rows]
    return [row for row in rows if row["topic"] is not None], merge_notes(notes)[0]


def text_table(*values: str | None) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.string())})


def get_values(rows: list[dict[str, Any]]) -> list[str]:
    return [row["value"].decode().partition(":")[2] for row in rows]


def test_records_are_transformed_converted_and_dropped_in_order(moody_chain: JavaChain) -> None:
    rows, summary = run_pass(moody_chain, text_table("a", "drop it", "é", "b"))
    assert get_values(rows) == ["A", "É", "B"]
    assert {row["topic"] for row in rows} == {"t"}
    assert [header["key"] for header in rows[0]["headers"]] == ["count", "shouted"]
    assert (summary.read, summary.written, summary.dropped) == (4, 3, 1)
    assert summary.counts == ErrorCounts()
    assert summary.topics == {"t"}


def test_transform_keeps_its_state_between_batches(moody_chain: JavaChain) -> None:
    def read_count(row: dict[str, Any]) -> int:
        return int(row["value"].decode().partition(":")[0].removeprefix("-"))

    first, second = run_pass(moody_chain, text_table("a", "b"))[0], run_pass(moody_chain, text_table("c"))[0]
    assert [read_count(row) - read_count(first[0]) for row in (*first, *second)] == [0, 1, 2]


def test_first_bad_record_ends_the_pass_without_tolerance(moody_chain: JavaChain) -> None:
    rows, summary = run_pass(moody_chain, text_table("a", "bad one", "b", "c", "d"))
    assert get_values(rows) == ["A"]
    fatal = summary.fatal
    assert fatal is not None
    assert (fatal.stage, fatal.class_name) == ("TRANSFORMATION", "kraal.testing.Moody")
    assert (fatal.exception, fatal.message) == ("org.apache.kafka.connect.errors.DataException", "bad one")
    assert fatal.stack.startswith(
        "org.apache.kafka.connect.errors.DataException: bad one\n\tat kraal.testing.Moody"
    )
    assert (summary.counts.failures, summary.counts.errors, summary.counts.skipped) == (1, 1, 0)


def test_tolerated_errors_are_skipped_counted_and_logged(moody_chain: JavaChain) -> None:
    tolerance = Tolerance(all=True, logs=True, shows_records=True)
    rows, summary = run_pass(moody_chain, text_table("a", "bad", "b?", "c"), tolerance=tolerance)
    assert get_values(rows) == ["A", "C"]
    assert summary.fatal is None
    assert (summary.read, summary.written) == (4, 2)
    assert (summary.counts.failures, summary.counts.skipped, summary.counts.logged) == (2, 2, 2)
    assert [(fault.stage, fault.class_name) for fault in summary.faults] == [
        ("TRANSFORMATION", "kraal.testing.Moody"),
        ("VALUE_CONVERTER", "kraal.testing.Shouting"),
    ]
    assert "sourcePartition={file=f}, sourceOffset={position=9}" in summary.faults[0].record


def test_dead_letter_contains_the_original_record_and_the_error(moody_chain: JavaChain) -> None:
    headers = pa.array([[{"key": "own", "value": b"\x00"}], None], HEADERS)
    table = text_table("bad", "bad?").append_column("headers", headers)
    rows, summary = run_pass(moody_chain, table, tolerance=ALL, dead_topic=DEAD_LETTER_TOPIC)
    assert [(row["topic"], row["value"]) for row in rows] == [("dead", b"BAD"), ("dead", b'"bad?"')]
    headers_of_first_row = {header["key"]: header["value"] for header in rows[0]["headers"]}
    assert headers_of_first_row["own"] == b"\x00"
    assert headers_of_first_row["__connect.errors.class.name"] == b"kraal.testing.Moody"
    assert headers_of_first_row["__connect.errors.exception.message"] == b"bad"
    assert (summary.written, summary.counts.dead_letters) == (0, 2)


def test_java_error_fails_the_batch(moody_chain: JavaChain) -> None:
    with pytest.raises(PluginFailed, match="StackOverflowError"):
        run_pass(moody_chain, text_table("deep"))
    assert get_values(run_pass(moody_chain, text_table("a"))[0]) == ["A"]


def test_retriable_error_is_retried(moody_chain: JavaChain) -> None:
    rows, summary = run_pass(moody_chain, text_table("later"))
    assert get_values(rows) == ["LATER"]
    assert (summary.counts.failures, summary.counts.retries, summary.counts.errors) == (1, 1, 0)


def test_original_headers_of_a_record_stay_bytes(moody_chain: JavaChain) -> None:
    headers = pa.array([[{"key": "own", "value": b"\xff\x00"}, {"key": "none", "value": None}]], HEADERS)
    rows, _ = run_pass(moody_chain, text_table("a").append_column("headers", headers))
    assert rows[0]["headers"][:2] == [{"key": "own", "value": b"\xff\x00"}, {"key": "none", "value": None}]


def test_header_name_with_nul_fails_its_record_with_librdkafka(moody_chain: JavaChain) -> None:
    table = text_table("a", "b").append_column(
        "headers", pa.array([[{"key": "a\0b", "value": b"1"}], None], HEADERS)
    )
    rows, summary = run_pass(
        moody_chain, table, tolerance=ALL, dead_topic=DEAD_LETTER_TOPIC, refuses_nul=True
    )
    assert [row["topic"] for row in rows] == ["t", "dead"]
    headers = {header["key"]: header["value"] for header in rows[1]["headers"]}
    assert headers["a\ufffdb"] == b"1"
    assert headers["__connect.errors.stage"] == b"HEADER_CONVERTER"
    assert headers["__connect.errors.exception.message"].startswith(
        b"The header name 'a\\x00b' of a record for the topic t contains NUL"
    )
    assert (summary.written, summary.counts.dead_letters) == (1, 1)
    assert run_pass(moody_chain, table)[0][0]["headers"][0] == {"key": "a\0b", "value": b"1"}


def test_cancel_aborts_a_pass_during_a_transform(run_chain: RunChain) -> None:
    with run_chain("source", MOODY_CONFIG) as chain:
        cancelled = threading.Event()
        threading.Timer(0.5, cancelled.set).start()
        with pytest.raises(ChainCancelled):
            run_pass(chain, text_table("block"), cancelled=cancelled)


def test_pass_raises_chain_lost_after_a_jvm_exit(run_chain: RunChain) -> None:
    with run_chain("source", MOODY_CONFIG) as chain:
        pass
    with pytest.raises(ChainLost):
        run_pass(chain, text_table("a"))


def test_wrong_token_and_unknown_chain_are_rejected(moody_chain: JavaChain) -> None:
    with pytest.raises(ChainLost):
        run_pass(JavaChain(replace(moody_chain.address, token="0" * 32)), text_table("a"))
    with pytest.raises(PluginFailed, match="the task has ended"):
        run_pass(JavaChain(replace(moody_chain.address, number=2)), text_table("a"))


INNER_SCHEMA = Schema(
    type=Type.STRUCT,
    optional=True,
    fields=(
        Field(name="x", schema=Schema(type=Type.INT8)),
        Field(name="y", schema=Schema(type=Type.FLOAT32)),
    ),
)
ALL_TYPES_SCHEMA = Schema(
    type=Type.STRUCT,
    name="zoo",
    fields=(
        Field(name="flag", schema=Schema(type=Type.BOOLEAN, optional=True)),
        Field(name="small", schema=Schema(type=Type.INT16, optional=True)),
        Field(name="big", schema=Schema(type=Type.INT64, optional=True, default=7)),
        Field(name="real", schema=Schema(type=Type.FLOAT64, optional=True)),
        Field(name="text", schema=Schema(type=Type.STRING, optional=True)),
        Field(name="raw", schema=Schema(type=Type.BYTES, optional=True)),
        Field(
            name="money",
            schema=Schema(type=Type.BYTES, optional=True, name=DECIMAL, version=1, parameters={"scale": "2"}),
        ),
        Field(name="when", schema=Schema(type=Type.INT64, optional=True, name=TIMESTAMP, version=1)),
        Field(name="inner", schema=INNER_SCHEMA),
        Field(name="many", schema=Schema(type=Type.ARRAY, optional=True, value=INNER_SCHEMA)),
        Field(
            name="map",
            schema=Schema(
                type=Type.MAP, optional=True, key=STRING, value=Schema(type=Type.INT32, optional=True)
            ),
        ),
    ),
)
ARROW_TYPE = pa.struct(
    [
        ("flag", pa.bool_()),
        ("small", pa.int16()),
        ("big", pa.int64()),
        ("real", pa.float64()),
        ("text", pa.large_string()),
        ("raw", pa.binary()),
        ("money", pa.decimal128(10, 2)),
        ("when", pa.timestamp("us", "UTC")),
        ("inner", pa.struct([("x", pa.int8()), ("y", pa.float32())])),
        ("many", pa.list_(pa.struct([("x", pa.int8()), ("y", pa.float32())]))),
        ("map", pa.map_(pa.string(), pa.int32())),
    ]
)
FULL_ROW = {
    "flag": True,
    "small": -3,
    "big": 1 << 40,
    "real": 0.1,
    "text": "déjà",
    "raw": b"\x00\x01",
    "money": Decimal("-12.30"),
    "when": dt.datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=dt.UTC),
    "inner": {"x": 1, "y": 0.5},
    "many": [{"x": 2, "y": 1.5}, None],
    "map": [("k", 1), ("l", None)],
}
NULL_ROW: dict[str, Any] = dict.fromkeys(FULL_ROW)
EXPECTED_PAYLOAD = FULL_ROW | {"raw": "AAE=", "money": "-12.30", "when": -1, "map": {"k": 1, "l": None}}


def make_all_types_table(*rows: dict[str, Any]) -> pa.Table:
    return pa.table({"value": pa.array(rows, ARROW_TYPE)})


def test_values_of_all_types_keep_their_schema(run_chain: RunChain) -> None:
    with run_chain("source", {"value.converter.decimal.format": "NUMERIC"}) as chain:
        # The slice does not begin at the start of its arrays, so that their offsets matter.
        rows, _ = run_pass(
            chain,
            make_all_types_table(NULL_ROW, FULL_ROW, FULL_ROW, FULL_ROW, NULL_ROW).slice(1),
            value_schema=ALL_TYPES_SCHEMA,
        )
    values = [json.loads(row["value"], parse_float=str) for row in rows]
    expected = EXPECTED_PAYLOAD | {
        "real": "0.1",
        "inner": {"x": 1, "y": "0.5"},
        "many": [{"x": 2, "y": "1.5"}, None],
    }
    assert [value["payload"] for value in values] == [expected, expected, expected, NULL_ROW | {"big": 7}]
    fields = {field["field"]: field for field in values[0]["schema"]["fields"]}
    assert (fields["small"]["type"], fields["big"]["default"], fields["when"]["name"]) == (
        "int16",
        7,
        TIMESTAMP,
    )
    assert values[0]["schema"]["name"] == "zoo"


def test_schemaless_values_become_maps(run_chain: RunChain) -> None:
    simple = pa.array([{"n": 1, "f": 0.5, "s": ["a", None], "m": None}], pa.struct(
        [("n", pa.int32()), ("f", pa.float32()), ("s", pa.list_(pa.string())), ("m", pa.null())]
    ))  # fmt: skip
    with run_chain("source", {"value.converter.schemas.enable": "false"}) as chain:
        rows, _ = run_pass(chain, pa.table({"value": simple, "key": ["k"]}), value_schema=None)
    assert json.loads(rows[0]["value"]) == {"n": 1, "f": 0.5, "s": ["a", None], "m": None}
    assert json.loads(rows[0]["key"]) == {"schema": None, "payload": "k"}


def test_rows_can_have_their_own_topics_and_partitions(moody_chain: JavaChain) -> None:
    table = text_table("a", "b").append_column("topic", pa.array(["u", "v"]))
    table = table.append_column("partition", pa.array([None, 4], pa.int32()))
    rows, summary = run_pass(moody_chain, table, topic=None)
    assert [(row["topic"], row["partition"]) for row in rows] == [("u", None), ("v", 4)]
    assert summary.topics == {"u", "v"}


def test_rows_can_have_their_own_timestamps(run_chain: RunChain) -> None:
    times = [
        0,
        1_792_886_400_000_000,
        1_792_890_000_000_999,
        None,
    ]  # clocks in Berlin are set back between the second and the third
    timestamps = pa.array(times, pa.timestamp("us", "Europe/Berlin"))
    config = {
        "transforms": "t",
        "transforms.t.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.t.timestamp.field": "at",
        "value.converter.schemas.enable": "false",
    }
    values = pa.array([{"n": 1}] * len(times), pa.struct([("n", pa.int32())]))
    with run_chain("source", config) as chain:
        rows, _ = run_pass(chain, pa.table({"value": values, "timestamp": timestamps}), value_schema=None)
    inserted_timestamps = [json.loads(row["value"]).get("at") for row in rows]
    assert inserted_timestamps == [0, 1_792_886_400_000, 1_792_890_000_000, None]
