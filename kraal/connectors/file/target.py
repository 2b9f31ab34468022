"""Reads the file of a FileStreamSink, so that `kraal prove` can compare it with the topics line by line."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from kraal.connectors.file.lines import find_first_line_end, find_last_line_end
from kraal.connectors.file.source import read_range
from kraal.engine.columns.functions import F
from kraal.plugins.api import EXPECTED_POSITION, NotComparable, ReadableTarget, SinkValues, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TEXT: Final = "coalesce(cast(value as string), 'null')"
"""The text of a record's value, as an SQL expression."""
_LINE_END: Final = "\r\n|\r|\n"
"""The line ends of `kraal.connectors.file.lines`, as a regular expression."""


class FileTarget(ReadableTarget):
    """The file of a sink. Lines after the last line end are ignored: a task may be writing them."""

    values = "text"

    def __init__(self, path: str) -> None:
        self._path = str(Path(path).absolute())

    @override
    def expected_rows(self, frame: DataFrame, values: SinkValues | None) -> DataFrame:
        del values
        positions = [
            F.col(column).alias(name)
            for name, column in zip(EXPECTED_POSITION, ("topic", "partition", "offset"), strict=True)
        ]
        text = F.expr(TEXT)
        parts = F.split(F.concat(text, F.lit("\n")), _LINE_END)
        octets = text.cast("binary")
        has_line_ends = F.contains(octets, F.lit(b"\n")) | F.contains(octets, F.lit(b"\r"))
        # Splitting takes most of the time of a proof. The part after the last line end is empty.
        lines = F.when(has_line_ends, F.slice(parts, 1, F.size(parts) - 1)).otherwise(F.array(text))
        return frame.select(F.explode(lines).alias("value"), *positions)

    @override
    def stored_rows(
        self, spark: SparkSession, schema: StructType | None, starts: Mapping[TopicPartition, int]
    ) -> DataFrame | None:
        del schema, starts
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise NotComparable(f"cannot read {self._path}: {exc.strerror}") from exc
        try:
            bounds = _split_file(fd, spark.sparkContext.defaultParallelism)
        finally:
            os.close(fd)
        pieces = [read_range(self._path, start, end, spark) for start, end in itertools.pairwise(bounds)]
        return reduce(lambda first, second: first.unionAll(second), pieces) if pieces else None


def _split_file(fd: int, count: int) -> list[int]:
    """Return the bounds of at most `count` pieces of about equal size, which consist of whole lines."""
    end = find_last_line_end(fd, 0, os.fstat(fd).st_size)
    if end is None:
        return []
    bounds = [0]
    for index in range(1, count):
        bound = find_first_line_end(fd, max(bounds[-1], end * index // count), end)
        if bound is not None and bounds[-1] < bound < end:
            bounds.append(bound)
    return [*bounds, end]
