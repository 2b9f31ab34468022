"""Tests for connectors with several tables, each with its own commits and offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from kraal.connectors.tables.delta import DeltaLakeTable
from kraal.connectors.tables.iceberg import IcebergTable
from kraal.connectors.tables.positions import Ranges
from kraal.connectors.tables.routing import TableRouter, find_routes
from kraal.connectors.tables.settings import ChangeSettings, WriterSettings
from kraal.connectors.tables.table import LakeTable, TableState
from kraal.connectors.tables.template import TableTemplate
from kraal.connectors.tables.writer import Delivery, TableWriter
from kraal.plugins.api import DataException, RetriableError, TableReport, TopicPartition
from tests.fakes.tables.records import KEY, Record, envelope, field, row, struct, tombstone
from tests.unit.connectors.tables.conftest import Lake

A, B = TopicPartition("shop.a", 0), TopicPartition("shop.b", 0)
ROUTED_KEY = struct(field("id", "int32"), field("region"))
ROUTED_ROW = struct(field("id", "int32"), field("region"), field("name"))


class Router:
    """A task's router, and its tables."""

    def __init__(self, lake: Lake, template: str, mode: str = "append", **options: Any) -> None:
        self._lake = lake
        self.opened: list[str] = []
        prefix = f"{lake.path}/" if lake.kind == "delta" else "lake."
        parsed = TableTemplate.parse(f"{prefix}{template}", options.get("regex"), options.get("field"))
        settings = WriterSettings(ChangeSettings(mode=mode), "evolve")

        def make_writer(name: str) -> TableWriter:
            self.opened.append(name)
            return TableWriter(
                self.open(name), settings, sleep=lambda _: None, report_table=self._record_table
            )

        self.router = TableRouter(parsed, mode, make_writer)
        self.reports: dict[int, str] = {}
        self.tables: dict[str, TableReport] = {}
        """The latest report of each table, by the last part of its name."""

    def _record_table(self, report: TableReport) -> None:
        self.tables[report.table.replace("/", ".").rpartition(".")[2]] = report

    def open(self, name: str) -> LakeTable:
        """Return a table by its complete name."""
        if self._lake.kind == "delta":
            return DeltaLakeTable(name, "sink")
        return IcebergTable(self._lake.open_catalog, name, "sink")

    def write(
        self,
        records: Mapping[TopicPartition, list[Record]],
        starts: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Write a batch with records of several partitions."""
        parts, ranges = zip(
            *(make_batch(p, items, (starts or {}).get(p, 0)) for p, items in records.items()), strict=True
        )
        delivery = Delivery(report=lambda _, offset, error: self.reports.update({offset: str(error)}))
        self.router.write(
            pa.concat_tables(parts), {p: span for part in ranges for p, span in part.items()}, delivery
        )

    def read(self, name: str) -> list[Any]:
        """Return the values of the column `name` of a table, sorted; none if it does not exist."""
        handle = self._load(name).handle
        if handle is None:
            return []
        rows = handle.to_pyarrow_table() if self._lake.kind == "delta" else handle.scan().to_arrow()
        return sorted(rows["name"].to_pylist())

    def offset(self, name: str, partition: TopicPartition) -> int | None:
        """Return the offset of a partition in a table."""
        return self._load(name, partition).offsets.get(partition)

    def _load(self, name: str, *partitions: TopicPartition) -> TableState:
        prefix = f"{self._lake.path}/" if self._lake.kind == "delta" else "lake."
        return self.open(prefix + name).load(partitions)


def make_batch(partition: TopicPartition, records: list[Record], start: int) -> tuple[pa.Table, Ranges]:
    count = len(records)
    columns = {
        "topic": pa.array([partition.topic] * count, pa.string()),
        "partition": pa.array([partition.partition] * count, pa.int32()),
        "offset": pa.array(range(start, start + count), pa.int64()),
        "key": pa.array([key for key, _ in records], pa.string()),
        "value": pa.array([value for _, value in records], pa.string()),
    }
    return pa.table(columns), {partition: (start, start + count)}


def routed(number: int, region: str | None, name: str | None) -> Record:
    value = None if name is None else envelope(ROUTED_ROW, {"id": number, "region": region, "name": name})
    return envelope(ROUTED_KEY, {"id": number, "region": region}), value


def test_each_topic_has_its_table_and_its_offsets(lake: Lake) -> None:
    router = Router(lake, "${1}", regex=r"shop\.(\w+)")
    assert router.router.read_offsets([A, B]) == {}
    router.write({A: [row(1, "x"), row(2, "y")], B: [row(1, "z")]})
    assert (router.read("a"), router.read("b")) == (["x", "y"], ["z"])
    assert (router.offset("a", A), router.offset("a", B), router.offset("b", B)) == (2, None, 1)
    router.write({B: [row(2, "zz")]}, {B: 1})
    other = Router(lake, "${1}", regex=r"shop\.(\w+)")
    assert other.router.read_offsets([A, B]) == {A: 2, B: 2}


def test_failed_commit_of_one_table_repeats_no_row_of_another(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    router = Router(lake, "${1}_of_topic", regex=r"shop\.(\w+)")
    router.router.read_offsets([A, B])
    write, batch = TableWriter.write, {A: [row(1, "x")], B: [row(1, "z")]}

    def fail(writer: TableWriter, records: pa.Table, ranges: Ranges, delivery: Delivery) -> None:
        if B in ranges:
            raise RetriableError("the storage is not available")
        write(writer, records, ranges, delivery)

    with monkeypatch.context() as patch:
        patch.setattr(TableWriter, "write", fail)
        with pytest.raises(RetriableError):
            router.write(batch)
    assert (router.read("a_of_topic"), router.read("b_of_topic")) == (["x"], [])
    router.write(batch)
    assert (router.read("a_of_topic"), router.read("b_of_topic")) == (["x"], ["z"])


def test_renamed_topics_are_an_error(lake: Lake) -> None:
    router = Router(lake, "${1}", regex=r"shop\.(\w+)")
    first, ranges = make_batch(A, [row(1, "x")], 0)
    second, more_ranges = make_batch(TopicPartition("renamed", 0), [row(1, "x")], 0)
    delivery = Delivery(report=lambda *_: None)
    with pytest.raises(DataException, match=r"use table\.topic\.regex"):
        router.router.write(pa.concat_tables([first, second]), {**ranges, B: (0, 1)}, delivery)
    assert more_ranges
    router.router.write(second, {B: (0, 1)}, delivery)
    assert router.read("b") == ["x"], "the only topic may have another name"


def test_field_determines_the_table(lake: Lake) -> None:
    router = Router(lake, "orders_${route}", field="region")
    router.write(
        {A: [routed(1, "eu", "a"), routed(2, "us", "b"), routed(3, None, "c"), routed(4, "../x", "d")]}
    )
    assert (router.read("orders_eu"), router.read("orders_us")) == (["a"], ["b"])
    assert "the field region, which names its table, is null or missing" in router.reports[2]
    assert "the value '../x' of the field region cannot be part of a table's name" in router.reports[3]
    assert (router.offset("orders_eu", A), router.offset("orders_us", A)) == (4, 4)


def test_repeated_records_are_written_once_to_each_table(lake: Lake) -> None:
    """The consumer group is behind the tables after a kill between two commits."""
    records = [routed(n, "eu" if n % 3 else "us", str(n)) for n in range(9)]
    router = Router(lake, "${route}", field="region")
    router.write({A: records[:4]})
    router.write({A: records[4:6]}, {A: 4})
    assert (router.offset("eu", A), router.offset("us", A)) == (6, 4), "the other table is not written"
    for start in (0, 4, 6):
        again = Router(lake, "${route}", field="region")
        assert again.router.read_offsets([A]) == {}, "the group determines the position"
        again.write({A: records[start:]}, {A: start})
    assert sorted(router.read("eu") + router.read("us")) == [str(n) for n in range(9)]
    router.write({A: records[6:]}, {A: 6})
    assert sorted(router.read("eu") + router.read("us")) == [str(n) for n in range(9)]


def test_deletes_reach_the_table_of_their_key(lake: Lake) -> None:
    router = Router(lake, "${route}", "upsert", field="region")
    router.write(
        {A: [routed(1, "eu", "a"), routed(1, "us", "b"), routed(2, "us", "c"), routed(1, "us", None)]}
    )
    assert (router.read("eu"), router.read("us")) == (["a"], ["c"])


def test_each_table_reports_its_partitions(lake: Lake) -> None:
    router = Router(lake, "${1}", regex=r"shop\.(\w+)")
    router.router.read_offsets([A, B])
    assert {name: report.offsets for name, report in router.tables.items()} == {
        "a": {A: None},
        "b": {B: None},
    }
    router.write({A: [row(1, "x"), row(2, "y")], B: [row(1, "z")]})
    reports = router.tables
    assert {name: report.offsets for name, report in reports.items()} == {"a": {A: 2}, "b": {B: 1}}
    assert {name: (report.rows, report.totals.rows_added) for name, report in reports.items()} == {
        "a": (2, 2),
        "b": (1, 1),
    }
    router.router.read_offsets([B])
    assert (reports["a"].offsets, reports["a"].rows, reports["b"].offsets) == ({}, 2, {B: 1})


def test_tables_of_a_field_report_the_partitions_of_the_task(lake: Lake) -> None:
    router = Router(lake, "${route}", field="region")
    other = TopicPartition(A.topic, 1)
    router.router.read_offsets([A, other])
    assert router.tables == {}, "the tables are unknown"
    router.write({A: [routed(1, "eu", "a"), routed(2, "us", "b")]})
    assert router.tables["eu"].offsets == router.tables["us"].offsets == {A: 2, other: None}
    router.write({A: [routed(3, "eu", "c")]}, {A: 2})
    assert (router.tables["eu"].offsets[A], router.tables["us"].offsets[A]) == (3, 2)
    router.router.read_offsets([other])
    assert router.tables["eu"].offsets == {other: None}
    router.write({other: [routed(4, "eu", "d")]})
    assert (router.tables["eu"].offsets, router.tables["eu"].totals.commits) == ({other: 1}, 3)


def test_route_is_a_field_of_the_value_or_of_the_key() -> None:
    table, _ = make_batch(A, [routed(1, "eu", "a"), row(2, "b"), tombstone(3), (None, None)], 0)
    assert find_routes(table, "region", "append").to_pylist() == ["eu", None, None, None]
    assert find_routes(table, "id", "cdc").to_pylist() == ["1", "2", "3", None]
    nested = (
        envelope(KEY, {"id": 1}),
        envelope(struct(field("region", "struct", fields=[field("x")])), {"region": {}}),
    )
    assert find_routes(make_batch(A, [nested], 0)[0], "region", "append").to_pylist() == [None]
