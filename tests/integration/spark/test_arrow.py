"""Tests for `map_in_arrow` on real Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from kraal.engine.session.arrow import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def process(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the process id without consuming the input."""
    yield pa.RecordBatch.from_pydict({"pid": pa.array([os.getpid()], pa.int64())})


def test_python_worker_is_reused_if_the_function_leaves_its_input_unread(spark: SparkSession) -> None:
    """A new process per batch would repeat all imports. Spark reuses the process that has been idle the longest."""
    frame = map_in_arrow(spark.range(0, 1, 1, 1), process, "pid bigint")
    pids = [frame.collect()[0]["pid"] for _ in range(8)]
    assert set(pids[4:]) <= set(pids[:4])
