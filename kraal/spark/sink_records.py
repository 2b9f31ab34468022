"""A sink task's batches where records are handled one by one.

A tail takes its pass here, on a job's thread; a backlog in Spark's Python processes, and what comes out is kept
(`persist`) until the sink has written it: a sink may run several jobs over its frame, and a record must be judged
once. Dead letters are written before the sink is asked, and both before the batch's offsets are committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.plugins.api import SinkValues
from kraal.spark.api import TaskSpec
from kraal.spark.arrow import map_in_arrow
from kraal.spark.dead_letters import DeadLetters, Letter
from kraal.spark.ranges import Ranges
from kraal.spark.records.fates import settle
from kraal.spark.records.fault import Fault, headers_of
from kraal.spark.records.sink_pass import COLUMNS, DDL, OUT, Raw, SinkPass
from kraal.spark.records.steps import Steps, Summary, summed
from kraal.spark.source_records import RunCancelled

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kraal.spark.session import Spark

Put = Callable[["DataFrame"], None]
"""Has the sink write a frame."""


@dataclass(slots=True)
class SinkRecords:
    """The record path of one run."""

    spec: TaskSpec
    steps: Steps
    shown: SinkValues
    dead: DeadLetters | None
    cancelled: threading.Event = field(default_factory=threading.Event)
    _judged: Ranges | None = None
    """The batch whose dead letters are written, in case the sink wants it again."""
    _undelivered: int = 0

    def few(self, table: pa.Table, ranges: Ranges, spark: Spark, put: Put) -> Summary:
        """Take a tail through. Raises ToleranceExceeded, and whatever the sink and the dead letters raise."""
        import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

        one = replace(self._pass(), wait=self._wait)
        found = pa.Table.from_batches(list(one(table.select(list(COLUMNS)).to_batches())), OUT)
        is_note = found["note"].is_valid()
        summary = self._judge(found.filter(is_note), ranges)
        if summary.written:
            rows = found.filter(found["note"].is_null()).drop_columns(["note"])
            put(self._frame(spark.tiny.createDataFrame(rows).coalesce(1)))
        return summary

    def many(self, raw: DataFrame, ranges: Ranges, put: Put) -> Summary:
        """Take a backlog through. Raises as `few`."""
        found = map_in_arrow(raw.select(*COLUMNS), self._pass(), DDL).persist()
        try:
            summary = self._judge(found.where("note is not null").toArrow(), ranges)
            if summary.written:
                put(self._frame(found.where("note is null").drop("note")))
        finally:
            found.unpersist()
        return summary

    def bury(self, found: Iterable[tuple[Raw, Fault]]) -> None:
        """Write dead letters of records that the sink has reported, if there are to be any. Raises as `few`."""
        if self.dead is not None:
            letters = [
                Letter([*raw.headers, *self._told(fault)], raw.key, raw.value, raw.timestamp_ms)
                for raw, fault in found
            ]
            self._bury(self.dead, letters)

    def cancel(self) -> None:
        """Have everything that waits end soon; any thread."""
        self.cancelled.set()
        if self.dead is not None:
            self.dead.cancel()

    def _pass(self) -> SinkPass:
        return SinkPass(steps=self.steps, shown=self.shown, keeps_dead=self.dead is not None)

    def _judge(self, noted: pa.Table, ranges: Ranges) -> Summary:
        """Write a batch's dead letters and its log, once. Raises ToleranceExceeded."""
        summary, faults = summed(noted["note"].to_pylist())
        if self._judged != ranges:
            if self.dead is not None:
                rows = [row for row in noted.to_pylist() if row["topic"] is not None]
                self._bury(
                    self.dead, [self._letter(row, fault) for row, fault in zip(rows, faults, strict=True)]
                )
            settle(self.spec.task, summary, self.steps.tolerance)
            self._judged = ranges
        lost, self._undelivered = self._undelivered, 0
        more = NO_ERRORS if not lost else ErrorCounts(dead_letters=lost, dead_letters_failed=lost)
        return replace(summary, counts=summary.counts + more)

    def _bury(self, dead: DeadLetters, letters: list[Letter]) -> None:
        try:
            dead.write(letters)
        except Exception:
            self._undelivered += len(letters)
            raise

    def _letter(self, row: Mapping[str, Any], fault: Fault) -> Letter:
        own = [(header["key"], header["value"]) for header in row["headers"] or ()]
        stamp = row["timestamp"]
        stamp_ms = None if stamp is None else round(stamp.timestamp() * 1000)
        return Letter([*own, *self._told(fault)], row["key"], row["value"], stamp_ms)

    def _told(self, fault: Fault) -> Sequence[tuple[str, bytes | None]]:
        task = self.spec.task
        assert self.dead is not None  # noqa: S101 - or nobody wants letters
        return headers_of(fault, task.connector, task.task) if self.dead.topic.tells else ()

    def _frame(self, rows: DataFrame) -> DataFrame:
        """Return the rows as the sink wants them."""
        if self.shown != "json":
            return rows.selectExpr(
                "topic", "partition", "offset", "timestamp", "headers",
                "cast(key as string) as key", "cast(value as string) as value",
            )  # fmt: skip
        return rows.selectExpr(
            "topic", "partition", "offset", "timestamp", "headers",
            "try_parse_json(cast(key as string)) as key", "try_parse_json(cast(value as string)) as value",
        )  # fmt: skip

    def _wait(self, seconds: float) -> None:
        if self.cancelled.wait(seconds):
            raise RunCancelled
