"""A database connection to a file of SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kraal.connectors.jdbc.database import SqlFailed, StoredColumn

_CODES: Final = {"INTEGER": 4, "TEXT": 12}
"""Numbers of java.sql.Types."""


class Sqlite:
    """A connection to a database file that fails immediately if another connection holds a lock."""

    kind = "sqlite"

    def __init__(self, file: Path) -> None:
        self.connection = sqlite3.connect(file, timeout=0)

    def quote(self, name: str) -> str:
        return f'"{name}"'

    def execute(self, sql: str, *values: object, wait_s: int = 0) -> int:
        del wait_s
        with _translate_errors():
            return self.connection.execute(sql, values).rowcount

    def query(self, sql: str, *values: object) -> Sequence[tuple[str | None, ...]]:
        with _translate_errors():
            rows = self.connection.execute(sql, values).fetchall()
        return [tuple(None if value is None else str(value) for value in row) for row in rows]

    def list_tables(self, prefix: str, catalog: str | None = None) -> Sequence[str]:
        del catalog
        result = self.query("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [str(name) for (name,) in result if str(name).startswith(prefix)]

    def describe(self, table: str) -> Sequence[StoredColumn]:
        rows = self.query(f"SELECT name, type FROM pragma_table_info('{table}')")  # noqa: S608 - a name of a test
        return [
            StoredColumn(name=str(name), code=_CODES[str(kind)], type_name=str(kind)) for name, kind in rows
        ]

    def get_type(self, spark_type: str) -> str:
        return {"long": "INTEGER", "string": "TEXT"}[json.loads(spark_type)]

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError as exc:
        raise SqlFailed(str(exc), "23000") from exc
    except sqlite3.OperationalError as exc:
        raise SqlFailed(str(exc), "HYT00" if "locked" in str(exc) else "42000") from exc
