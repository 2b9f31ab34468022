"""Hashes and compares the rows of DataFrames with Spark. The columns of both sides must be equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraal.core.offsets import TopicPartition
from kraal.engine.columns.functions import F, select_column
from kraal.plugins.model.target import EXPECTED_POSITION
from kraal.proof.differences import (
    MAX_LISTED,
    Differences,
    ExpectedRow,
    RecordPosition,
    Tally,
    locate_differences,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_HASH: Final = "__kraal_hash"
_REQUIRED: Final = "__kraal_required"
"""Number of rows with a hash that the target must have."""
_ALLOWED: Final = "__kraal_allowed"
"""Number of rows with a hash that the target may have."""
_STORED: Final = "__kraal_stored"
"""Number of rows with a hash in the target."""
_LOW_BITS: Final = 0xFFFFFFFF
_HIGH_SHIFT: Final = 32


def hash_rows(rows: DataFrame) -> DataFrame:
    """Return the hash of each row, with the columns `EXPECTED_POSITION` if it has them."""
    names = [name for name in rows.columns if name not in EXPECTED_POSITION]
    values = [_to_hashable(rows, name) for name in names]
    # Spark's hash skips nulls, so that without the flags ("a", null) and (null, "a") would be equal.
    flags = [F.isnull(value) for value in values] if len(values) > 1 else []
    positions = [F.col(name) for name in EXPECTED_POSITION if name in rows.columns]
    return rows.select(F.xxhash64(*values, *flags).alias(_HASH), *positions)


def tally(hashes: DataFrame) -> Tally:
    """Count the rows of `hash_rows`. Runs a Spark job."""
    value = F.col(_HASH)
    row = hashes.agg(
        F.count(value).alias("count"),
        F.sum(F.shiftrightunsigned(value, _HIGH_SHIFT)).alias("high"),
        F.sum(value.bitwiseAND(F.lit(_LOW_BITS))).alias("low"),
    ).head()
    return Tally.from_halves(row["count"], row["high"] or 0, row["low"] or 0) if row else Tally()


def find_differences(
    expected: DataFrame, stored: DataFrame | None, committed: Mapping[TopicPartition, int]
) -> Differences:
    """Compare the results of `hash_rows` for both sides. Runs several Spark jobs.

    The target must have the rows of records before the `committed` offsets, and may have those of later records.
    """
    expected = expected.withColumn(_REQUIRED, _is_committed(committed)).persist()
    counts = _count_by_hash(expected, stored).persist()
    try:
        return _collect_differences(expected, counts)
    finally:
        counts.unpersist()
        expected.unpersist()


def _count_by_hash(expected: DataFrame, stored: DataFrame | None) -> DataFrame:
    """Count the rows of both sides by hash; return the hashes whose counts differ."""
    counts = expected.groupBy(_HASH).agg(
        F.sum(F.col(_REQUIRED).cast("long")).alias(_REQUIRED), F.count(F.lit(1)).alias(_ALLOWED)
    )
    if stored is None:
        counts = counts.withColumn(_STORED, F.lit(0).cast("long"))
    else:
        stored_counts = stored.groupBy(_HASH).agg(F.count(F.lit(1)).alias(_STORED))
        counts = counts.join(stored_counts, _HASH, "full_outer").na.fill(0)
    stored_column = F.col(_STORED)
    return counts.where((stored_column < F.col(_REQUIRED)) | (stored_column > F.col(_ALLOWED)))


def _collect_differences(expected: DataFrame, counts: DataFrame) -> Differences:
    required, allowed, stored = (F.col(name) for name in (_REQUIRED, _ALLOWED, _STORED))
    zero = F.lit(0)
    totals = counts.agg(
        F.sum(F.greatest(required - stored, zero)).alias("missing"),
        F.sum(F.when(allowed > zero, F.greatest(stored - allowed, zero))).alias("repeated"),
        F.sum(F.when(allowed == zero, stored)).alias("unexpected"),
    ).head()
    located = counts.where(allowed > zero).limit(MAX_LISTED).select(_HASH, _STORED).collect()
    stored_by_hash = {row[_HASH]: row[_STORED] for row in located}
    rows = expected.where(F.col(_HASH).isin(*stored_by_hash)) if stored_by_hash else None
    missing, repeated = locate_differences(() if rows is None else _read_rows(rows), stored_by_hash)
    missing_count, repeated_count, unexpected_count = (value or 0 for value in totals or (0, 0, 0))
    return Differences(
        missing_count=missing_count,
        missing=missing,
        repeated_count=repeated_count,
        repeated=repeated,
        unexpected_count=unexpected_count,
    )


def _read_rows(rows: DataFrame) -> Iterator[ExpectedRow]:
    for row in rows.toLocalIterator():
        topic, partition, offset = (row[name] for name in EXPECTED_POSITION)
        position = RecordPosition(TopicPartition(topic, partition), offset)
        yield ExpectedRow(row[_HASH], position, is_optional=not row[_REQUIRED])


def _is_committed(committed: Mapping[TopicPartition, int]) -> Column:
    """Return whether the offset of a row's record is committed."""
    topic, partition, offset = (F.col(name) for name in EXPECTED_POSITION)
    entries: list[Column] = []
    for key, end in committed.items():
        entries += [F.lit(f"{key.topic}-{key.partition}"), F.lit(end).cast("long")]
    ends = F.create_map(*entries)
    return offset < F.coalesce(ends[F.concat(topic, F.lit("-"), partition.cast("string"))], F.lit(0))


def _to_hashable(rows: DataFrame, name: str) -> Column:
    """Return a column that Spark can hash: one with maps or variants becomes JSON."""
    column = select_column(name)
    return F.to_json(column) if _has_map(rows.schema[name].dataType) else column


def _has_map(data_type: DataType) -> bool:
    from pyspark.sql import types as T  # noqa: N812, PLC0415 - Spark's own convention; loaded after its start

    match data_type:
        case T.MapType() | T.VariantType():
            return True
        case T.ArrayType():
            return _has_map(data_type.elementType)
        case T.StructType():
            return any(_has_map(field.dataType) for field in data_type.fields)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class HashedTarget:
    """The hashes of a target's rows, kept until `close`, so that later changes of the target have no effect."""

    hashes: DataFrame
    tally: Tally

    @staticmethod
    def of(rows: DataFrame) -> HashedTarget:
        """Hash the rows of a target. Runs a Spark job."""
        from pyspark import StorageLevel  # noqa: PLC0415 - loaded after the start of Spark

        hashes = hash_rows(rows).persist(StorageLevel.DISK_ONLY)
        return HashedTarget(hashes, tally(hashes))

    def close(self) -> None:
        """Remove the hashes."""
        self.hashes.unpersist()
