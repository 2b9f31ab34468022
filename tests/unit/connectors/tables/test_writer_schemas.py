"""Tests for commits of records whose schemas differ from those of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from kraal.connectors.tables.layout import TableLayout, parse_partition_by
from kraal.connectors.tables.writer import Delivery
from kraal.plugins.api import DataException, RetriableError
from tests.fakes.tables.records import (
    KEY,
    ROW,
    TOPIC,
    Record,
    batch,
    envelope,
    field,
    row,
    struct,
    tombstone,
)
from tests.unit.connectors.tables.conftest import Lake, list_files

WITH_NOTE = struct(field("id", "int32"), field("name"), field("note", "double"))
WIDER = struct(field("id", "int64"), field("name"))


def test_new_column_is_added(lake: Lake) -> None:
    writer = lake.writer()
    writer.write(row(1, "a"), row(2, "b"))
    writer.write(row(2, "c", WITH_NOTE, note=1.5), row(3, "d"), start=2)
    rows: Mapping[int, Any] = {item["id"]: item["note"] for item in lake.read().to_pylist()}
    assert rows == {1: None, 2: 1.5, 3: None}
    writer.write(row(1, "z"), start=4)
    assert lake.names() == {1: "z", 2: "c", 3: "d"}


def test_new_nested_fields_are_added(lake: Lake) -> None:
    def record(number: int, *names: str) -> Record:
        nested = [field(name) for name in names]
        schema = struct(
            field("id", "int32"),
            field("nested", "struct", fields=nested),
            field("list", "array", items=struct(*nested)),
        )
        values = dict.fromkeys(names, "x")
        return envelope(KEY, {"id": number}), envelope(
            schema, {"id": number, "nested": values, "list": [values]}
        )

    writer = lake.writer()
    writer.write(record(1, "a"), record(2, "a"))
    writer.write(record(2, "a", "b"), start=2)
    writer.write(record(1, "b"), start=3)
    rows = {item["id"]: (item["nested"], item["list"]) for item in lake.read().to_pylist()}
    assert rows[2] == ({"a": "x", "b": "x"}, [{"a": "x", "b": "x"}])
    assert rows[1] == ({"a": None, "b": "x"}, [{"a": None, "b": "x"}])


def test_wider_type_widens_the_column_or_is_refused(lake: Lake) -> None:
    writer = lake.writer("append")
    writer.write(row(1, "a"))
    wide = None, row(2**40, "b", WIDER)[1]
    if lake.kind == "delta":
        with pytest.raises(
            DataException, match=r"-0@1 does not fit .* type int32, which cannot store or become int64"
        ):
            writer.write(wide, start=1)
        assert (lake.names(), lake.offset()) == ({1: "a"}, 1)
    else:
        writer.write(wide, row(3, "c"), start=1)
        assert lake.names() == {1: "a", 2**40: "b", 3: "c"}


def test_type_that_does_not_fit_is_an_error_that_names_record_and_types(lake: Lake) -> None:
    writer = lake.writer()
    writer.write(row(1, "a"))
    schema = struct(field("id", "int32"), field("name", "int32"))
    with pytest.raises(DataException) as error:
        writer.write((row(1, "")[0], envelope(schema, {"id": 1, "name": 5})), start=1)
    assert f"{TOPIC}-0@1 does not fit into {lake.open().name}: column name has type string" in str(
        error.value
    )
    assert "cannot store or become int32 (schema.evolution=evolve)" in str(error.value)
    assert lake.offset() == 1


def test_policy_fail_refuses_a_new_column(lake: Lake) -> None:
    writer = lake.writer(evolution="fail")
    writer.write(row(1, "a"))
    with pytest.raises(DataException, match=r"-0@2 does not fit .*: the table has no column note \(double\)"):
        writer.write(row(1, "b"), row(2, "b", WITH_NOTE, note=1.0), start=1)
    assert lake.names() == {1: "a"}


@pytest.mark.parametrize("policy", ["ignore", "dead-letter", "evolve"])
def test_record_that_does_not_fit_follows_the_policy(lake: Lake, policy: str) -> None:
    writer = lake.writer(evolution=policy)
    writer.write(row(1, "a"))
    numeric = struct(field("id", "int32"), field("name", "int32"))
    misfit = row(2, "")[0], envelope(numeric, {"id": 2, "name": 5})
    records = row(3, "c", WITH_NOTE, note=1.5), misfit, row(4, "d", WITH_NOTE, note=None)
    writer.write(*records, start=1, tolerates=True)
    policies: dict[str, dict[int, str | None]]
    policies = {"ignore": {3: "c", 2: None}, "dead-letter": {}, "evolve": {3: "c"}}
    names = policies[policy]
    assert lake.names() == {1: "a", 4: "d", **names}
    assert lake.read().column_names == ["id", "name", *(["note"] if policy == "evolve" else [])]
    assert list(writer.reports) == {"ignore": [], "dead-letter": [1, 2], "evolve": [2]}[policy]
    if policy != "ignore":
        assert (
            f"{TOPIC}-0@2 does not fit into {lake.open().name}: column name has type string"
            in writer.reports[2]
        )
    assert lake.offset() == 4


def test_values_without_a_schema_are_widened_and_follow_the_policy(lake: Lake) -> None:
    writer = lake.writer("append", evolution="dead-letter")
    payloads = [{"a": 1, "b": 1}, {"a": "x", "b": 2}, {"a": 3, "b": 2.5}]
    writer.write(*((None, envelope(None, payload)) for payload in payloads), tolerates=True)
    writer.write((None, envelope(None, {"a": 4, "b": 7})), start=3)
    assert sorted(lake.read()["a"].to_pylist()) == [1, 3, 4]
    assert sorted(lake.read()["b"].to_pylist()) == [1.0, 2.5, 7.0]
    assert writer.reports.keys() == {1}
    assert "-0@1 does not fit" in writer.reports[1]
    assert "column a has type int64, which cannot store or become string" in writer.reports[1]


def test_dead_letters_are_written_before_the_commit(lake: Lake) -> None:
    writer, offsets = lake.writer("append"), list[int | None]()
    table, ranges = batch([row(1, "a"), (None, "garbage")])
    reported: list[int] = []

    def flush() -> None:
        assert reported == [1]
        offsets.append(lake.offset())
        if len(offsets) == 1:
            raise RetriableError("the dead letter topic is not available")

    delivery = Delivery(report=lambda _, offset, __: reported.append(offset), flush_reports=flush)
    with pytest.raises(RetriableError):
        writer.writer.write(table, ranges, delivery)
    assert lake.offset() is None
    reported.clear()
    writer.writer.write(table, ranges, delivery)
    assert (offsets, lake.offset(), lake.names()) == ([None, None], 2, {1: "a"})


def test_invalid_record_is_an_error_that_names_its_position(lake: Lake) -> None:
    with pytest.raises(
        DataException, match=rf"{TOPIC}-0@8 cannot be written to .*: the column id of its key is null"
    ):
        lake.writer().write(row(1, "a"), row(None, "b"), start=7)
    assert lake.offset() is None


def test_required_column_refuses_null(lake: Lake) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int32(), nullable=False), pa.field("name", pa.string(), nullable=False)]
    )
    if lake.kind == "iceberg":
        catalog = lake.open_catalog()
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", schema)
    else:
        from deltalake import DeltaTable, Schema  # noqa: PLC0415 - heavy

        DeltaTable.create(str(lake.path / "orders"), Schema.from_arrow(schema))
    writer = lake.writer()
    writer.write(row(1, "a"))
    writer.write(row(1, "b"), start=1)
    assert lake.names() == {1: "b"}
    with pytest.raises(
        DataException, match=r"-0@2 cannot be .*: the column name of the table requires a value"
    ):
        writer.write(row(2, None), start=2)


def test_table_is_partitioned_by_columns(lake: Lake) -> None:
    writer = lake.writer(layout=TableLayout(partition_by=parse_partition_by("name")))
    writer.write(row(1, "a"), row(2, "b"))
    writer.write(row(1, "b"), row(3, "a"), tombstone(2), start=2)
    assert lake.names() == {1: "b", 3: "a"}
    assert any("name=b" in path for path in list_files(lake))


ALL_TYPES = struct(
    field("id", "int32"),
    field("time", "int64", "io.debezium.time.MicroTime"),
    field("nested", "struct", fields=[field("x", "bytes"), field("t", "int32", "io.debezium.time.Time")]),
    field("tags", "array", items={"type": "string"}),
    field("attributes", "map", keys={"type": "string"}, values={"type": "int64", "optional": True}),
    field("hours", "map", keys={"type": "string"}, values={"type": "int32", "name": "io.debezium.time.Time"}),
)


def test_nested_values_are_stored_and_replaced(lake: Lake) -> None:
    def record(number: int) -> Record:
        value = {
            "id": number,
            "time": number,
            "nested": {"x": "AQ==", "t": 1},
            "tags": ["a", None],
            "attributes": {"k": number},
            "hours": {"k": 1},
        }
        return envelope(KEY, {"id": number}), envelope(ALL_TYPES, value)

    writer = lake.writer()
    writer.write(record(1), record(2))
    writer.write(record(1), (envelope(KEY, {"id": 3}), envelope(ALL_TYPES, {"id": 3})), start=2)
    rows = {item["id"]: item for item in lake.read().to_pylist()}
    assert rows.keys() == {1, 2, 3}
    assert rows[1]["nested"]["x"] == b"\x01"
    assert (rows[1]["tags"], dict(rows[1]["attributes"])) == (["a", None], {"k": 1})
    assert str(dict(rows[1]["hours"])["k"]) == "00:00:00.001000"
    assert (rows[3]["nested"], rows[3]["tags"], rows[3]["attributes"]) == (None, None, None)
    assert str(rows[1]["time"]) == "00:00:00.000001"
    assert ROW != ALL_TYPES
