"""The capability of a source connector whose topics contain the last state of each row of its tables.

The rows of both sides are DataFrames with the columns `KEY` and `VALUES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kraal.core.offsets import Offset, SourcePartition

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kraal.config.connector.converters import ConverterSettings


KEY: Final = "__kraal_key"
"""The primary key as JSON text."""
VALUES: Final = "__kraal_values"
"""The hash of each other column; null for an unknown value, which equals all values. Null if there is no such row."""


class KeyedTable(ABC):
    """A table with a primary key. The methods return lazy DataFrames."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the table with its schema, for users."""

    @property
    @abstractmethod
    def topic(self) -> str:
        """The topic with the records of the table."""

    @abstractmethod
    def expected_rows(self, spark: SparkSession, keys: Sequence[str] | None) -> DataFrame:
        """Return the present rows of the table. With `keys`, rows with other keys may be omitted."""

    @abstractmethod
    def stored_states(self, records: DataFrame) -> DataFrame:
        """Return the states of records with the columns `key` and `value`. Records of deletions have no `VALUES`."""


class KeyedSource(ABC):
    """The tables of a source connector, opened for reading only. The methods run on one thread.

    Methods that read the source raise NotComparable and Spark's errors.
    """

    keeps_deletions: bool = True
    """Whether the topics have records of deletions. If not, unexpected rows are not searched."""
    settle_s: float = 0.0
    """Seconds that records take at most from the connector to the topics."""

    @abstractmethod
    def find_end(self, offsets: Mapping[SourcePartition, Offset]) -> Mapping[SourcePartition, Offset]:
        """Return the stored offsets in short form, for users.

        Raises NotComparable if the source cannot be compared yet.
        """

    @abstractmethod
    def list_tables(self, spark: SparkSession) -> tuple[Sequence[KeyedTable], Sequence[str]]:
        """Return the captured tables, and the tables and columns that are not compared, with the reasons."""

    @abstractmethod
    def read_position(self, spark: SparkSession) -> int:
        """Return the position of the source after all changes that are visible now."""

    @abstractmethod
    def has_received(self, spark: SparkSession, position: int) -> bool:
        """Return whether the connector has received all changes before a position."""

    @abstractmethod
    def has_stored(self, offsets: Mapping[SourcePartition, Offset], position: int) -> bool:
        """Return whether the stored offsets are at or after a position."""

    @abstractmethod
    def describe_delay(self, offsets: Mapping[SourcePartition, Offset], position: int) -> str:
        """Return why the connector may not have delivered all changes before a position, as a clause for users."""


OpenKeyedSource = Callable[[Mapping[str, str], "ConverterSettings", "ConverterSettings", "Path"], KeyedSource]
"""Opens the tables of a source from its config, its key and value converters, and its plugin (a directory or a jar).

The class names of the converters are full names. Raises NotComparable if the config is not supported.
"""
