"""Tests for Java converters and transforms that process the batches of a sink: values, headers and faults."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from kraal.engine.records.sink_pass import COLUMNS, OUT, SinkPass
from kraal.engine.records.source_pass import HEADERS
from kraal.engine.records.steps import Summary, merge_notes
from kraal.engine.records.tolerance import Tolerance
from kraal.java_plugins.chains.chain import JavaChain
from tests.fakes.spark.passes import ALL, steps
from tests.integration.java_plugins.chains.conftest import JSON_CONVERTER, RunChain

pytestmark = pytest.mark.ci

MOODY_CONFIG = {
    "transforms": "m",
    "transforms.m.type": "kraal.testing.Moody",
    "transforms.m.prefix": "-",
    "key.converter": "kraal.testing.Shouting",
    "value.converter": "kraal.testing.Shouting",
}
TIMESTAMP = dt.datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=dt.UTC)
SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "n", "type": "int32"},
        {"field": "raw", "type": "bytes"},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1},
        {"field": "many", "type": "array", "items": {"type": "double"}},
        {
            "field": "money",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
        {"field": "none", "type": "string", "optional": True},
    ],
}
PAYLOAD = {"n": 1, "raw": "AAE=", "at": 1500, "many": [0.5, 2.0], "money": "BNI=", "none": None}


@pytest.fixture(scope="module")
def moody_chain(run_chain: RunChain) -> Iterator[JavaChain]:
    """Start one chain for all tests of the module, because the transform counts all records."""
    with run_chain("sink", MOODY_CONFIG | {"errors.retry.timeout": "5000"}) as chain:
        yield chain


def make_table(*values: bytes | None, **columns: list[Any]) -> pa.Table:
    """Return records of partition 3, starting at offset 10."""
    count = len(values)
    data = {
        "topic": ["t"] * count,
        "partition": [3] * count,
        "offset": list(range(10, 10 + count)),
        "timestamp": [TIMESTAMP] * count,
        "timestampType": [0] * count,
        "headers": [None] * count,
        "key": [None] * count,
        "value": list(values),
    } | columns
    types = {name: OUT.field(name).type for name in OUT.names} | {"timestampType": pa.int32()}
    return pa.table({name: pa.array(data[name], types[name]) for name in COLUMNS})


def run_pass(
    chain: JavaChain, records: pa.Table, *, tolerance: Tolerance | None = None, **options: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Summary]:
    """Pass records through the chain as a Spark job does. Return the rows, the dead letters and the summary."""
    sink_pass = SinkPass(steps=steps(tolerance), **({"value_form": "text"} | options))
    run = pickle.loads(pickle.dumps(chain.sink_pass(sink_pass, None)))  # noqa: S301 - created here
    output = pa.Table.from_batches(list(run(records.to_batches(2))), OUT)
    rows = output.to_pylist()
    summary, _ = merge_notes(output["note"].to_pylist())
    valid_rows = [row for row in rows if row["note"] is None]
    dead_letters = [row for row in rows if row["note"] is not None and row["topic"] is not None]
    return valid_rows, dead_letters, summary


def test_records_are_converted_and_transformed_in_order(moody_chain: JavaChain) -> None:
    rows, _, summary = run_pass(moody_chain, make_table(b"a", b"drop", "é".encode(), key=[b"k", None, None]))
    assert [row["value"].decode().partition(":")[2] for row in rows] == ["a", "é"]
    first_row = rows[0]
    position = (
        first_row["topic"],
        first_row["partition"],
        first_row["offset"],
        first_row["timestamp"],
        first_row["key"],
    )
    assert position == ("t", 3, 10, TIMESTAMP, b"k")
    assert rows[1]["offset"] == 12
    assert [header["key"] for header in first_row["headers"]] == ["count"]
    assert (summary.read, summary.written, summary.dropped) == (3, 2, 1)
    assert summary.topics == frozenset({"t"})


def test_transform_keeps_its_state_between_batches(moody_chain: JavaChain) -> None:
    def read_count(row: dict[str, Any]) -> int:
        return int(row["value"].decode().partition(":")[0].removeprefix("-"))

    first, second = (
        run_pass(moody_chain, make_table(b"a", b"b"))[0],
        run_pass(moody_chain, make_table(b"c"))[0],
    )
    assert [read_count(row) - read_count(first[0]) for row in (*first, *second)] == [0, 1, 2]


def test_first_bad_record_ends_the_pass_without_tolerance(moody_chain: JavaChain) -> None:
    rows, _, summary = run_pass(moody_chain, make_table(b"a", b"bad one", b"b", b"c", b"d"))
    assert [row["offset"] for row in rows] == [10]
    fatal = summary.fatal
    assert fatal is not None
    assert (fatal.stage, fatal.class_name) == ("TRANSFORMATION", "kraal.testing.Moody")
    assert (fatal.topic, fatal.partition, fatal.offset, fatal.message) == ("t", 3, 11, "bad one")
    assert fatal.stack.startswith(
        "org.apache.kafka.connect.errors.DataException: bad one\n\tat kraal.testing.Moody"
    )
    assert (summary.counts.failures, summary.counts.errors, summary.counts.skipped) == (1, 1, 0)


def test_dead_letters_contain_the_original_records(moody_chain: JavaChain) -> None:
    headers = [None, [{"key": "own", "value": b"\xff"}], None]
    records = make_table(b"a", b"bad", b"c", headers=headers, key=[None, b"k", None])
    rows, dead_letters, summary = run_pass(moody_chain, records, tolerance=ALL, writes_dead_letters=True)
    assert [row["offset"] for row in rows] == [10, 12]
    (letter,) = dead_letters
    note = json.loads(letter.pop("note"))["fault"]
    assert letter == records.select(list(OUT.names[:-1])).to_pylist()[1]
    assert (note["partition"], note["offset"], note["exception"]) == (
        3, 11, "org.apache.kafka.connect.errors.DataException",
    )  # fmt: skip
    assert "topic='t', partition=3, offset=11, timestamp=" in note["record"]
    assert (summary.written, summary.counts.dead_letters, summary.counts.skipped) == (2, 1, 1)


def test_retriable_error_is_retried(moody_chain: JavaChain) -> None:
    rows, _, summary = run_pass(moody_chain, make_table(b"later"))
    assert len(rows) == 1
    assert (summary.counts.failures, summary.counts.retries, summary.counts.errors) == (1, 1, 0)


def test_unchanged_headers_keep_their_bytes(moody_chain: JavaChain) -> None:
    headers = [
        {"key": "own", "value": b"\xff\x00"},
        {"key": "number", "value": b"1.0"},
        {"key": "none", "value": None},
    ]
    rows, _, _ = run_pass(moody_chain, make_table(b"a", headers=[headers]))
    assert rows[0]["headers"][:3] == headers
    assert pa.array([rows[0]["headers"]], HEADERS).null_count == 0


def test_record_without_a_timestamp_keeps_none(moody_chain: JavaChain) -> None:
    rows, _, _ = run_pass(
        moody_chain, make_table(b"a", b"b", timestamp=[None, TIMESTAMP], timestampType=[-1, 1])
    )
    assert [row["timestamp"] for row in rows] == [None, TIMESTAMP]


def test_converter_failure_names_the_converter_and_counts_no_topic(run_chain: RunChain) -> None:
    with run_chain("sink", {}) as chain:
        rows, _, summary = run_pass(chain, make_table(b"{no json"), tolerance=Tolerance(all=True, logs=True))
    assert not rows
    assert summary.topics == frozenset()
    assert [(fault.stage, fault.class_name) for fault in summary.faults] == [
        ("VALUE_CONVERTER", JSON_CONVERTER)
    ]


def test_values_are_formatted_like_java_or_as_json(run_chain: RunChain) -> None:
    value = json.dumps({"schema": SCHEMA, "payload": PAYLOAD}).encode()
    with run_chain("sink", {}) as chain:
        (text_row,), _, _ = run_pass(chain, make_table(value))
        (json_row,), _, _ = run_pass(chain, make_table(value), value_form="json")
        (null_row,), _, _ = run_pass(chain, make_table(None), value_form="json")
    assert text_row["value"].startswith(b"Struct{n=1,raw=")
    assert json.loads(json_row["value"]) == PAYLOAD | {"money": "12.34"}
    assert null_row["value"] is None


def test_bytes_are_unchanged_in_text_format(run_chain: RunChain) -> None:
    with run_chain(
        "sink", {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}
    ) as chain:
        (row,), _, _ = run_pass(chain, make_table(b"\x00\xff"))
    assert row["value"] == b"\x00\xff"


def test_tolerated_record_with_a_null_topic_is_skipped(moody_chain: JavaChain) -> None:
    rows, _, summary = run_pass(moody_chain, make_table(b"nowhere", b"a"), tolerance=ALL)
    assert [row["offset"] for row in rows] == [11]
    assert (summary.read, summary.written, summary.counts.skipped) == (2, 1, 1)
