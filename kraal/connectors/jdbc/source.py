"""A source that detects new rows of database tables and reads them with Spark.

A batch contains all new rows of one table, from the stored mark (exclusive) to the current maximum (inclusive). With
`jdbc.mode=bulk`, it contains all rows. One connection reads the rows with a cursor. Spark sorts them and spills to
disk, so memory is bounded and the rows are in the order of their marks. The offset is
`{"table": T} -> {"incrementing": n, "timestamp": "2026-01-31 12:00:00.5"}`, with the fields that the mode uses. Times
are local times as stored in the database, or UTC for types with a time zone.

Table and column names come from the config and are validated; all other parts of queries are fixed.
The modes are those of Confluent's JDBC source.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kraal.connectors.frames.columns import Layout
from kraal.connectors.jdbc.drivers import add_driver
from kraal.connectors.jdbc.names import get_database_kind, to_sql
from kraal.connectors.jdbc.timeouts import add_timeouts
from kraal.plugins.api import Offset, SourceBatch, SourcePartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DEFAULT_OPTIONS: Final = {"fetchsize": "10000", "preferTimestampNTZ": "true"}
"""Options to read with a cursor instead of all rows at once, and to return times independent of the JVM's time zone."""
_TIME_PATTERN: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?")

_DATE_PATTERN: Final = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Mark:
    """The position up to which a table was read."""

    incrementing: int | None = None
    timestamp: str | None = None

    @staticmethod
    def of(offset: Offset) -> Mark:
        """Parse a stored offset. Raises ValueError for an invalid offset."""
        number, timestamp = offset.get("incrementing"), offset.get("timestamp")
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise ValueError(f"the field incrementing of the stored offset is {number!r}, not an integer")
        if timestamp is not None and not (isinstance(timestamp, str) and _TIME_PATTERN.fullmatch(timestamp)):
            raise ValueError(
                f"the field timestamp of the stored offset is {timestamp!r}, not a time like 2026-01-31 12:00:00.5"
            )
        return Mark(number, timestamp)

    def offset(self) -> Offset:
        """Return the offset to store."""
        fields = {"incrementing": self.incrementing, "timestamp": self.timestamp}
        return {key: value for key, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that identify new rows. A column that the mode does not use is None."""

    incrementing: str | None
    timestamp: str | None

    @staticmethod
    def of(parsed: Mapping[str, Any]) -> Columns:
        """Return the columns of the config's mode, as written in the config."""
        kinds = str(parsed["jdbc.mode"]).split("+")
        incrementing, timestamp = (
            parsed[f"jdbc.{kind}.column"] if kind in kinds else None for kind in ("incrementing", "timestamp")
        )
        return Columns(incrementing, timestamp)

    def quote_for(self, kind: str) -> Columns:
        """Return the columns, quoted for this kind of database."""
        incrementing, timestamp = (
            None if name is None else to_sql(kind, name) for name in (self.incrementing, self.timestamp)
        )
        return Columns(incrementing, timestamp)

    def after(self, mark: Mark) -> str | None:
        """Return the condition for rows after `mark`; None if nothing was read yet."""
        number_condition = (
            f"{self.incrementing} > {mark.incrementing}" if mark.incrementing is not None else None
        )
        if self.timestamp is None:
            return number_condition
        if mark.timestamp is None:
            return None
        timestamp = _make_timestamp_literal(mark.timestamp)
        if self.incrementing is None or number_condition is None:
            return f"{self.timestamp} > {timestamp}"
        return f"({self.timestamp} > {timestamp} OR ({self.timestamp} = {timestamp} AND {number_condition}))"

    def until(self, mark: Mark) -> str:
        """Return the condition for rows up to `mark`."""
        number_condition = f"{self.incrementing} <= {mark.incrementing}"
        if self.timestamp is None or mark.timestamp is None:
            return number_condition
        timestamp = _make_timestamp_literal(mark.timestamp)
        if self.incrementing is None:
            return f"{self.timestamp} <= {timestamp}"
        return f"({self.timestamp} < {timestamp} OR ({self.timestamp} = {timestamp} AND {number_condition}))"

    def get_sort_columns(self) -> list[str]:
        """Return the names of the sort columns in Spark. Must be called before the columns are quoted."""
        return [_unquote_last_part(name) for name in (self.timestamp, self.incrementing) if name is not None]


class JdbcReader:
    """Reads the tables of one task, one after another."""

    def __init__(
        self,
        parsed: Mapping[str, Any],
        options: Mapping[str, str],
        share: tuple[int, int],
        offsets: Mapping[SourcePartition, Offset],
    ) -> None:
        number, count = share
        self._tables = deque(sorted(parsed["jdbc.tables"])[number::count])
        self._options = add_timeouts(add_driver({**_DEFAULT_OPTIONS, **options}), parsed)
        self._kind = get_database_kind(self._options)
        self._sort_columns = Columns.of(parsed).get_sort_columns()
        self._columns = Columns.of(parsed).quote_for(self._kind)
        self._bulk_interval_s = (
            int(parsed["jdbc.poll.interval.ms"]) / 1000 if parsed["jdbc.mode"] == "bulk" else None
        )
        self._due_s_by_table: dict[str, float] = {}
        self._layout = Layout.of(parsed)
        self._prefix: str | None = parsed["topic.prefix"]
        self._marks = {
            str(partition.as_dict()["table"]): Mark.of(offset)
            for partition, offset in offsets.items()
            if offset and partition.as_dict().get("table") in self._tables
        }
        self.next_position: tuple[str, Mark] | None = None

    def may_have_more(self) -> bool:
        """Return whether a table is due in bulk mode; otherwise True, because only a query can detect new rows."""
        return self._bulk_interval_s is None or any(self._is_due(table) for table in self._tables)

    def advance(self) -> None:
        """Advance past the last batch. Must not be called before the batch is in Kafka."""
        if self.next_position is not None:
            table, mark = self.next_position
            self._marks[table] = mark
            self._due_s_by_table[table] = time.monotonic() + (self._bulk_interval_s or 0.0)
            self._tables.remove(table)
            self._tables.append(table)  # the other tables are queried first from now on
        self.next_position = None

    def discover(self, spark: SparkSession) -> SourceBatch | None:
        """Return the new rows of the first table that has any; None if no table has new rows."""
        self.next_position = None
        for table in self._tables:
            batch = self._discover_in_table(spark, table)
            if batch is not None:
                return batch
        return None

    def close(self) -> None:
        """Do nothing: no resources are open between batches."""

    def _is_due(self, table: str) -> bool:
        return time.monotonic() >= self._due_s_by_table.get(table, 0.0)

    def _discover_in_table(self, spark: SparkSession, table: str) -> SourceBatch | None:
        if self._bulk_interval_s is not None:
            if not self._is_due(table):
                return None
            max_mark = Mark(incrementing=time.time_ns() // 1_000_000)
            return self._make_batch(table, self._select(spark, "*", table, []), max_mark)
        lower_bound = self._columns.after(self._marks.get(table, Mark()))
        max_mark = self._read_max_mark(spark, table, [lower_bound] if lower_bound else [])
        if max_mark == Mark():
            return None
        frame = self._select(
            spark, "*", table, [*([lower_bound] if lower_bound else []), self._columns.until(max_mark)]
        )
        actual_names = {name.lower(): name for name in frame.columns}
        sort_columns = [
            actual_names[name.lower()] for name in self._sort_columns if name.lower() in actual_names
        ]
        return self._make_batch(table, frame.sortWithinPartitions(*sort_columns), max_mark)

    def _make_batch(self, table: str, frame: DataFrame, mark: Mark) -> SourceBatch:
        self.next_position = (table, mark)
        topic = None if self._prefix is None else self._prefix + _unquote_last_part(table)
        offsets = {SourcePartition.of({"table": table}): mark.offset()}
        return self._layout.make_batch(frame, offsets, topic=topic)

    def _read_max_mark(self, spark: SparkSession, table: str, where: Sequence[str]) -> Mark:
        """Return the maximum mark of the rows; an empty mark if there are no rows."""
        timestamp = self._columns.timestamp
        max_timestamp: str | None = None
        if timestamp is not None:
            max_timestamp = self._read_max(spark, table, timestamp, where)
            if max_timestamp is None:
                return Mark()
            max_timestamp = (
                f"{max_timestamp} 00:00:00" if _DATE_PATTERN.fullmatch(max_timestamp) else max_timestamp
            )
            where = [*where, f"{timestamp} = {_make_timestamp_literal(max_timestamp)}"]
        number = self._columns.incrementing
        max_number = None if number is None else self._read_max(spark, table, number, where)
        if number is not None and max_number is None and timestamp is None:
            return Mark()
        return Mark(None if max_number is None else _parse_integer(max_number, table, number), max_timestamp)

    def _read_max(self, spark: SparkSession, table: str, column: str, where: Sequence[str]) -> str | None:
        frame = self._select(spark, f"MAX({column}) AS kraal_max", table, where)
        row = frame.select(frame[frame.columns[0]].cast("string")).first()
        return None if row is None or row[0] is None else str(row[0])

    def _select(self, spark: SparkSession, columns: str, table: str, where: Sequence[str]) -> DataFrame:
        """Return the lazy frame of a query; the schema is queried immediately."""
        condition = ["WHERE", " AND ".join(where)] if where else []
        query = " ".join(["SELECT", columns, "FROM", to_sql(self._kind, table), *condition])
        return spark.read.format("jdbc").options(**self._options).option("query", query).load()


def _make_timestamp_literal(text: str) -> str:
    """Return a timestamp literal that all JDBC drivers support, since queries have no parameters.

    Raises ValueError if `text` is not a time.
    """
    if not _TIME_PATTERN.fullmatch(text):
        raise ValueError(
            f"the column of jdbc.timestamp.column contains {text!r}, not a time like 2026-01-31 12:00:00.5"
        )
    return f"{{ts '{text}'}}"


def _unquote_last_part(name: str) -> str:
    """Return the last part of a name, without its quotes."""
    last_part = re.split(r"\.(?=[^\"`\]]*(?:[\"`\[][^\"`\]]*[\"`\]])*$)", name)[-1]
    return last_part[1:-1] if last_part[:1] in {'"', "`", "["} else last_part


def _parse_integer(text: str, table: str, column: str | None) -> int:
    number, _, fraction = text.partition(".")
    if fraction.strip("0") or not re.fullmatch(r"-?\d+", number):
        raise ValueError(f"the column {column} of {table} contains {text}, which is not an integer")
    return int(number)
