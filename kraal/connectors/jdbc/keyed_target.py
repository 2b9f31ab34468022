"""Reads a table whose rows are replaced by key, so that `kraal prove` can compare it with the topics.

Only columns that the latest records have, and whose values the database does not convert, are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from typing_extensions import override

from kraal.connectors.jdbc.column_types import to_compared_type
from kraal.connectors.jdbc.keyed_table import KeyedTable
from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.changes import make_changes
from kraal.connectors.tables.envelopes import read_envelopes
from kraal.connectors.tables.fitting import Target
from kraal.connectors.tables.positions import TableMoved
from kraal.connectors.tables.settings import ChangeSettings
from kraal.connectors.tables.target import DIGEST, TableTarget, digest_rows
from kraal.connectors.tables.writer import get_texts
from kraal.engine.columns.functions import F
from kraal.plugins.api import NotComparable, SinkValues, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LATEST: Final = 100
"""The number of records with a value whose fields determine the columns to compare."""


class KeyedTarget(TableTarget):
    """A database table at the offsets that `narrow` has read. The sink must not write while the table is read."""

    def __init__(self, table: KeyedTable, settings: ChangeSettings) -> None:
        super().__init__(table, settings)
        self._database_table = table
        self._partitions: Collection[TopicPartition] = ()
        self._schema = pa.schema([])

    @override
    def narrow(
        self, spark: SparkSession, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        self._database_table.spark, self._partitions = spark, ranges.keys()
        try:
            return super().narrow(spark, ranges)
        except TableMoved as exc:
            raise NotComparable(str(exc)) from exc

    @override
    def expected_rows(self, frame: DataFrame, values: SinkValues | None) -> DataFrame:
        names, filled_names = _find_columns(frame, self._settings)
        types = {column.name: to_compared_type(column) for column in self._state.handle}
        if missing := sorted(filled_names - types.keys()):
            raise NotComparable(
                f"{self._database_table.name} lacks columns of the latest records: {', '.join(missing)}"
            )
        self._schema = pa.schema([(name, kind) for name, kind in types.items() if kind and name in names])
        if not self._schema.names:
            raise NotComparable(f"no column of {self._database_table.name} has a type that can be compared")
        return super().expected_rows(frame, values)

    @override
    def stored_rows(
        self, spark: SparkSession, schema: StructType | None, starts: Mapping[TopicPartition, int]
    ) -> DataFrame:
        from kraal.engine.session.arrow import map_in_arrow  # noqa: PLC0415 - not in Spark's Python processes

        rows = self._database_table.read_frame(self._schema.names)
        digest = partial(_digest_stored, schema=self._schema)
        digests = map_in_arrow(rows, digest, f"{DIGEST} string").toArrow()
        if self._database_table.load(self._partitions).offsets != self._state.offsets:
            raise NotComparable(
                f"the connector has written to {self._database_table.name} while the table was read. Pause the "
                "connector, and repeat the proof"
            )
        return spark.createDataFrame(digests)

    @override
    def _get_schema(self) -> pa.Schema:
        return self._schema


def _find_columns(frame: DataFrame, settings: ChangeSettings) -> tuple[set[str], set[str]]:
    """Return the columns that the latest records have, and those of them with values. Runs a Spark job."""
    latest = frame.where(F.col("value").isNotNull()).orderBy(F.col("offset").desc()).limit(_LATEST)
    records = latest.select("partition", "key", "value").toArrow()
    changes = make_changes(
        read_envelopes(get_texts(records, "key")),
        read_envelopes(get_texts(records, "value")),
        records.num_rows,
        records["partition"].cast(pa.string()).combine_chunks(),
        settings,
        Target(),
    ).changes
    rows = changes.rows
    filled_names = {name for name in rows.column_names if rows[name].null_count < rows.num_rows}
    return {*rows.column_names, *changes.key}, {*filled_names, *changes.key}


def _digest_stored(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = cast_table(pa.Table.from_batches([batch]), schema)
        yield pa.RecordBatch.from_arrays([digest_rows(rows)], names=[DIGEST])
