"""Tests for the files that Spark tasks write for the producer in the worker."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kraal.engine.source.spill import Rows, _write, to_rows

SCHEMA = pa.schema([("topic", pa.string()), ("value", pa.binary()), ("note", pa.string())])


def batch(*rows: tuple[str | None, bytes | None, str | None]) -> pa.RecordBatch:
    records = [{"topic": topic, "value": value, "note": note} for topic, value, note in rows]
    return pa.RecordBatch.from_pylist(records, SCHEMA)


def read(rows: Rows) -> list[object]:
    return [row for part in rows.batches() for row in part.to_pylist()]


def test_partition_is_spilled_to_a_file_in_order_and_without_notes(tmp_path: Path) -> None:
    batches = [batch(("a", b"1", None), ("b", None, None)), batch(("a", b"3", None), (None, None, "{}"))]
    [output] = _write(str(tmp_path), iter(batches))
    [description] = output.to_pylist()
    assert (description["rows"], description["topics"], description["notes"]) == (3, ["a", "b"], ["{}"])
    rows = Rows(count=3, topics=frozenset(), notes=[], paths=[description["path"]], directory=tmp_path)
    assert read(rows) == [
        {"topic": "a", "value": b"1"},
        {"topic": "b", "value": None},
        {"topic": "a", "value": b"3"},
    ]
    rows.close()
    assert not tmp_path.exists()


def test_empty_partition_has_no_file(tmp_path: Path) -> None:
    assert list(_write(str(tmp_path), iter([]))) == []


def test_rows_of_a_table_are_separated_from_notes() -> None:
    rows = to_rows(pa.Table.from_batches([batch(("a", b"1", None), (None, None, "{}"))]))
    assert (rows.count, sorted(rows.topics)) == (1, ["a"])
    assert list(rows.notes) == ["{}"]
    assert read(rows) == [{"topic": "a", "value": b"1"}]
    assert to_rows(pa.table({"value": [b"1"]})).topics == frozenset()
