"""Tables of a database as a source: which rows are new, and how Spark reads them.

A batch is all that is new in one table, from the stored mark (exclusive) up to the greatest one there is now
(inclusive), read by one connection with a cursor and sorted in Spark, which spills; so memory is bounded and rows come
in the order of their marks. The offset is `{"table": T} -> {"incrementing": n, "timestamp": "2026-01-31 12:00:00.5"}`,
as far as the mode has them; times are the wall clock of the database's own values, or UTC for types with a zone.

Names of tables and columns come from the config and were checked to be names; all else in a query is ours.
Modes: those of Confluent's JDBC source.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kraal.config.jdbc_drivers import with_driver
from kraal.connectors.spark_columns import Layout
from kraal.plugins.api import Offset, SourceBatch, SourcePartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DEFAULTS: Final = {"fetchsize": "10000", "preferTimestampNTZ": "true"}
"""A cursor, not all rows at once; and times as the database has them, whatever zone the JVM is in."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?")


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a table was read."""

    incrementing: int | None = None
    timestamp: str | None = None

    @staticmethod
    def of(offset: Offset) -> Mark:
        """Read a stored offset. Raises ValueError for one that is not ours."""
        number, stamp = offset.get("incrementing"), offset.get("timestamp")
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise ValueError(f"the stored offset's incrementing is {number!r}, which is no whole number")
        if stamp is not None and not (isinstance(stamp, str) and _TIME.fullmatch(stamp)):
            raise ValueError(f"the stored offset's timestamp is {stamp!r}, not as 2026-01-31 12:00:00.5")
        return Mark(number, stamp)

    def offset(self) -> Offset:
        """Return what is stored."""
        both = {"incrementing": self.incrementing, "timestamp": self.timestamp}
        return {key: value for key, value in both.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that tell new rows; None: not in this mode."""

    incrementing: str | None
    timestamp: str | None

    @staticmethod
    def of(parsed: Mapping[str, Any]) -> Columns:
        """Take those of the config's mode."""
        kinds = str(parsed["jdbc.mode"]).split("+")
        number, stamp = (
            parsed[f"jdbc.{kind}.column"] if kind in kinds else None for kind in ("incrementing", "timestamp")
        )
        return Columns(number, stamp)

    def after(self, mark: Mark) -> str | None:
        """Return the condition for rows behind `mark`; None where nothing was read yet."""
        number = f"{self.incrementing} > {mark.incrementing}" if mark.incrementing is not None else None
        if self.timestamp is None:
            return number
        if mark.timestamp is None:
            return None
        stamp = _stamp(mark.timestamp)
        if self.incrementing is None or number is None:
            return f"{self.timestamp} > {stamp}"
        return f"({self.timestamp} > {stamp} OR ({self.timestamp} = {stamp} AND {number}))"

    def until(self, mark: Mark) -> str:
        """Return the condition for rows up to `mark`."""
        number = f"{self.incrementing} <= {mark.incrementing}"
        if self.timestamp is None or mark.timestamp is None:
            return number
        stamp = _stamp(mark.timestamp)
        if self.incrementing is None:
            return f"{self.timestamp} <= {stamp}"
        return f"({self.timestamp} < {stamp} OR ({self.timestamp} = {stamp} AND {number}))"

    def order(self) -> list[str]:
        """Return the columns that rows are sorted by, as Spark knows them."""
        return [_bare(each) for each in (self.timestamp, self.incrementing) if each is not None]


class JdbcReader:
    """Reads one task's tables, one after another."""

    def __init__(
        self,
        parsed: Mapping[str, Any],
        options: Mapping[str, str],
        share: tuple[int, int],
        offsets: Mapping[SourcePartition, Offset],
    ) -> None:
        number, count = share
        self._tables = deque(sorted(parsed["jdbc.tables"])[number::count])
        self._columns = Columns.of(parsed)
        self._bulk_s = int(parsed["jdbc.poll.interval.ms"]) / 1000 if parsed["jdbc.mode"] == "bulk" else None
        self._due: dict[str, float] = {}
        self._layout = Layout.of(parsed)
        self._prefix: str | None = parsed["topic.prefix"]
        self._options = with_driver({**_DEFAULTS, **options})
        self._marks = {
            str(partition.as_dict()["table"]): Mark.of(offset)
            for partition, offset in offsets.items()
            if offset and partition.as_dict().get("table") in self._tables
        }
        self.found: tuple[str, Mark] | None = None

    def may_have_more(self) -> bool:
        """Only the database knows; but a table that is read whole has its time."""
        return self._bulk_s is None or any(self._is_due(table) for table in self._tables)

    def stored(self) -> None:
        """What was found last is in Kafka."""
        if self.found is not None:
            table, mark = self.found
            self._marks[table] = mark
            self._due[table] = time.monotonic() + (self._bulk_s or 0.0)
            self._tables.remove(table)
            self._tables.append(table)  # the others come first now
        self.found = None

    def discover(self, spark: SparkSession) -> SourceBatch | None:
        """Return what is new in the first table that has something."""
        self.found = None
        for table in self._tables:
            batch = self._of_table(spark, table)
            if batch is not None:
                return batch
        return None

    def close(self) -> None:
        """Nothing is open."""

    def _is_due(self, table: str) -> bool:
        return time.monotonic() >= self._due.get(table, 0.0)

    def _of_table(self, spark: SparkSession, table: str) -> SourceBatch | None:
        if self._bulk_s is not None:
            if not self._is_due(table):
                return None
            now = Mark(incrementing=time.time_ns() // 1_000_000)
            return self._batch(table, self._select(spark, "*", table, []), now)
        behind = self._columns.after(self._marks.get(table, Mark()))
        now = self._greatest(spark, table, [behind] if behind else [])
        if now == Mark():
            return None
        frame = self._select(spark, "*", table, [*([behind] if behind else []), self._columns.until(now)])
        spelled = {name.lower(): name for name in frame.columns}
        by = [spelled[name.lower()] for name in self._columns.order() if name.lower() in spelled]
        return self._batch(table, frame.sortWithinPartitions(*by), now)

    def _batch(self, table: str, frame: DataFrame, mark: Mark) -> SourceBatch:
        self.found = (table, mark)
        topic = None if self._prefix is None else self._prefix + _bare(table)
        offsets = {SourcePartition.of({"table": table}): mark.offset()}
        return self._layout.batch(frame, offsets, topic=topic)

    def _greatest(self, spark: SparkSession, table: str, where: Sequence[str]) -> Mark:
        """Return the mark of the last row there is; an empty one when there is none."""
        stamp = self._columns.timestamp
        at: str | None = None
        if stamp is not None:
            at = self._max(spark, table, stamp, where)
            if at is None:
                return Mark()
            where = [*where, f"{stamp} = {_stamp(at)}"]
        number = self._columns.incrementing
        found = None if number is None else self._max(spark, table, number, where)
        if number is not None and found is None and stamp is None:
            return Mark()
        return Mark(None if found is None else _whole(found, table, number), at)

    def _max(self, spark: SparkSession, table: str, column: str, where: Sequence[str]) -> str | None:
        frame = self._select(spark, f"MAX({column}) AS kraal_max", table, where)
        row = frame.select(frame[frame.columns[0]].cast("string")).first()
        return None if row is None or row[0] is None else str(row[0])

    def _select(self, spark: SparkSession, what: str, table: str, where: Sequence[str]) -> DataFrame:
        """Return the lazy rows of a query; its schema is asked for at once."""
        condition = ["WHERE", " AND ".join(where)] if where else []
        query = " ".join(["SELECT", what, "FROM", table, *condition])
        return spark.read.format("jdbc").options(**self._options).option("query", query).load()


def _stamp(text: str) -> str:
    """Return a time as every JDBC driver reads it."""
    return f"{{ts '{text}'}}"


def _bare(name: str) -> str:
    """Return the last part of a name, without its quotes."""
    last = re.split(r"\.(?=[^\"`\]]*(?:[\"`\[][^\"`\]]*[\"`\]])*$)", name)[-1]
    return last[1:-1] if last[:1] in {'"', "`", "["} else last


def _whole(text: str, table: str, column: str | None) -> int:
    number, _, rest = text.partition(".")
    if rest.strip("0") or not re.fullmatch(r"-?\d+", number):
        raise ValueError(f"the column {column} of {table} has {text}, which is no whole number")
    return int(number)
