"""What one task counts, against numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from kraal.core.ids import ConnectorName, State, TaskId
from kraal.metrics.task import StateTimes, TaskMeter, TaskMetrics
from kraal.metrics.windows import Windows, shares

TASK = TaskId(ConnectorName("c"), 0)


@dataclass
class Watch:
    """A clock that a test sets."""

    seconds: float = 100.0

    def now(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + round(self.seconds * 1000)


class Story:
    """A meter, its clock, and what it published last."""

    def __init__(self, *, is_source: bool) -> None:
        self.watch = Watch()
        self.published: list[TaskMetrics] = []
        self.meter = TaskMeter(
            TASK, is_source=is_source, time=self.watch, windows=Windows(), publish=self._publish
        )

    def _publish(self, task: TaskId, numbers: TaskMetrics) -> None:
        assert task == TASK
        self.published.append(numbers)

    @property
    def numbers(self) -> TaskMetrics:
        return self.published[-1]

    def after(self, seconds: float) -> TaskMeter:
        """Let time pass."""
        self.watch.seconds += seconds
        return self.meter


def test_ratios_are_of_the_time_since_the_first_state() -> None:
    times = StateTimes()
    assert times.ratio(State.RUNNING, 7) == 0, "no state yet"
    times = times.changed(State.UNASSIGNED, 10)
    assert times.ratio(State.RUNNING, 10) == 0, "no time yet"
    times = times.changed(State.RUNNING, 12).changed(State.PAUSED, 15).changed(State.RUNNING, 19)
    assert times.ratio(State.RUNNING, 20) == 0.4, "3 s and 1 s of 10"
    assert times.ratio(State.PAUSED, 20) == 0.4
    assert times.changed(State.RUNNING, 25) is times, "the same again is no change"


def test_batches_of_a_source() -> None:
    story = Story(is_source=True)
    story.meter.record_batch(records=10, duration_s=3.0, poll_s=0.002)
    story.after(10).record_batch(records=30, duration_s=1.0, poll_s=0.004, way="in one job: it is large")
    numbers, now_s = story.numbers, story.watch.now()
    assert numbers.records_total == 40
    assert numbers.way == "in one job: it is large"
    assert numbers.batch_size.average(now_s) == 20
    assert numbers.batch_size.maximum(now_s) == 30
    assert numbers.records.rate(now_s) == 40 / 40, "10 s have passed, one window of 30 s counts besides"
    assert numbers.batch_ms.average(now_s) == 3, "how long polls took, not jobs"


def test_a_sink_s_batch_takes_as_long_as_its_job() -> None:
    story = Story(is_source=False)
    story.meter.record_batch(records=1, duration_s=0.25, poll_s=0.0)
    assert story.numbers.batch_ms.maximum(story.watch.now()) == 250


def test_each_phase_keeps_its_latest_time_and_the_mean_of_a_period() -> None:
    story = Story(is_source=True)
    story.meter.record_state(State.RUNNING)
    before = story.numbers.poll, story.numbers.write, story.numbers.commit
    assert [each.latest_ms for each in before] == [None, None, None]
    for poll_s, write_s, commit_s in ((0.5, 2.0, 0.25), (0.25, 1.0, 0.75)):
        story.meter.record_batch(records=1, duration_s=write_s, poll_s=poll_s)
        story.meter.record_commit_start()
        story.after(commit_s).record_commit()
    now = story.numbers.poll, story.numbers.write, story.numbers.commit
    assert [each.latest_ms for each in now] == [250, 1000, 750]
    assert [each.mean_since(earlier) for each, earlier in zip(now, before, strict=True)] == [375, 1500, 500]
    assert [each.mean_since(each) for each in now] == [None, None, None]


def test_a_sink_has_no_poll_phase() -> None:
    story = Story(is_source=False)
    story.meter.record_batch(records=1, duration_s=0.25, poll_s=0.0)
    assert (story.numbers.poll.latest_ms, story.numbers.write.latest_ms) == (None, 250)


def test_the_time_between_reports_of_a_continuous_run_is_no_phase() -> None:
    story = Story(is_source=True)
    story.meter.record_batch(records=1, duration_s=60.0, poll_s=0.0, continuous=True)
    assert (story.numbers.poll.latest_ms, story.numbers.write.latest_ms) == (None, None)
    assert story.numbers.records_total == 1


def test_the_commit_of_a_transaction_is_part_of_its_write() -> None:
    story = Story(is_source=True)
    story.meter.record_batch(records=1, duration_s=0.5, poll_s=0.0)
    story.meter.record_transaction(1)
    assert (story.numbers.commit.latest_ms, story.numbers.write.latest_ms) == (None, 500)
    assert story.numbers.commits_total == 1


def test_commits_are_timed_from_the_first_try_to_the_answer() -> None:
    story = Story(is_source=False)
    story.meter.record_commit_start()
    story.after(0.5).record_commit()
    story.meter.record_commit_start()
    story.after(1.5).record_commit()
    numbers, now_s = story.numbers, story.watch.now()
    assert numbers.commit_ms.average(now_s) == 1000
    assert numbers.commit_ms.maximum(now_s) == 1500
    assert (numbers.commits_total, numbers.commit_number) == (2, 2)
    assert shares(numbers.commit_results, now_s) == (0, 1)


def test_a_refused_commit_is_a_failure_and_a_retry() -> None:
    story = Story(is_source=True)
    story.meter.record_commit_start()
    story.after(2).record_commit_failure()
    story.after(1).record_commit()
    numbers, now_s = story.numbers, story.watch.now()
    assert shares(numbers.commit_results, now_s) == (0.5, 0.5)
    assert numbers.commit_ms.maximum(now_s) == 1000, "the try that succeeded"
    assert numbers.retries == 1
    assert numbers.last_error_ms == 1_700_000_102_000


def test_a_failure_in_a_commit_is_a_failed_commit() -> None:
    story = Story(is_source=False)
    story.meter.record_commit_start()
    story.meter.record_failure()
    assert shares(story.numbers.commit_results, 100) == (1, 0)
    assert math.isnan(story.numbers.commit_ms.average(100))


def test_a_failure_elsewhere_does_not_count() -> None:
    story = Story(is_source=False)
    story.after(5).record_failure()
    assert shares(story.numbers.commit_results, 105) == (0, 0)
    assert story.numbers.last_error_ms == 1_700_000_105_000
    assert story.numbers.retries == 0


def test_commit_end_without_a_start_is_ignored() -> None:
    story = Story(is_source=True)
    story.meter.record_commit()
    assert story.published == []


def test_a_late_commit_is_skipped() -> None:
    story = Story(is_source=False)
    story.meter.record_late_commit()
    assert story.numbers.late_commits_total == 1
    assert story.numbers.late_commits.rate(100) == pytest.approx(1 / 30)
    assert story.numbers.commits_total == 0


def test_published_samples_do_not_change() -> None:
    story = Story(is_source=True)
    story.meter.record_batch(records=1, duration_s=0, poll_s=0)
    before = story.numbers.records
    story.meter.record_batch(records=3, duration_s=0, poll_s=0)
    assert (before.average(100), story.numbers.records.average(100)) == (1, 2)
