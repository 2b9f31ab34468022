"""Tests for the positions of missing, repeated and unexpected rows, which Spark finds by their hashes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from kraal.core.offsets import TopicPartition
from kraal.engine.proof.frames import compare_hashes, find_differences, hash_rows
from kraal.plugins.api import EXPECTED_POSITION
from kraal.proof.differences import MAX_LISTED, Differences, Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS = TopicPartition("orders", 0)


def make_rows(spark: SparkSession, values: Sequence[int]) -> DataFrame:
    """Return the hashes of rows at consecutive offsets of orders-0."""
    rows = [(value, ORDERS.topic, ORDERS.partition, offset) for offset, value in enumerate(values)]
    columns = ("value long", *(f"{name} {kind}" for name, kind in zip(EXPECTED_POSITION, KINDS, strict=True)))
    return hash_rows(spark.createDataFrame(rows, ", ".join(columns)))


KINDS = ("string", "int", "long")


def locate(
    spark: SparkSession, expected: Sequence[int], stored: Sequence[int], committed: int | None = None
) -> tuple[list[int], list[int], int]:
    """Return the offsets of missing and repeated rows, and the number of unexpected rows."""
    stored_rows = make_rows(spark, stored).drop(*EXPECTED_POSITION) if stored else None
    ends = {ORDERS: len(expected) if committed is None else committed}
    differences = find_differences(make_rows(spark, expected), stored_rows, ends)
    missing, repeated = (
        [offset for span in spans for offset in range(span.first, span.last + 1)]
        for spans in (differences.missing, differences.repeated)
    )
    assert len(missing) == differences.missing_count
    return missing, repeated, differences.unexpected_count


@pytest.mark.parametrize(
    ("expected", "stored", "committed", "result"),
    [
        ([1, 2, 3], [3, 2, 1], None, ([], [], 0)),
        ([1, 2, 3], [], None, ([0, 1, 2], [], 0)),
        ([1, 2, 3], [1, 3, 9], None, ([1], [], 1)),
        ([7, 7, 8], [7, 8], None, ([1], [], 0)),
        ([7, 7, 8], [7, 7, 7, 7, 8], None, ([], [1], 0)),
        ([1, 2, 3], [1, 2], 2, ([], [], 0)),
        ([1, 2, 3], [1, 2, 3], 2, ([], [], 0)),
        ([1, 2, 3], [1, 3], 2, ([1], [], 0)),
        ([7, 8, 7], [8], 2, ([0], [], 0)),
        ([7, 8, 7], [7, 8], 2, ([], [], 0)),
    ],
    ids=[
        "order", "empty target", "missing and unexpected", "last of equal rows is missing",
        "last of equal rows is repeated",
        "uncommitted row is missing", "uncommitted row is stored", "committed row is missing",
        "committed row is missing before an equal uncommitted one", "equal uncommitted row is missing",
    ],
)  # fmt: skip
def test_differences_are_located(
    spark: SparkSession,
    expected: Sequence[int],
    stored: Sequence[int],
    committed: int | None,
    result: tuple[list[int], list[int], int],
) -> None:
    assert locate(spark, expected, stored, committed) == result


def test_missing_rows_are_listed_beside_many_repeated_ones(spark: SparkSession) -> None:
    values = range(2 * MAX_LISTED)
    stored = [value for value in values if value != 1500] * 2
    differences = find_differences(
        make_rows(spark, values), make_rows(spark, stored).drop(*EXPECTED_POSITION), {ORDERS: len(values)}
    )
    assert differences == Differences(
        missing_count=1,
        missing=(Span(group=ORDERS, first=1500, last=1500),),
        repeated_count=len(values) - 1,
        repeated=(Span(group=ORDERS, first=0, last=MAX_LISTED - 1),),
    )


def test_additional_rows_of_topics_are_located(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own convention; after its start

    expected = make_rows(spark, [1, 2, 2]).withColumn("__kraal_required", F.lit(True))  # noqa: FBT003
    stored = make_rows(spark, [2, 2, 2, 1, 9, 2])
    with compare_hashes(expected, stored) as differing:
        repeated, unexpected = (
            [
                row[2]
                for row in differing.locate_additional(stored, EXPECTED_POSITION, is_expected=is_expected)
            ]
            for is_expected in (True, False)
        )
    assert (repeated, unexpected) == ([2, 5], [4])
