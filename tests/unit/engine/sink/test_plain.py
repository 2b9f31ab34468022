"""Tests for batches that are converted by columns, and repeated if only the columns reject a record."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraal.converters.json.converter import JsonConverter
from kraal.engine.records.fault import ToleranceExceeded
from kraal.engine.records.steps import Steps
from kraal.engine.sink import plain
from kraal.engine.sink.frame import tail_table
from kraal.engine.sink.member_record import Record
from kraal.engine.sink.plain import PlainWriter
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.write_paths import ReadBatch
from tests.fakes.spark.passes import steps

SURROGATE_VALUE = b'{"a":"x\\ud83d"}'
REWRITTEN_VALUE = b'{"a":"x?"}'


class Harness:
    """A writer whose DataFrames are Arrow tables. Its columns reject escaped lone surrogates and invalid JSON."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, record_steps: Steps) -> None:
        monkeypatch.setattr(plain, "connect_frame", lambda raw, _: (raw, None, None))
        self.attempts = 0
        self.values: list[Any] = []
        unused: Any = None
        self.writer = PlainWriter(unused, unused, RangeReader({}, skips_lost_offsets=True), record_steps)

    def write(self, *values: bytes) -> None:
        """Write a tail."""
        records = [Record("t", 0, offset, 0, (), b"{}", value) for offset, value in enumerate(values)]
        batch = ReadBatch({}, len(values), tail_table(records), is_tail=True)
        tiny = SimpleNamespace(createDataFrame=lambda table: SimpleNamespace(coalesce=lambda _: table))
        spark: Any = SimpleNamespace(tiny=tiny)
        self.writer.write(batch, lambda: spark, self._put)

    def _put(self, table: Any, *_: Any, records: int) -> None:
        self.attempts += 1
        rows = table.to_pylist()
        assert len(rows) == records
        for row in rows:
            if b"\\ud83d" in row["value"] or b"!" in row["value"]:
                message = f"The value of t-0@{row['offset']} cannot be converted: not JSON"
                raise ValueError(f"[USER_RAISED_EXCEPTION] {message} SQLSTATE: P0001")
        self.values = [row["value"] for row in rows]


def json_steps() -> Steps:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    return replace(steps(), key=converter, value=converter)


def test_batch_is_repeated_if_only_the_columns_reject_a_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(monkeypatch, json_steps())
    harness.write(b'{"n": 1.50}', SURROGATE_VALUE, b"[1]")
    assert (harness.attempts, harness.values) == (2, [b'{"n":1.50}', REWRITTEN_VALUE, b"[1]"])
    harness.write(b'{"n": 1.50}')
    assert (harness.attempts, harness.values) == (3, [b'{"n": 1.50}']), "unchanged if no value is rejected"


def test_fault_of_a_failed_batch_contains_the_offset_of_the_invalid_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for values in ((b"!",), (SURROGATE_VALUE, b"!"), (b"!", SURROGATE_VALUE)):
        with pytest.raises(ToleranceExceeded) as raised:
            Harness(monkeypatch, json_steps()).write(*values)
        assert raised.value.fault.offset == values.index(b"!")


def test_batch_is_not_repeated_without_a_rewriting_converter(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(monkeypatch, steps())
    with pytest.raises(ValueError, match="cannot be converted"):
        harness.write(SURROGATE_VALUE)
    assert harness.attempts == 1
