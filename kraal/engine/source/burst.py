"""A burst of a busy source task: one job that writes the batches of about a second, one after another.

    first batch ──written──► WAITING ──step──► POLLING ──► WRITING ──acknowledged──► WAITING ──► …      ──► ENDED

Outside a burst, the run and its task actor exchange messages about each batch, and its offsets are stored before the
next poll. This costs ten times as much as the batch itself. A burst reports its batches as one, so a kill repeats the
records of about a second. Order is preserved, because at most one batch is in progress.

The first batch is written as usual, and begins a burst only if it needed no Spark job. A further batch that needs one,
or fails, ends the burst, and begins the next job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from enum import Enum, auto
from typing import Final, Protocol

from kraal.core.logging import log_subject, use_subject
from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone
from kraal.engine.executor import JobResult, run_job
from kraal.engine.source.attempt import SourceAttempt, add_ranges
from kraal.engine.source.write_paths import JOBLESS
from kraal.engine.write_path_choice import Choice
from kraal.ledger.counts import BatchEntry, Range

DURATION_S: Final = 1.0
"""Time after which a burst ends, so that the offsets of its batches are stored."""
MIN_IDLE_TIMEOUT_S: Final = 0.25
IDLE_TIMEOUT_INTERVALS: Final = 2.5
"""Time without a batch after which a burst ends: this multiple of the poll interval, at least `MIN_IDLE_TIMEOUT_S`."""
MAX_INTERVAL_S: Final = 0.25
"""Maximum interval between polls for which a burst saves work."""
_REASON: Final = "the worker is busy, so offsets are stored once a second"


class Polls(Protocol):
    """The polls of an executor. Methods are called on the timer thread, or on a thread that has written a batch."""

    @property
    def may_continue(self) -> bool:
        """Whether the task may still read and write. Returns within microseconds."""

    @property
    def must_poll_again(self) -> bool:
        """Whether the next poll must follow the latest batch at once."""

    def is_idle(self) -> bool:
        """Return whether the next poll can be skipped. Returns within microseconds."""

    def poll_plugin(self) -> SourceAttempt | None:
        """Poll the plugin, and return an attempt to write its batch, if any."""

    def keep(self, kept: SourceAttempt | BaseException) -> None:
        """Keep a batch that must be written next, or the error of a poll that must be raised next."""


class _Phase(Enum):
    WAITING = auto()
    POLLING = auto()
    WRITING = auto()
    ENDED = auto()


class Burst:
    """One burst. A `JobLauncher`. Thread-safe."""

    def __init__(self, first: SourceAttempt, polls: Polls, interval_s: float) -> None:
        """Create a burst that begins with a batch; `interval_s` is the time between two polls."""
        self._first, self._polls, self._interval_s = first, polls, interval_s
        self._parts, self._refusals = first.parts, first.refusals
        self._lock = threading.Lock()
        self._phase = _Phase.WRITING
        self._begin_s = self._last_batch_s = time.monotonic()
        self._is_ending = False
        self._done: Callable[[JobResult], None]
        self._total: BatchDone
        """The sum of the written batches. Its entry has the ranges of the first batch."""
        self._subject = log_subject.get()

    def __call__(self, done: Callable[[JobResult], None]) -> None:
        """Start to write the first batch; `done` receives the result, on any thread. Returns at once."""
        self._done = done
        self._first(self._continue)

    def finish_soon(self) -> None:
        """End after the batch in progress. Returns at once; may call `done`."""
        self._is_ending = True
        self._move(_Phase.WAITING, _Phase.WAITING)

    def step(self) -> bool:
        """Poll the plugin, and start to write its batch; return whether the burst continues. For the timer thread."""
        if self._move(_Phase.WAITING, _Phase.POLLING):
            self._poll()
        return self._phase is not _Phase.ENDED

    def _continue(self, outcome: JobResult) -> None:
        """Continue after the first batch, unless it has failed or needed a Spark job."""
        if not isinstance(outcome, BatchDone) or self._first.write_path not in JOBLESS:
            self._done(outcome)
            return
        self._total = outcome
        self._last_batch_s = time.monotonic()
        if self._refusals is not None:
            self._refusals.begin()
        self._move(_Phase.WRITING, _Phase.WAITING)
        context = self._parts.context
        with use_subject(self._subject):
            context.timer.call_at_interval(
                self._interval_s, self.step, context.jobs.owner, can_skip=self._can_skip_step
            )

    def _move(self, before: _Phase, after: _Phase) -> bool:
        """Pass from one phase to another, or end if the burst is over; return whether it has passed to `after`.

        In any phase other than `before`, this is a no-op: the thread that polls or writes makes the next move.
        """
        with self._lock:
            if self._phase is not before:
                return False
            is_over = self._is_over()
            self._phase = _Phase.ENDED if is_over else after
        if is_over:
            self._report()
        return not is_over

    def _poll(self) -> None:
        """Poll the plugin, and start to write its batch, if any."""
        try:
            attempt = self._polls.poll_plugin()
        except BaseException as error:  # noqa: BLE001 - the next poll of the run raises it
            self._end_with(error)
            return
        if attempt is None:
            self._move(_Phase.POLLING, _Phase.WAITING)
        elif self._is_over() or not self._write(attempt):
            self._end_with(attempt)

    def _can_skip_step(self) -> bool:
        is_waiting = self._phase is _Phase.WAITING and not self._is_over()
        return self._phase is _Phase.WRITING or (is_waiting and self._polls.is_idle())

    def _is_over(self) -> bool:
        now_s = time.monotonic()
        idle_timeout_s = max(MIN_IDLE_TIMEOUT_S, IDLE_TIMEOUT_INTERVALS * self._interval_s)
        is_late = now_s >= self._begin_s + DURATION_S or now_s >= self._last_batch_s + idle_timeout_s
        return is_late or self._is_ending or not self._polls.may_continue

    def _write(self, attempt: SourceAttempt) -> bool:
        """Start to write a batch; return False if it needs a Spark job."""
        with self._lock:
            self._phase, self._last_batch_s = _Phase.WRITING, time.monotonic()
        return attempt.write_without_job(lambda outcome: self._handle_outcome(attempt, outcome))

    def _handle_outcome(self, attempt: SourceAttempt, outcome: JobResult) -> None:
        if not isinstance(outcome, BatchDone):
            self._end_with(attempt)
            return
        self._total = join(self._total, outcome)
        self._move(_Phase.WRITING, _Phase.WAITING)
        if self._polls.must_poll_again:
            with use_subject(self._subject):
                self._parts.context.timer.call_soon(self.step, self._parts.context.jobs.owner)

    def _end_with(self, kept: SourceAttempt | BaseException) -> None:
        """End the burst; the executor continues with a batch or an error."""
        self._phase = _Phase.ENDED
        self._polls.keep(kept)
        self._report()

    def _report(self) -> None:
        outcome = run_job(self._make_report)
        self._done(outcome if self._refusals is None else self._refusals.end(outcome))

    def _make_report(self) -> BatchDone:
        total = self._total
        if total.batches == 1:
            return total
        total = replace(total, write_path=str(Choice(self._first.write_path, _REASON)))
        if total.entry is None:
            return total
        later = add_ranges(self._parts, total).entry
        assert later is not None  # noqa: S101 - the run counts records, as the first batch has an entry
        ranges = join_ranges(total.entry, later)
        return replace(total, entry=replace(total.entry, ranges=ranges))


def join(total: BatchDone, done: BatchDone) -> BatchDone:
    """Return the sum of batches and the next one. The ranges of the entry stay those of the first batch. Pure."""
    entry = None
    if total.entry is not None and done.entry is not None:
        entry = replace(total.entry, counts=total.entry.counts + done.entry.counts)
    return BatchDone(
        offsets={**total.offsets, **done.offsets},
        records=total.records + done.records,
        topics=total.topics | done.topics,
        duration_s=total.duration_s + done.duration_s,
        poll_s=total.poll_s + done.poll_s,
        batches=total.batches + done.batches,
        write_path=total.write_path,
        entry=entry,
    )


def join_ranges(first: BatchEntry, later: BatchEntry) -> dict[SourcePartition, Range]:
    """Return the ranges from the start of the first entry to the end of the later one, for each partition. Pure."""
    return {
        partition: replace(first.ranges.get(partition, later_range), end=later_range.end)
        for partition, later_range in later.ranges.items()
    }
