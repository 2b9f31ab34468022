"""Tests for tables as the targets of proofs, with real Spark: written rows are proved, and edited ones are found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kraal.connectors.tables.config import make_writer_settings
from kraal.connectors.tables.sink import DeltaSinkConnector, IcebergSinkConnector, TableSinkConnector
from kraal.connectors.tables.table import Changes, LakeTable
from kraal.connectors.tables.writer import Delivery as Results
from kraal.connectors.tables.writer import TableWriter
from kraal.engine.proof.frames import find_differences, hash_rows
from kraal.plugins.api import EXPECTED_POSITION, NotComparable, TopicPartition
from kraal.proof.differences import Differences, Span
from tests.fakes.tables.records import TOPIC, Record, batch, event, row, tombstone, truncation
from tests.fakes.tables.sinks import TableSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION = TopicPartition(TOPIC, 0)
RANGE_END = 100
"""The committed offset of the group, which a proof of a table ignores."""


@dataclass
class Delivery:
    """Records that a sink has written to a table."""

    connector: type[TableSinkConnector]
    config: dict[str, str]
    spark: SparkSession
    records: list[Record] = field(default_factory=list)

    def open(self) -> LakeTable:
        return self.connector.task_class.open_table(self.config)

    def write(self, *records: Record) -> None:
        settings = make_writer_settings(self.connector.config_def.parse(self.config))
        writer = TableWriter(self.open(), settings)
        writer.read_offsets([PARTITION])
        writer.write(*batch(records, len(self.records)), Results(report=_raise))
        self.records += records

    def edit(self, rows: pa.Table, deletes: Sequence[int]) -> None:
        """Change the table without the sink: add or replace rows, and delete others."""
        table = self.open()
        state = table.load([PARTITION])
        assert state.schema is not None
        keys = pa.table({"id": pa.array(deletes, pa.int32())})
        changes = Changes(rows=rows, key=("id",), deletes=keys)
        table.commit(state, state.schema, changes, state.offsets, lambda: None)

    def prove(self) -> Differences:
        """Compare the table with the records, as a proof does if numbers or checksums differ."""
        view: Any = SimpleNamespace()
        target = self.connector.open_target(self.config, view)
        ends = target.narrow(self.spark, {PARTITION: (0, RANGE_END)})
        assert ends == {PARTITION: (0, len(self.records))}
        frame = self.spark.createDataFrame(batch(self.records)[0])
        expected = target.expected_rows(frame, "json-envelope")
        schema = expected.drop(*EXPECTED_POSITION).schema
        stored = target.stored_rows(self.spark, schema, {PARTITION: 0})
        assert stored is not None
        committed = {PARTITION: len(self.records)}
        return find_differences(hash_rows(expected), hash_rows(stored), committed)


def _raise(partition: TopicPartition, offset: int, error: BaseException) -> None:
    del partition, offset
    raise error


@pytest.fixture(params=["iceberg", "delta"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def deliver(kind: str, mode: str, spark: SparkSession, directory: Path) -> Delivery:
    sink = TableSink(kind, "sink", directory, mode, topic=TOPIC, partitions=1)
    connector = IcebergSinkConnector if kind == "iceberg" else DeltaSinkConnector
    return Delivery(connector, {**sink.config, "name": sink.name}, spark)


def make_rows(**names: str) -> pa.Table:
    ids = pa.array([int(key.removeprefix("_")) for key in names], pa.int32())
    return pa.table({"id": ids, "name": pa.array(names.values(), pa.string())})


def spans(*offsets: int) -> tuple[Span[TopicPartition], ...]:
    return tuple(Span(group=PARTITION, first=offset, last=offset) for offset in offsets)


def test_last_state_of_each_key_is_proved_until_rows_are_edited(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    delivery = deliver(kind, "cdc", spark, tmp_path)
    delivery.write(
        event("c", 9, "truncated"), truncation(), *(event("c", number, "a") for number in range(6))
    )
    delivery.write(
        event("u", 1, "b"), event("d", 2), tombstone(2), event("u", 1, "c"), event("c", 2, "again")
    )
    assert delivery.prove() == Differences()
    delivery.edit(make_rows(_1="changed", _8="added"), deletes=[4])
    assert delivery.prove() == Differences(missing_count=2, missing=spans(6, 11), unexpected_count=2)


def test_all_records_of_an_append_are_proved_until_rows_are_edited(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    delivery = deliver(kind, "append", spark, tmp_path)
    delivery.write(*(row(number, "a") for number in range(6)), tombstone(7))
    delivery.write(row(1, "a"), row(6, None))
    assert delivery.prove() == Differences()
    delivery.edit(make_rows(_5="changed", _8="added"), deletes=[2])
    assert delivery.prove() == Differences(missing_count=2, missing=spans(2, 5), unexpected_count=2)


def test_table_that_does_not_exist_cannot_be_compared(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    delivery = deliver(kind, "upsert", spark, tmp_path)
    with pytest.raises(NotComparable, match="does not exist yet"):
        delivery.prove()
