"""Hashes and compares the rows of DataFrames with Spark. The columns of both sides must be equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraal.core.offsets import TopicPartition
from kraal.engine.columns.functions import F, select_column
from kraal.plugins.model.target import EXPECTED_POSITION
from kraal.proof.differences import (
    MAX_LISTED,
    Differences,
    OffsetSpan,
    Tally,
    join_positions,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row
    from pyspark.sql.types import DataType

HASH: Final = "__kraal_hash"
REQUIRED: Final = "__kraal_required"
"""Whether an expected row must be stored; for a hash, the number of such rows."""
_EXPECTED: Final = "__kraal_expected"
"""Number of expected rows with a hash, including those that may be missing."""
_STORED: Final = "__kraal_stored"
"""Number of stored rows with a hash."""
_SELECTED: Final = "__kraal_selected"
_LOW_BITS: Final = 0xFFFFFFFF
_HIGH_SHIFT: Final = 32
_BUCKET: Final = "__kraal_bucket"
_BUCKETS: Final = 4096
_MAX_SELECTED_BUCKETS: Final = 1024
"""Maximum number of differing buckets for which it is worthwhile to select rows."""


def hash_rows(rows: DataFrame) -> DataFrame:
    """Return the hash of each row, with the columns `EXPECTED_POSITION` if it has them."""
    names = [name for name in rows.columns if name not in EXPECTED_POSITION]
    values = [_to_hashable(rows, name) for name in names]
    # Spark's hash skips nulls, so that without the flags ("a", null) and (null, "a") would be equal.
    flags = [F.isnull(value) for value in values] if len(values) > 1 else []
    positions = [F.col(name) for name in EXPECTED_POSITION if name in rows.columns]
    return rows.select(F.xxhash64(*values, *flags).alias(HASH), *positions)


def tally(hashes: DataFrame) -> Tally:
    """Count the rows of `hash_rows`. Runs a Spark job."""
    row = hashes.agg(*_tally_columns()).head()
    return _make_tally(row) if row else Tally()


def tally_buckets(hashes: DataFrame) -> Mapping[int, Tally]:
    """Count the rows of `hash_rows` by the bucket of their hash. Runs a Spark job."""
    rows = hashes.groupBy(_bucket().alias(_BUCKET)).agg(*_tally_columns()).collect()
    return {row[_BUCKET]: _make_tally(row) for row in rows}


def find_differing_buckets(first: Mapping[int, Tally], second: Mapping[int, Tally]) -> list[int]:
    """Return the buckets whose tallies differ, which are few if few rows differ. Pure."""
    return sorted(
        bucket for bucket in first.keys() | second.keys() if first.get(bucket) != second.get(bucket)
    )


def select_buckets(hashes: DataFrame, buckets: Sequence[int]) -> DataFrame:
    """Return the rows of `hash_rows` in these buckets; all rows if more than `_MAX_SELECTED_BUCKETS` differ.

    Grouping and joining a few of millions of hashes takes a fraction of the time.
    """
    return hashes.where(_bucket().isin(*buckets)) if len(buckets) <= _MAX_SELECTED_BUCKETS else hashes


def _bucket() -> Column:
    return F.col(HASH).bitwiseAND(F.lit(_BUCKETS - 1))


def _tally_columns() -> list[Column]:
    value = F.col(HASH)
    return [
        F.count(value).alias("count"),
        F.sum(F.shiftrightunsigned(value, _HIGH_SHIFT)).alias("high"),
        F.sum(value.bitwiseAND(F.lit(_LOW_BITS))).alias("low"),
    ]


def _make_tally(row: Row) -> Tally:
    return Tally.from_halves(row["count"], row["high"] or 0, row["low"] or 0)


def find_differences(
    expected: DataFrame, stored: DataFrame | None, committed: Mapping[TopicPartition, int]
) -> Differences:
    """Compare the results of `hash_rows` for both sides. Runs several Spark jobs.

    The target must have the rows of records before the `committed` offsets, and may have those of later records.
    """
    expected = expected.withColumn(REQUIRED, _is_committed(committed)).persist()
    try:
        with compare_hashes(expected, stored) as differing:
            return Differences(
                missing_count=differing.missing,
                missing=to_offset_spans(differing.locate_missing(expected, EXPECTED_POSITION)),
                repeated_count=differing.repeated,
                repeated=to_offset_spans(differing.locate_repeated(expected, EXPECTED_POSITION)),
                unexpected_count=differing.unexpected,
            )
    finally:
        expected.unpersist()


@dataclass(frozen=True, slots=True)
class DifferingHashes:
    """The hashes whose numbers of expected and stored rows differ.

    The methods return the positions of rows: the values of the `position` columns, in order, at most `MAX_LISTED`. Each
    runs a Spark job. Equal rows cannot be told apart: the last ones count as missing or additional.
    """

    counts: DataFrame
    missing: int
    """Number of rows that must be stored and are not."""
    repeated: int
    """Number of additional copies of expected rows."""
    unexpected: int
    """Number of stored rows that equal no expected row."""

    def locate_missing(self, expected: DataFrame, position: Sequence[str]) -> list[Row]:
        """Return the positions of expected rows that must be stored and are not."""
        counts = self.counts.where(F.col(_STORED) < F.col(REQUIRED)).select(HASH, _STORED)
        order = (~F.col(REQUIRED), *map(F.col, position))
        is_missing = (_rank(order) > F.col(_STORED)) & F.col(REQUIRED)
        return _collect(expected.join(counts, HASH), is_missing, position) if self.missing else []

    def locate_repeated(self, expected: DataFrame, position: Sequence[str]) -> list[Row]:
        """Return the positions of the last expected rows of hashes with additional stored rows."""
        has_copies = (F.col(_STORED) > F.col(_EXPECTED)) & (F.col(_EXPECTED) > F.lit(0))
        counts = self.counts.where(has_copies).select(HASH)
        is_last = _rank([F.col(name).desc() for name in position]) == F.lit(1)
        return _collect(expected.join(counts, HASH), is_last, position) if self.repeated else []

    def locate_additional(
        self, stored: DataFrame, position: Sequence[str], *, is_expected: bool
    ) -> list[Row]:
        """Return the positions of additional copies of expected rows, or of unexpected rows."""
        count = F.col(_EXPECTED)
        matches = (count > F.lit(0)) if is_expected else (count == F.lit(0))
        counts = self.counts.where(matches & (F.col(_STORED) > count)).select(HASH, _EXPECTED)
        is_additional = _rank([F.col(name) for name in position]) > count
        has_rows = self.repeated if is_expected else self.unexpected
        return _collect(stored.join(counts, HASH), is_additional, position) if has_rows else []


def to_offset_spans(positions: Iterable[Row]) -> tuple[OffsetSpan, ...]:
    """Return the spans of `EXPECTED_POSITION`s."""
    return tuple(join_positions((TopicPartition(row[0], row[1]), row[2]) for row in positions))


def _rank(order: Sequence[Column]) -> Column:
    """Return the number of a row among the rows with its hash, from 1."""
    from pyspark.sql import Window  # noqa: PLC0415 - loaded after the start of Spark

    return F.row_number().over(Window.partitionBy(HASH).orderBy(*order))


def _collect(rows: DataFrame, condition: Column, position: Sequence[str]) -> list[Row]:
    selected = rows.withColumn(_SELECTED, condition).where(F.col(_SELECTED)).select(*position)
    return selected.orderBy(*position).limit(MAX_LISTED).collect()


@contextmanager
def compare_hashes(expected: DataFrame, stored: DataFrame | None) -> Iterator[DifferingHashes]:
    """Yield the hashes whose numbers of rows differ; `expected` has a column `REQUIRED`. Runs Spark jobs.

    Both frames should be persisted. The counts are released at the end of the block.
    """
    if stored is not None:
        buckets = find_differing_buckets(tally_buckets(expected), tally_buckets(stored))
        expected, stored = select_buckets(expected, buckets), select_buckets(stored, buckets)
    required, expected_count, stored_count = (F.col(name) for name in (REQUIRED, _EXPECTED, _STORED))
    counts = expected.groupBy(HASH).agg(
        F.sum(required.cast("long")).alias(REQUIRED), F.count(F.lit(1)).alias(_EXPECTED)
    )
    if stored is None:
        counts = counts.withColumn(_STORED, F.lit(0).cast("long"))
    else:
        stored_counts = stored.groupBy(HASH).agg(F.count(F.lit(1)).alias(_STORED))
        counts = counts.join(stored_counts, HASH, "full_outer").na.fill(0)
    counts = counts.where((stored_count < required) | (stored_count > expected_count)).persist()
    zero = F.lit(0)
    try:
        totals = counts.agg(
            F.sum(F.greatest(required - stored_count, zero)),
            F.sum(F.when(expected_count > zero, F.greatest(stored_count - expected_count, zero))),
            F.sum(F.when(expected_count == zero, stored_count)),
        ).head()
        missing, repeated, unexpected = (value or 0 for value in totals or (0, 0, 0))
        yield DifferingHashes(counts, missing, repeated, unexpected)
    finally:
        counts.unpersist()


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
class HashedRows:
    """The hashes of stored rows, kept until `close`, so that later changes of the rows have no effect."""

    hashes: DataFrame
    tally: Tally

    @staticmethod
    def of(hashes: DataFrame) -> HashedRows:
        """Persist the hashes and count them. Runs a Spark job."""
        from pyspark import StorageLevel  # noqa: PLC0415 - loaded after the start of Spark

        hashes = hashes.persist(StorageLevel.DISK_ONLY)
        try:
            return HashedRows(hashes, tally(hashes))
        except BaseException:
            hashes.unpersist()
            raise

    def close(self) -> None:
        """Remove the hashes."""
        self.hashes.unpersist()
