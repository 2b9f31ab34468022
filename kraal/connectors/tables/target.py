"""Reads the table of a sink, so that `kraal prove` can compare it with the topics.

One version of the table is compared with the records before the offsets that this version contains: with all of them,
or with the last state of each key. Both sides become digests of rows, because Spark does not have all types of tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from typing_extensions import override

from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.changes import make_changes
from kraal.connectors.tables.envelopes import read_envelopes
from kraal.connectors.tables.fitting import Target
from kraal.connectors.tables.settings import APPEND, CDC, ChangeSettings
from kraal.connectors.tables.table import LakeTable, TableState
from kraal.engine.columns.functions import F
from kraal.plugins.api import EXPECTED_POSITION, NotComparable, ReadableTarget, SinkValues, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

DIGEST: Final = "row"
_POSITION: Final = ("topic", "partition", "offset")
_PARTITION_RECORDS: Final = 50_000
"""The number of records in a Spark partition, which has all records of its keys."""
_DIGEST_BYTES: Final = 16
_OUTPUT: Final = f"{DIGEST} string, " + ", ".join(
    f"{name} {kind}" for name, kind in zip(EXPECTED_POSITION, ("string", "int", "bigint"), strict=True)
)


class TableTarget(ReadableTarget):
    """A table at the version that `narrow` has read."""

    values: SinkValues = "json-envelope"
    is_snapshot = True

    def __init__(
        self, table: LakeTable, settings: ChangeSettings, close: Callable[[], object] = lambda: None
    ) -> None:
        self._table, self._settings, self._close = table, settings, close
        self._state = TableState()
        self._partition_count = 1

    @override
    def narrow(
        self, spark: SparkSession, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return the ranges that end at the offsets of the table, which may be later than those of the group."""
        self._state = self._table.load(ranges.keys())
        if self._state.handle is None:
            raise NotComparable(f"the table {self._table.name} does not exist yet")
        offsets = self._state.offsets
        narrowed = {
            partition: (start, max(start, offsets.get(partition, start)))
            for partition, (start, _) in ranges.items()
        }
        self._choose_partition_count(narrowed)
        return narrowed

    def _choose_partition_count(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> None:
        record_count = sum(end - start for start, end in ranges.values())
        self._partition_count = 1 + record_count // _PARTITION_RECORDS

    @override
    def expected_rows(self, frame: DataFrame, values: SinkValues | None) -> DataFrame:
        from kraal.engine.session.arrow import map_in_arrow  # noqa: PLC0415 - not in Spark's Python processes

        records = frame.select(
            *(F.col(name) for name in _POSITION),
            *(F.col(name).cast("string").alias(name) for name in ("key", "value")),
        )
        digest = partial(digest_records, settings=self._settings, schema=self._get_schema())
        if self._settings.mode == APPEND:
            return map_in_arrow(records, partial(_digest_batches, digest), _OUTPUT)
        if self._settings.mode == CDC:
            records = _drop_truncated(records)
        # The columns of an explicit key may be in the value only, so that its records cannot be found by column.
        count = 1 if self._settings.id_columns else self._partition_count
        by_key = records.repartition(count, F.get_json_object(F.col("key"), "$.payload"))
        return map_in_arrow(by_key, partial(_digest_partition, digest), _OUTPUT)

    @override
    def stored_rows(
        self, spark: SparkSession, schema: StructType | None, starts: Mapping[TopicPartition, int]
    ) -> DataFrame:
        digests = [
            digest_rows(cast_table(rows, self._get_schema())) for rows in self._table.read(self._state)
        ]
        column = pa.chunked_array(digests, pa.string())
        return spark.createDataFrame(pa.table({DIGEST: column}))

    @override
    def close(self) -> None:
        self._close()

    def _get_schema(self) -> pa.Schema:
        assert self._state.schema is not None  # noqa: S101 - see narrow
        return self._state.schema


def digest_rows(rows: pa.Table) -> pa.Array:
    """Return a digest of each row, which is equal for equal values of equal types."""
    texts = map(repr, rows.to_pylist())
    digests = [hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest() for text in texts]
    return pa.array(digests, pa.string())


def digest_records(records: pa.Table, settings: ChangeSettings, schema: pa.Schema) -> pa.Table:
    """Return the digests of the rows that records make, in a table with this schema, and their positions.

    The records of a key must be in order. Raises ValueError for a record that the sink cannot write.
    """
    key_texts, value_texts = (
        pa.concat_arrays(records[name].cast(pa.string()).chunks or [pa.array([], pa.string())])
        for name in ("key", "value")
    )
    partitions = records["partition"].cast(pa.string()).combine_chunks()
    result = make_changes(
        read_envelopes(key_texts),
        read_envelopes(value_texts),
        records.num_rows,
        partitions,
        settings,
        Target(),
    )
    if result.errors:
        row = min(result.errors)
        place = "-".join(str(records[name][row].as_py()) for name in _POSITION[:2])
        raise ValueError(f"{place}@{records['offset'][row].as_py()} has no row: {result.errors[row]}")
    rows = cast_table(result.changes.rows, schema)
    places = records.select(_POSITION).take(result.numbers)
    return pa.table([digest_rows(rows), *places.columns], [DIGEST, *EXPECTED_POSITION])


Digest = Callable[[pa.Table], pa.Table]


def _digest_batches(digest: Digest, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from digest(pa.Table.from_batches([batch])).to_batches()


def _digest_partition(digest: Digest, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the digests for a Spark partition, which has all records of its keys."""
    parts = list(batches)
    if parts:
        records = pa.Table.from_batches(parts).sort_by([(name, "ascending") for name in _POSITION])
        yield from digest(records).to_batches()


def _drop_truncated(records: DataFrame) -> DataFrame:
    """Return the records after the last truncation. Runs a Spark job. Raises NotComparable."""
    is_candidate = F.col("key").isNull() & F.col("value").contains('"op":"t"')
    is_truncation = F.get_json_object(F.col("value"), "$.payload.op") == F.lit("t")
    last = records.where(is_candidate).where(is_truncation).groupBy("topic", "partition").agg(F.max("offset"))
    truncations: Sequence[tuple[str, int, int]] = [tuple(row) for row in last.collect()]
    if not truncations:
        return records
    if records.select("topic", "partition").distinct().count() > 1:
        raise NotComparable(
            "the topics have several partitions and truncations, whose order is not defined between partitions"
        )
    ((_, _, offset),) = truncations
    return records.where(F.col("offset") > F.lit(offset))
