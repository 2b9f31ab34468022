"""Progress of a Java task since the last report of its run: records, durations, and the time in the current step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kraal.core.ids import TopicName
from kraal.engine.api import BatchDone, PhaseTimes
from kraal.metrics.task import NO_PHASE, Phase

if TYPE_CHECKING:
    from kraal.engine.api import StepReporter


class RecordProgress:
    """The counts of a Java task's records: all that it has processed, and all that have been reported."""

    def __init__(self) -> None:
        self._totals = self._reported_totals = (0, 0, frozenset[str]())
        """Records read and written, and topics."""
        self._since_s = time.monotonic()

    def set_totals(self, detail: Mapping[str, Any]) -> None:
        """Store the totals that the Java task has reported."""
        self._totals = (detail["read"], detail["written"], frozenset(detail["topics"]))

    def since_last(self) -> BatchDone | None:
        """Return the progress since the last call; None if there was no progress."""
        if self._totals == self._reported_totals:
            return None
        (read_count, written_count, topics), now_s = self._totals, time.monotonic()
        batch_done = BatchDone(
            offsets={},
            records=written_count - self._reported_totals[1],
            topics=frozenset(map(TopicName, topics)),
            duration_s=now_s - self._since_s,
            read=read_count - self._reported_totals[0],
            write_path="by Kafka's own worker in the JVM of Java plugins",
            continuous=True,
        )
        self._since_s, self._reported_totals = now_s, self._totals
        return batch_done


class StepDurations:
    """The unreported durations of a Java task's polls, puts and commits."""

    def __init__(self) -> None:
        self._reported_totals: Mapping[str, tuple[int, float]] = {}
        """The number of calls and their total duration in milliseconds, by step."""

    def since_last(self, detail: Mapping[str, Any]) -> PhaseTimes:
        """Return the durations since the last call; `detail` contains the Java task's totals since its start."""
        totals = {step: (count, total_ms) for step, (count, total_ms) in detail.items()}
        previous_totals, self._reported_totals = self._reported_totals, totals

        def phase(step: str) -> Phase:
            count, total_ms = totals.get(step, (0, 0.0))
            previous_count, previous_ms = previous_totals.get(step, (0, 0.0))
            return NO_PHASE.add_occurrences(total_ms - previous_ms, count - previous_count)

        return PhaseTimes(poll=phase("poll"), write=phase("put"), commit=phase("commit"))


class CurrentStep:
    """A task's current step. The task is busy while it commits, or processes records that are not sent or put yet."""

    def __init__(self, working: StepReporter) -> None:
        self._working = working
        self._is_busy = False

    def report(self, *, busy: bool) -> None:
        """Report that a step starts or ends."""
        self._is_busy = busy
        self._working(busy=busy)

    def restart_step(self) -> None:
        """Restart the time of the current step, if any, after a pause or progress."""
        if self._is_busy:
            self._working(busy=False)
            self._working(busy=True)
