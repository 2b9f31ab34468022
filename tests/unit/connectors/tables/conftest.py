"""Tables of both formats in a temporary directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from kraal.connectors.tables.delta import DeltaLakeTable
from kraal.connectors.tables.iceberg import IcebergTable, make_catalog
from kraal.connectors.tables.layout import DEFAULT_LAYOUT, TableLayout
from kraal.connectors.tables.settings import ChangeSettings, WriterSettings
from kraal.connectors.tables.table import LakeTable
from kraal.connectors.tables.writer import Delivery, TableWriter
from kraal.plugins.api import TopicPartition
from tests.fakes.tables.records import TOPIC, Record, batch

PARTITION = TopicPartition(TOPIC, 0)


@dataclass
class Lake:
    """A table of one format, for several writers."""

    kind: Literal["iceberg", "delta"]
    path: Path

    def open(self, connector: str = "sink", **settings: Any) -> LakeTable:
        """Return the table, opened separately, as each task does."""
        if self.kind == "delta":
            return DeltaLakeTable(str(self.path / "orders"), connector, **settings)
        return IcebergTable(self.open_catalog, "shop.orders", connector, **settings)

    def open_catalog(self) -> Any:
        """Open the catalog of the Iceberg table."""
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{self.path}/catalog/catalog.db",
            "warehouse": f"file://{self.path}/warehouse",
        }
        return make_catalog("iceberg", properties)

    def read(self) -> pa.Table:
        """Return all rows of the table, read by the format's library; none if it does not exist."""
        handle = self.open().load([]).handle
        if handle is None:
            return pa.table({"id": []})
        return handle.to_pyarrow_table() if self.kind == "delta" else handle.scan().to_arrow()

    def names(self) -> Mapping[int, str | None]:
        """Return the column `name` by `id`; ids must be distinct."""
        rows = self.read().to_pylist()
        names = {row["id"]: row["name"] for row in rows}
        assert len(names) == len(rows), rows
        return names

    def offset(self, partition: TopicPartition = PARTITION, connector: str = "sink") -> int | None:
        """Return the next offset of a partition."""
        return self.open(connector).load([partition]).offsets.get(partition)

    def writer(
        self,
        mode: str = "upsert",
        evolution: str = "evolve",
        layout: TableLayout = DEFAULT_LAYOUT,
        **settings: Any,
    ) -> Writer:
        """Return a writer that continues at the offsets of the table, like a task that has started."""
        writer_settings = WriterSettings(ChangeSettings(mode=mode, **settings), evolution)
        return Writer(TableWriter(self.open(layout=layout), writer_settings, sleep=lambda _: None))


class Writer:
    """A task's writer; invalid records are errors unless they are tolerated."""

    def __init__(self, writer: TableWriter) -> None:
        self.writer = writer
        self.reports: dict[int, str] = {}
        """The errors of tolerated records, by offset."""
        writer.read_offsets([TopicPartition(TOPIC, number) for number in range(3)])

    def write(
        self,
        *records: Record,
        start: int = 0,
        partition: int = 0,
        check: Callable[[], None] = lambda: None,
        tolerates: bool = False,
    ) -> None:
        """Write consecutive records of a partition."""

        def tolerate(_: TopicPartition, offset: int, error: BaseException) -> None:
            self.reports[offset] = str(error)

        delivery = Delivery(report=tolerate if tolerates else _raise, check_owned=check)
        self.writer.write(*batch(records, start, partition), delivery)


def _raise(partition: TopicPartition, offset: int, error: BaseException) -> None:
    del partition, offset
    raise error


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(request.param, tmp_path)


def list_files(lake: Lake) -> set[str]:
    handle = lake.open().load([]).handle
    if lake.kind == "delta":
        return set(handle.file_uris())
    return {task.file.file_path for task in handle.scan().plan_files()}
