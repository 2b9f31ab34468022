"""Tests for partitions, sort order and properties of new tables."""

from __future__ import annotations

import pytest

from kraal.connectors.tables.layout import (
    PartitionField,
    SortField,
    TableLayout,
    parse_partition_by,
    parse_sort_by,
)
from kraal.connectors.tables.table import SchemaRefused
from tests.fakes.tables.records import KEY, Record, envelope, field, struct
from tests.unit.connectors.tables.conftest import Lake

SCHEMA = struct(field("id", "int32"), field("name"), field("at", "int64", "io.debezium.time.MicroTimestamp"))
DAY_US = 86_400_000_000


def record(number: int, name: str) -> Record:
    value = {"id": number, "name": name, "at": number * DAY_US}
    return envelope(KEY, {"id": number}), envelope(SCHEMA, value)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", ()),
        ("country, order id", (PartitionField("country"), PartitionField("order id"))),
        ("day(at),bucket( id , 16 )", (PartitionField("at", "day"), PartitionField("id", "bucket[16]"))),
        ("years(a), MONTHS(b)", (PartitionField("a", "year"), PartitionField("b", "month"))),
        ("hour(a), truncate(b,4)", (PartitionField("a", "hour"), PartitionField("b", "truncate[4]"))),
    ],
)
def test_partition_fields_are_parsed(text: str, fields: tuple[PartitionField, ...]) -> None:
    assert parse_partition_by(text) == fields


@pytest.mark.parametrize(
    "text",
    ["a,", "a,,b", "a,a", "week(a)", "bucket(a)", "bucket(a, x)", "bucket(a, 0)", "day(a", "day()", "a)"],
)
def test_invalid_partition_field_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_partition_by(text)


def test_sort_fields_are_parsed() -> None:
    fields = (SortField("a"), SortField("b c", is_descending=True), SortField("d"))
    assert parse_sort_by("a asc, b c DESC,d") == fields
    assert parse_sort_by(" ") == ()
    for text in ("a,", "a, a desc"):
        with pytest.raises(ValueError, match=r".+"):
            parse_sort_by(text)


def test_table_of_iceberg_has_partition_transforms(lake: Lake) -> None:
    if lake.kind != "iceberg":
        return
    terms = parse_partition_by("month(at), bucket(id, 4), truncate(name, 1)")
    writer = lake.writer(layout=TableLayout(partition_by=terms))
    writer.write(record(1, "anna"), record(40, "bert"), record(2, "carl"))
    writer.write(record(1, "dora"), record(41, "emil"), start=3)
    assert lake.names() == {1: "dora", 40: "bert", 2: "carl", 41: "emil"}
    spec = lake.open().load([]).handle.spec()
    assert [str(term.transform) for term in spec.fields] == ["month", "bucket[4]", "truncate[1]"]


def test_files_of_iceberg_are_sorted(lake: Lake) -> None:
    if lake.kind != "iceberg":
        return
    writer = lake.writer("append", layout=TableLayout(sort_by=parse_sort_by("name desc, id")))
    writer.write(record(3, "a"), record(2, "b"), record(1, "b"))
    assert lake.read()["id"].to_pylist() == [1, 2, 3]
    order = lake.open().load([]).handle.sort_order()
    assert [str(term.direction) for term in order.fields] == ["DESC", "ASC"]


def test_new_table_has_the_properties(lake: Lake) -> None:
    name, value = {
        "iceberg": ("write.parquet.compression-codec", "gzip"),
        "delta": ("delta.logRetentionDuration", "interval 2 days"),
    }[lake.kind]
    lake.writer("append", layout=TableLayout(properties={name: value})).write(record(1, "a"))
    handle = lake.open().load([]).handle
    properties = handle.properties if lake.kind == "iceberg" else handle.metadata().configuration
    assert properties[name] == value


def test_unknown_column_is_an_error_that_names_the_columns(lake: Lake) -> None:
    writer = lake.writer("append", layout=TableLayout(partition_by=parse_partition_by("country")))
    with pytest.raises(SchemaRefused, match=r"partition\.by names the column country, .* only id, name, at"):
        writer.write(record(1, "a"))
    assert lake.open().load([]).handle is None


def test_transform_that_does_not_fit_the_column_is_an_error(lake: Lake) -> None:
    if lake.kind != "iceberg":
        return
    writer = lake.writer("append", layout=TableLayout(partition_by=parse_partition_by("day(name)")))
    with pytest.raises(SchemaRefused, match=r"shop\.orders cannot be created: day cannot transform string"):
        writer.write(record(1, "a"))
    assert lake.open().load([]).handle is None
