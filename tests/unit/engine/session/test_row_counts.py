"""Tests for counts of rows, with simulated observations. tests/integration/spark has tests with Spark."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest
from typing_extensions import override

from kraal.engine.session import row_counts as module
from kraal.engine.session.row_counts import RowCounts
from kraal.engine.session.task_totals import TaskTotals


class Observation:
    """An observation whose event arrives when `arrive` is called."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._has_arrived = threading.Event()

    def arrive(self) -> None:
        """Deliver the event."""
        self._has_arrived.set()

    def future(self) -> Observation:
        """Return this object, as Java's observation returns its future."""
        return self

    def isCompleted(self) -> bool:  # noqa: N802 - Scala's name
        """Return whether the event has arrived."""
        return self._has_arrived.is_set()

    @property
    def _jo(self) -> Observation:
        return self

    @property
    def get(self) -> dict[str, int]:
        """The aggregates; must not be called before the event, because Spark's method would block."""
        assert self._has_arrived.is_set()
        return {"rows": self._rows}


class FakeContext:
    """A SparkContext with the tags of jobs."""

    def __init__(self) -> None:
        self.tags: list[str] = []

    def addJobTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """Add a tag."""
        self.tags.append(tag)

    def removeJobTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        """Remove a tag."""
        self.tags.remove(tag)


def make_counts(*observations: Any) -> RowCounts:
    counts = RowCounts()
    counts._observations.extend(observations)  # noqa: SLF001 - `observe` requires Spark
    return counts


def test_rows_of_all_frames_are_added() -> None:
    observations = [Observation(2), Observation(3)]
    for each in observations:
        each.arrive()
    assert make_counts(*observations).get() == 5


def test_event_that_arrives_after_the_action_is_awaited() -> None:
    observation = Observation(2)
    timer = threading.Timer(0.05, observation.arrive)
    timer.start()
    assert make_counts(observation).get() == 2
    timer.join()


def test_frame_that_no_action_computes_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENT_TIMEOUT_S", 0.05)
    observation = Observation(2)
    observation.arrive()
    start_s = time.monotonic()
    assert make_counts(observation, Observation(3)).get() is None
    assert time.monotonic() - start_s < 5


def test_without_frames_nothing_is_counted() -> None:
    counts = make_counts(Observation(2))
    counts.clear()
    assert counts.get() is None


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        ([None, None, TaskTotals(input_records=5)], 5),
        ([TaskTotals(input_records=0)], 0),
        ([TaskTotals(input_records=7, repetitions=1)], None),
    ],
)
def test_input_of_jobs_is_counted(
    monkeypatch: pytest.MonkeyPatch, totals: list[TaskTotals | None], expected: int | None
) -> None:
    context, tags = FakeContext(), list[str]()

    def read(_: object, tag: str) -> TaskTotals | None:
        tags.append(tag)
        return totals.pop(0)

    monkeypatch.setattr(module, "read_totals", read)
    counts = RowCounts()
    with counts.count_input(cast("Any", context)):
        [tag] = context.tags
    assert context.tags == []
    assert counts.get() == expected
    assert set(tags) == {tag}


def test_jobs_without_totals_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENT_TIMEOUT_S", 0.05)
    monkeypatch.setattr(module, "read_totals", lambda *_: None)
    counts = RowCounts()
    with counts.count_input(cast("Any", FakeContext())):
        pass
    assert counts.get() is None


def test_error_of_an_observation_does_not_fail_the_batch() -> None:
    class FailedObservation(Observation):
        @property
        @override
        def get(self) -> dict[str, int]:
            raise RuntimeError("the session has ended")

    observation = FailedObservation(2)
    observation.arrive()
    assert make_counts(observation).get() is None
