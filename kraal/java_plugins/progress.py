"""Progress of a Java task since its run last reported: records, durations, and the time at the current step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kraal.core.ids import TopicName
from kraal.engine.api import BatchDone, Timed
from kraal.metrics.task import NO_PHASE, Phase

if TYPE_CHECKING:
    from kraal.engine.api import Working


class Passed:
    """How many records have passed, and how many of them were reported."""

    def __init__(self) -> None:
        self._now = self._reported = (0, 0, frozenset[str]())
        """Records read and written, and topics."""
        self._since_s = time.monotonic()

    def add_report(self, detail: Mapping[str, Any]) -> None:
        """Add a report of the Java task."""
        self._now = (detail["read"], detail["written"], frozenset(detail["topics"]))

    def since_last(self) -> BatchDone | None:
        """Return the progress since the last call; None without progress."""
        if self._now == self._reported:
            return None
        (read, written, topics), now_s = self._now, time.monotonic()
        done = BatchDone(
            offsets={},
            records=written - self._reported[1],
            topics=frozenset(map(TopicName, topics)),
            duration_s=now_s - self._since_s,
            read=read - self._reported[0],
            way="by Kafka's own worker in the JVM of Java plugins",
            continuous=True,
        )
        self._since_s, self._reported = now_s, self._now
        return done


class Times:
    """Durations of the polls, puts and commits of a Java task that were not reported yet."""

    def __init__(self) -> None:
        self._reported: Mapping[str, tuple[int, float]] = {}
        """How many, and the milliseconds in all."""

    def since_last(self, detail: Mapping[str, Any]) -> Timed:
        """Return the durations since the last call; `detail` has the Java task's totals since its start."""
        now = {step: (count, total_ms) for step, (count, total_ms) in detail.items()}
        previous, self._reported = self._reported, now

        def phase(step: str) -> Phase:
            (count, total_ms), (before, before_ms) = now.get(step, (0, 0.0)), previous.get(step, (0, 0.0))
            return NO_PHASE.more(total_ms - before_ms, count - before)

        return Timed(poll=phase("poll"), write=phase("put"), commit=phase("commit"))


class Step:
    """The current step of a task that is committing, or has records that it has not sent or put yet."""

    def __init__(self, working: Working) -> None:
        self._working = working
        self._busy = False

    def report(self, *, busy: bool) -> None:
        """Report that a step starts or ends."""
        self._busy = busy
        self._working(busy=busy)

    def restart_step(self) -> None:
        """Count the time from now on, if it is at one: it was paused, or has other records than before."""
        if self._busy:
            self._working(busy=False)
            self._working(busy=True)
