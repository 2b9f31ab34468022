"""The record path for batches of a sink task.

A tail is processed in the worker, on a job thread. A backlog is processed in Spark's Python workers, and the result is
persisted until the sink has written it, because a sink may run several jobs over its DataFrame, but each record must be
processed once. Dead letters are written before the sink is called, and the batch's offsets are committed after both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kraal.engine.api import TaskSpec
from kraal.engine.kafka_io.dead_letter_writer import DeadLetter, DeadLetters
from kraal.engine.records.fault import Fault, dead_letter_headers
from kraal.engine.records.outcomes import handle_outcomes
from kraal.engine.records.sink_pass import RawRecord, SinkPass
from kraal.engine.records.steps import Steps, Summary, merge_notes
from kraal.engine.sink.ranges import Ranges
from kraal.engine.source.record_batches import Pass, RunCancelled
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.plugins.api import Converter, SinkValues

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass(slots=True)
class SinkRecords:
    """The record path of one run."""

    spec: TaskSpec
    steps: Steps
    value_form: SinkValues
    dead_letters: DeadLetters | None
    envelope: Converter | None = None
    """See `SinkPass.envelope`."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    _settled_ranges: Ranges | None = None
    """The ranges of the latest batch whose dead letters are written, in case that batch is retried."""
    _undelivered_count: int = 0
    """Number of dead letters in failed writes, not counted in a summary yet."""

    def write_dead_letters(self, records: Iterable[tuple[RawRecord, Fault]]) -> None:
        """Write dead letters for records that the sink has reported; no-op if dead letters are disabled."""
        if self.dead_letters is not None:
            dead_letters = [
                DeadLetter(self._headers(raw.headers, fault), raw.key, raw.value, raw.timestamp_ms)
                for raw, fault in records
            ]
            self._write_dead_letters(self.dead_letters, dead_letters)

    def cancel(self) -> None:
        """Make blocking calls return promptly. Thread-safe."""
        self.cancelled.set()
        if self.dead_letters is not None:
            self.dead_letters.cancel()

    def make_pass(self, *, in_process: bool = False) -> Pass:
        """Return the pass for a batch; with `in_process`, it runs in this process and can be cancelled."""
        local = SinkPass(
            steps=self.steps,
            value_form=self.value_form,
            writes_dead_letters=self.dead_letters is not None,
            envelope=self.envelope,
        )
        if self.spec.chain is not None:
            return self.spec.chain.sink_pass(local, self.cancelled if in_process else None)
        return replace(local, wait=self._wait) if in_process else local

    def settle(self, notes: pa.Table, ranges: Ranges) -> Summary:
        """Write the dead letters and log lines of a batch, only once even if it is retried; return its summary.

        Raises ToleranceExceeded and the errors of dead letters.
        """
        summary, faults = merge_notes(notes["note"].to_pylist())
        if self._settled_ranges != ranges:
            if self.dead_letters is not None:
                rows = [row for row in notes.to_pylist() if row["topic"] is not None]
                self._write_dead_letters(
                    self.dead_letters,
                    [self._make_dead_letter(row, fault) for row, fault in zip(rows, faults, strict=True)],
                )
            handle_outcomes(self.spec.task, summary, self.steps.tolerance)
            self._settled_ranges = ranges
        count, self._undelivered_count = self._undelivered_count, 0
        failures = NO_ERRORS if not count else ErrorCounts(dead_letters=count, dead_letters_failed=count)
        return replace(summary, counts=summary.counts + failures)

    def _write_dead_letters(self, writer: DeadLetters, dead_letters: list[DeadLetter]) -> None:
        try:
            writer.write(dead_letters)
        except Exception:
            self._undelivered_count += len(dead_letters)
            raise

    def _make_dead_letter(self, row: Mapping[str, Any], fault: Fault) -> DeadLetter:
        headers = ((header["key"], header["value"]) for header in row["headers"] or ())
        timestamp = row["timestamp"]
        timestamp_ms = None if timestamp is None else round(timestamp.timestamp() * 1000)
        return DeadLetter(self._headers(headers, fault), row["key"], row["value"], timestamp_ms)

    def _headers(
        self, headers: Iterable[tuple[str, bytes | None]], fault: Fault
    ) -> Sequence[tuple[str, bytes | None]]:
        task = self.spec.task
        assert self.dead_letters is not None  # noqa: S101 - callers check it
        with_context = self.dead_letters.topic.with_context
        return dead_letter_headers(headers, fault, task.connector, task.task, with_context=with_context)

    def frame(self, rows: DataFrame) -> DataFrame:
        """Return the records in the form that the sink expects."""
        if self.value_form != "json":
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
