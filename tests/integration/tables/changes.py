"""Seeded changes of a table in PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

from scripts.harness.postgresql import PostgreSQL
from tests.integration.tables.kinds import COLUMNS, NOTE, Column, make_table_sql, widen

KEYS: Final = 40
INITIAL_ROWS: Final = 30
NULL_PROBABILITY: Final = 0.15
SENTINEL: Final = 0
"""The key of a row that only `mark` changes."""
_INTERVAL_S: Final = 0.3


class Changes:
    """Makes random transactions; the same seed makes the same ones. Not thread-safe, except for `flowing`."""

    def __init__(self, database: PostgreSQL, table: str, *, seed: int, truncates: bool) -> None:
        """Create the table with its initial rows."""
        self.columns: list[Column] = list(COLUMNS)
        self._database, self._table, self._truncates = database, table, truncates
        self._random = Random(seed)  # noqa: S311 - no secret
        self._keys = set(range(1, INITIAL_ROWS + 1))
        self._required = {"small"}
        self._lock = threading.Lock()
        database.ask(make_table_sql(table))
        database.ask("; ".join(self._insert(key) for key in sorted(self._keys)))

    def step(self) -> None:
        """Make one transaction of several changes."""
        with self._lock:
            statements = [self._change() for _ in range(self._random.randint(1, 5))]
            self._database.ask("; ".join(statements))

    def mark(self) -> None:
        """Make a last change, which is always in the database's log."""
        with self._lock:
            self._database.ask(
                f"INSERT INTO {self._table} (id, small) VALUES ({SENTINEL}, 0)"  # noqa: S608 - our own names
                " ON CONFLICT (id) DO UPDATE SET small = 0"
            )

    def alter(self) -> None:
        """Add a column, change the type of another one, and make a third one optional."""
        with self._lock:
            self._alter(
                "ADD COLUMN note text, ALTER COLUMN label TYPE text, ALTER COLUMN small DROP NOT NULL"
            )
            self.columns.append(NOTE)
            self._required.clear()

    def widen(self) -> None:
        """Widen the types of columns."""
        with self._lock:
            wider = widen(self.columns)
            for old, new in zip(self.columns, wider, strict=True):
                if old.type != new.type:
                    self._alter(f"ALTER COLUMN {new.name} TYPE {new.type}")
            self.columns = wider

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Make transactions in a thread until the end of the block; raises their first error there."""
        has_ended, errors = threading.Event(), list[Exception]()

        def run() -> None:
            while not has_ended.wait(_INTERVAL_S):
                try:
                    self.step()
                except Exception as error:  # noqa: BLE001 - the test fails with the error
                    errors.append(error)
                    return

        thread = threading.Thread(target=run, name="changes")
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join()
        assert errors == []

    def _alter(self, change: str) -> None:
        self._database.ask(f"ALTER TABLE {self._table} {change}")

    def _change(self) -> str:
        absent = sorted(set(range(1, KEYS + 1)) - self._keys)
        kind = self._random.random()
        if self._truncates and kind < 0.003:
            self._keys.clear()
            return f"TRUNCATE {self._table}"
        if absent and (kind < 0.3 or not self._keys):
            key = self._random.choice(absent)
            self._keys.add(key)
            return self._insert(key)
        key = self._random.choice(sorted(self._keys))
        if kind < 0.45:
            self._keys.remove(key)
            return f"DELETE FROM {self._table} WHERE id = {key}"  # noqa: S608 - our own names
        if absent and kind < 0.6:
            new_key = self._random.choice(absent)
            self._keys ^= {key, new_key}
            # Debezium does not have the values of large columns that such a change leaves as they are.
            large = [column for column in self.columns if column.is_large]
            return self._update(key, large, f"id = {new_key}")
        if kind < 0.65:
            rest = self._random.randrange(3)
            return f"UPDATE {self._table} SET small = {rest} WHERE id % 3 = {rest} AND id > 0"  # noqa: S608
        return self._update(key, self._random.sample(self.columns, self._random.randint(1, 4)))

    def _insert(self, key: int) -> str:
        names = ", ".join(column.name for column in self.columns)
        values = ", ".join(map(self._make_value, self.columns))
        return f"INSERT INTO {self._table} (id, {names}) VALUES ({key}, {values})"  # noqa: S608 - our own values

    def _update(self, key: int, columns: list[Column], *assignments: str) -> str:
        changes = [*assignments, *(f"{column.name} = {self._make_value(column)}" for column in columns)]
        return f"UPDATE {self._table} SET {', '.join(changes)} WHERE id = {key}"  # noqa: S608 - our own values

    def _make_value(self, column: Column) -> str:
        if column.name not in self._required and self._random.random() < NULL_PROBABILITY:
            return "NULL"
        return column.make(self._random)
