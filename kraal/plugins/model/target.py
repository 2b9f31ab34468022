"""The capability of a sink connector whose target can be read, so that the delivery of its records can be proved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from kraal.core.offsets import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SinkValues = Literal["json", "json-text", "text", "json-envelope"]
"""The format in which a sink receives keys and values; see `SinkTask.values`."""
EXPECTED_POSITION: Final = ("__kraal_topic", "__kraal_partition", "__kraal_offset")
"""The columns of an expected row with the position of its record; they are not compared."""


class NotComparable(Exception):
    """Raised if a delivery cannot be compared; the message gives the reason to the user."""


class ReadableTarget(ABC):
    """The target of a sink connector, opened for reading only.

    The runtime compares the rows of both methods by their hashes, so both must return the same columns, with equal
    types and values for a record that was delivered. The methods run on one thread and return lazy DataFrames. They
    raise NotComparable, and Spark's errors.
    """

    values: SinkValues = "json"
    """See `SinkTask.values`."""
    is_snapshot: bool = False
    """Whether the rows are those of one version of the target, which `narrow` chooses: all rows of records before the
    ends of the ranges that it returns, and no others. These ends may then be after those of its argument. The rows may
    depend on all of these records, so a sample of them cannot be compared."""
    needs_idle: bool = False
    """Whether the offsets of the rows are unknown, so that the runtime compares them only if all records of the topics
    are delivered, and no record arrives meanwhile. With `is_snapshot`, for targets whose rows are replaced."""

    def narrow(
        self, spark: SparkSession, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> Mapping[TopicPartition, tuple[int, int]] | None:
        """Return the offsets `[start, end)` that can be compared, at most `ranges` except for `is_snapshot`.

        Return None if the target does not store the positions of its rows: `stored_rows` then returns all rows.
        """
        del spark, ranges
        return None

    @abstractmethod
    def expected_rows(self, frame: DataFrame, values: SinkValues | None) -> DataFrame:
        """Return the rows that `SinkTask.write` adds to the target for a batch with this frame.

        Must include `EXPECTED_POSITION`. A record may have several rows or none. `values` is the format of `key` and
        `value`, as in `SinkBatch`.
        """

    @abstractmethod
    def stored_rows(
        self, spark: SparkSession, schema: StructType | None, starts: Mapping[TopicPartition, int]
    ) -> DataFrame | None:
        """Return the rows of the target, with the columns of `schema`, or None if the target does not exist.

        `schema` is that of the expected rows without `EXPECTED_POSITION`. It is None if no record has rows; the runtime
        then only counts the rows of the target. `starts` are the first offsets of the ranges
        that `narrow` returned; rows of records before them must be omitted. Without `narrow`, `starts` is empty.
        """

    def close(self) -> None:  # noqa: B027 - optional
        """Close connections; called once, after all other methods."""


OpenTarget = Callable[[Mapping[str, str], "Path"], ReadableTarget]
"""Opens the target of a sink connector in Java from its config and its plugin (a directory or a jar).

Raises NotComparable if the config is not supported.
"""
