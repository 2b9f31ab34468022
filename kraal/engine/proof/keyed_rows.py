"""Rows with keys as columns of hashes, and the comparison of their states by key with Spark.

The rows of both sides have the columns `KEY` and `VALUES`; see `kraal.plugins.model.keyed_source`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kraal.engine.columns.functions import F
from kraal.engine.proof.frames import HASH
from kraal.plugins.model.keyed_source import KEY, VALUES
from kraal.proof.differences import MAX_LISTED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

_EXPECTED: Final = "__kraal_expected"
_IS_NEW: Final = "__kraal_is_new"
"""Whether the key has a new record."""
IS_MISSING: Final = "is_missing"
"""Whether a row of the table is not the last state of its key."""
IS_UNEXPECTED: Final = "is_unexpected"
"""Whether the last state of a key is not a row of the table."""
IS_HOT: Final = "is_hot"
"""Whether the row may have changed while it was compared."""
_POSITION: Final = ("topic", "partition", "key")


def hash_values(columns: Sequence[tuple[Column, Column | None]]) -> Column:
    """Return `VALUES` for the values of a row; the second column of each pair is whether the value is unknown."""
    hashes = [
        hashed if is_unknown is None else F.when(~F.coalesce(is_unknown, F.lit(False)), hashed)  # noqa: FBT003 - Spark's literal
        for value, is_unknown in columns
        for hashed in [F.xxhash64(value, F.isnull(value))]
    ]
    return F.array(*hashes).cast("array<bigint>")


def invalid_values(count: int) -> Column:
    """Return `VALUES` of a record that is not a change event. They differ from all rows with `count` columns."""
    return F.array_repeat(F.lit(0).cast("bigint"), count + 1)


def hash_states(rows: DataFrame) -> DataFrame:
    """Return existing rows with `HASH`, which is equal for equal states of a key."""
    existing = rows.where(F.col(VALUES).isNotNull())
    return existing.select(KEY, VALUES, F.xxhash64(KEY, VALUES).alias(HASH))


def select_last_records(records: DataFrame) -> DataFrame:
    """Return `key` and `value` of the last record of each key in each partition."""
    last = F.max_by(F.struct("value"), "offset").alias("last")
    return records.groupBy(*_POSITION).agg(last).select("key", F.col("last.value").alias("value"))


def find_candidates(expected: DataFrame, stored: DataFrame) -> DataFrame:
    """Return `KEY` and the stored `VALUES` of the states whose hashes differ; both sides come from `hash_states`."""
    left = expected.select(KEY, F.col(VALUES).alias(_EXPECTED), F.col(HASH).alias("expected_hash"))
    right = stored.select(KEY, VALUES, F.col(HASH).alias("stored_hash"))
    joined = left.join(right, KEY, "full_outer")
    is_equal = F.col("expected_hash").eqNullSafe(F.col("stored_hash")) | _match(
        F.col(_EXPECTED), F.col(VALUES)
    )
    return joined.where(~is_equal).select(KEY, VALUES)


def compare_again(candidates: DataFrame, expected: DataFrame, new: DataFrame | None) -> DataFrame:
    """Compare candidates with the present rows of the table, after their latest records were read.

    `new` has the states of the keys that have records since the candidates were read. Return the states that still
    differ: `KEY`, the stored `VALUES`, `IS_MISSING`, `IS_UNEXPECTED` and `IS_HOT`.
    """
    rows = expected.select(KEY, F.col(VALUES).alias(_EXPECTED))
    joined = candidates.join(rows, KEY, "left")
    if new is None:
        joined = joined.withColumn(_IS_NEW, F.lit(False))  # noqa: FBT003 - Spark's literal
    else:
        states = new.select(KEY, F.col(VALUES).alias("new_values"), F.lit(True).alias(_IS_NEW))  # noqa: FBT003 - as above
        joined = joined.join(states, KEY, "left").na.fill({_IS_NEW: False})
        latest = F.when(F.col(_IS_NEW), F.col("new_values")).otherwise(F.col(VALUES))
        joined = joined.withColumn(VALUES, latest)
    differing = joined.where(~_match(F.col(_EXPECTED), F.col(VALUES)))
    return differing.select(
        KEY,
        VALUES,
        F.col(_EXPECTED).isNotNull().alias(IS_MISSING),
        F.col(VALUES).isNotNull().alias(IS_UNEXPECTED),
        F.col(_IS_NEW).alias(IS_HOT),
    )


def count_rows(rows: DataFrame, *conditions: str) -> tuple[int, ...]:
    """Return the number of rows for which each boolean column is true. Runs a Spark job."""
    row: Row | None = rows.agg(*(F.count_if(F.col(name)) for name in conditions)).head()
    return tuple(row) if row else (0,) * len(conditions)


def list_keys(rows: DataFrame, condition: str) -> list[str]:
    """Return the first keys for which a boolean column is true, in order, at most `MAX_LISTED`. Runs a Spark job."""
    return [
        row[0] for row in rows.where(F.col(condition)).select(KEY).orderBy(KEY).limit(MAX_LISTED).collect()
    ]


def _match(first: Column, second: Column) -> Column:
    """Return whether two states are equal. Unknown values equal all values; a row equals no absent row."""

    def are_values_equal(one: Column, other: Column) -> Column:
        return one.isNull() | other.isNull() | (one == other)

    are_equal = (F.size(first) == F.size(second)) & F.forall(
        F.zip_with(first, second, are_values_equal), lambda value: value
    )
    both_absent = first.isNull() & second.isNull()
    return both_absent | F.coalesce(first.isNotNull() & second.isNotNull() & are_equal, F.lit(False))  # noqa: FBT003 - as above
