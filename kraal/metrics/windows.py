"""Averages, maxima and rates over recent samples, as in Kafka's metrics. Immutable.

A sample starts with the first event after its predecessor is `length_s` old, and expires `count * length_s` after its
last event. With Connect's defaults, a value covers the last 30 to 90 seconds.
Source: SampledStat, Avg, Max, Rate, Frequencies (Kafka 4.4.0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Windows:
    """The sizes and number of sample windows."""

    length_s: float = 30.0
    """`metrics.sample.window.ms`"""
    count: int = 2
    """`metrics.num.samples`"""

    @property
    def memory_s(self) -> float:
        """Time from the last event of a sample until the sample expires."""
        return self.length_s * self.count


class _Sample(NamedTuple):
    began_s: float
    last_s: float
    events: int
    total: float
    maximum: float
    minimum: float


@dataclass(frozen=True, slots=True)
class Sampled:
    """Recently recorded values. Each method takes the current time in monotonic seconds."""

    windows: Windows
    samples: tuple[_Sample, ...] = ()
    """Samples, oldest first; one more than the number of windows, for the partly expired sample."""

    def record(self, value: float, now_s: float) -> Sampled:
        """Return a copy with one more event."""
        samples, windows = self.samples, self.windows
        if samples and now_s - samples[-1].began_s < windows.length_s:
            last_sample = samples[-1]
            updated_sample = _Sample(
                last_sample.began_s,
                now_s,
                last_sample.events + 1,
                last_sample.total + value,
                max(last_sample.maximum, value),
                min(last_sample.minimum, value),
            )
            return Sampled(windows, (*samples[:-1], updated_sample))
        new_sample = _Sample(now_s, now_s, 1, value, value, value)
        return Sampled(windows, (*samples[-windows.count :], new_sample))

    def average(self, now_s: float) -> float:
        """Return the mean of the unexpired values; NaN if there are none."""
        samples = self._unexpired_samples(now_s)
        return sum(s.total for s in samples) / sum(s.events for s in samples) if samples else math.nan

    def maximum(self, now_s: float) -> float:
        """Return the largest unexpired value; NaN if there is none."""
        samples = self._unexpired_samples(now_s)
        return max(s.maximum for s in samples) if samples else math.nan

    def minimum(self, now_s: float) -> float:
        """Return the smallest unexpired value; NaN if there is none."""
        samples = self._unexpired_samples(now_s)
        return min(s.minimum for s in samples) if samples else math.nan

    def rate(self, now_s: float) -> float:
        """Return the sum per second. Windows that have not elapsed yet count as elapsed, as in Kafka."""
        samples = self._unexpired_samples(now_s)
        if not samples:
            return 0.0
        length_s = self.windows.length_s
        elapsed_s = now_s - samples[0].began_s
        if length_s > 0:
            full_windows = int(elapsed_s / length_s)
            elapsed_s += max(0, self.windows.count - 1 - full_windows) * length_s
        return sum(s.total for s in samples) / max(elapsed_s, 0.001)

    def share(self, now_s: float) -> float | None:
        """Return the fraction of events that are 1, not 0; None if all have expired."""
        return self.average(now_s) if self._unexpired_samples(now_s) else None

    def _unexpired_samples(self, now_s: float) -> tuple[_Sample, ...]:
        samples, memory_s = self.samples, self.windows.memory_s
        if not samples or now_s - samples[-1].last_s >= memory_s:
            return ()
        if now_s - samples[0].last_s < memory_s:
            return samples
        return tuple(s for s in samples if now_s - s.last_s < memory_s)


def shares(results: Sampled, now_s: float) -> tuple[float, float]:
    """Return the fractions of failures (0) and successes (1) in the results, from 0 to 1; both 0 without results.

    Connect calls the attributes percentages but also exports fractions.
    """
    successes = results.share(now_s)
    return (0.0, 0.0) if successes is None else (1.0 - successes, successes)
