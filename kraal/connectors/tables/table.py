"""The interface between the core of the table sinks and the adapters of the formats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kraal.plugins.api import TableReport, TableSchemaChange, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class Conflict(Exception):
    """Another writer has committed since the table was loaded; nothing was written."""


def repeat_after_conflict(function: Callable[[], T], attempts: int) -> T:
    """Return the result of a function, which is called again after a conflict. Raises the last Conflict."""
    for _ in range(attempts - 1):
        with suppress(Conflict):
            return function()
    return function()


class SchemaRefused(Exception):
    """The format or its library cannot make a change of the schema; the message names the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One version of a table."""

    handle: Any = None
    """The library's object for this version; None if the table does not exist."""
    schema: pa.Schema | None = None
    """The columns, in Arrow's basic types; None if the table does not exist."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The next offsets of the connector's partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of a batch, to be committed together. Keys are distinct, and in only one of both tables."""

    rows: pa.Table
    """The rows to add; with a key, they replace the rows with the same key."""
    key: tuple[str, ...] = ()
    """The columns that identify a row; empty if rows are only appended."""
    deletes: pa.Table | None = None
    """The keys of the rows to delete, with the columns `key`."""
    truncates: bool = False
    """Whether all rows of the table are deleted first."""
    unavailable: Mapping[str, pa.Array] = field(default_factory=dict)
    """For each column with values that the source did not send: a mask of the rows that keep their former value."""
    schema_changes: Sequence[TableSchemaChange] = ()
    """The changes of the schema that the rows require, which become part of the commit's information."""
    updates_only: pa.Array | None = None
    """A mask of the rows that replace a row, but are not added if the table has no row with their key."""

    @property
    def is_append(self) -> bool:
        """Whether no row of the table changes."""
        return not (self.key or self.truncates)


class LakeTable(Protocol):
    """A table of one format. Used by one thread at a time.

    All methods raise RetriableError if the catalog or the storage is temporarily unavailable, or if it is unknown
    whether a commit has succeeded.
    """

    name: str
    """The name of the table, for messages."""
    can_widen: bool
    """Whether the type of a column can become wider, such as int to long."""
    replaces_rows: bool
    """Whether `Changes.rows` must have all columns of the table. Otherwise, updated rows keep the values of the columns
    that no record of the batch has."""
    format: str
    """The name of the format in lower case."""

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        """Return the current version of the table, with the offsets of the partitions that it stores."""

    def find_partitions(self, topics: Collection[str]) -> Collection[TopicPartition]:
        """Return the partitions for which the table stores offsets of the connector.

        `topics` are names of topics that the connector has probably read. A format that cannot list partitions looks
        for those of these topics only.
        """

    def read(self, state: TableState) -> Iterator[pa.Table]:
        """Yield the rows of a version of the table, which exists, in parts."""

    def store_as(self, name: str, column_type: pa.DataType) -> pa.DataType:
        """Return the type to which values for a column are converted first: `column_type` if the table supports it."""

    def commit(
        self,
        state: TableState,
        schema: pa.Schema,
        changes: Changes,
        offsets: Mapping[TopicPartition, int],
        check: Callable[[], None],
    ) -> Any:
        """Commit changes and the next offsets of their partitions atomically, only if `state` is still current.

        Creates the table if it does not exist, and changes its schema to `schema`, which contains all columns of the
        table. Calls `check`, whose exceptions prevent the commit, immediately before the commit. Returns the library's
        object for the new version. Raises Conflict and SchemaRefused.
        """

    def describe(self, handle: Any) -> TableReport:
        """Return what the metadata of a version contains; reads no data files. Raises the library's errors."""

    def set_offsets(self, state: TableState, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Replace the offsets of partitions; None removes an offset. Raises Conflict."""

    def maintain(self, *, removes_orphans: bool = False) -> str:
        """Compact small files, and remove old versions as the properties of the table require; return what was done.

        `removes_orphans` is whether to look for files that belong to no version, such as those of failed commits. The
        offsets and the rows stay. Raises Conflict.
        """
