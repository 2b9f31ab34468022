"""The interface to a database connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

ROLLED_BACK_STATE: Final = "40001"
"""The SQLSTATE of a transaction that was rolled back in favor of another."""
TIMEOUT_STATE: Final = "HYT00"
_TIMEOUT_STATES: Final = frozenset({"57014", TIMEOUT_STATE, "HY008", "70100", "72000"})
"""SQLSTATEs of statements that exceeded a timeout."""

_UNAVAILABLE_STATES: Final = ("08", "53", "57P")
"""The beginnings of SQLSTATEs of databases that cannot be reached, have no resources, or are stopping."""


class SqlFailed(Exception):
    """Raised if the database rejects a statement; `state` is the SQLSTATE, or empty if there is none."""

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.state = state

    @property
    def is_retriable(self) -> bool:
        """Whether a retry may succeed, because the transaction timed out or was rolled back in favor of another."""
        return self.state.startswith("40") or self.state in _TIMEOUT_STATES

    @property
    def is_temporary(self) -> bool:
        """Whether a retry may succeed, also because the database cannot be reached, is full, or is stopping."""
        return self.is_retriable or self.state.startswith(_UNAVAILABLE_STATES)


class Database(Protocol):
    """A database connection without auto-commit. Not thread-safe. All methods except `quote` raise SqlFailed."""

    kind: str
    """The kind of database: the subprotocol of its JDBC URL, such as `postgresql`."""

    def quote(self, name: str) -> str:
        """Quote a column name for SQL."""

    def execute(self, sql: str, *values: object, wait_s: int = 0) -> int:
        """Execute a statement and return the number of changed rows. `wait_s`: timeout, 0 for none."""

    def query(self, sql: str, *values: object) -> Sequence[tuple[str | None, ...]]:
        """Execute a query and return its rows, with values as strings."""

    def describe(self, table: str) -> Sequence[StoredColumn]:
        """Return the columns of a table."""

    def get_type(self, spark_type: str) -> str:
        """Return the type of a column that stores a type of Spark, which is given as JSON."""

    def list_tables(self, prefix: str, catalog: str | None = None) -> Sequence[str]:
        """Return the stored names of the tables whose name starts with `prefix`, ignoring case.

        `catalog` is the catalog of the tables; None for that of the connection.
        """

    def commit(self) -> None:
        """Commit the transaction."""

    def rollback(self) -> None:
        """Roll back the transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumn:
    """A column of a database table, as JDBC describes it."""

    name: str
    code: int
    """The number of the type in java.sql.Types."""
    type_name: str
    """The name of the type in the database."""
    precision: int = 0
    scale: int = 0
    is_converted: bool = False
    """Whether the database or its driver returns values in another form than that of the records."""
