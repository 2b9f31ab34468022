"""Tests for the metrics of one task, with expected values computed by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from kraal.core.ids import ConnectorName, State, TaskId
from kraal.metrics.task import StateTimes, TaskMeter, TaskMetrics
from kraal.metrics.windows import Windows, shares

TASK = TaskId(ConnectorName("c"), 0)


@dataclass
class FakeClock:
    """A clock set by a test."""

    seconds: float = 100.0

    def now(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + round(self.seconds * 1000)


class Scenario:
    """A meter with its clock and the metrics that the meter has published."""

    def __init__(self, *, is_source: bool) -> None:
        self.clock = FakeClock()
        self.published_metrics: list[TaskMetrics] = []
        self.meter = TaskMeter(
            TASK, is_source=is_source, time=self.clock, windows=Windows(), publish=self._publish
        )

    def _publish(self, task: TaskId, metrics: TaskMetrics) -> None:
        assert task == TASK
        self.published_metrics.append(metrics)

    @property
    def metrics(self) -> TaskMetrics:
        return self.published_metrics[-1]

    def after(self, seconds: float) -> TaskMeter:
        """Advance the time and return the meter."""
        self.clock.seconds += seconds
        return self.meter


def test_state_ratios_start_at_the_first_state() -> None:
    times = StateTimes()
    assert times.ratio(State.RUNNING, 7) == 0, "no state was recorded"
    times = times.with_state(State.UNASSIGNED, 10)
    assert times.ratio(State.RUNNING, 10) == 0, "no time has passed"
    times = times.with_state(State.RUNNING, 12).with_state(State.PAUSED, 15).with_state(State.RUNNING, 19)
    assert times.ratio(State.RUNNING, 20) == 0.4, "the task was running for 4 s of 10 s"
    assert times.ratio(State.PAUSED, 20) == 0.4
    assert times.with_state(State.RUNNING, 25) is times, "recording the same state has no effect"


def test_source_batches_are_measured() -> None:
    scenario = Scenario(is_source=True)
    scenario.meter.record_batch(records=10, duration_s=3.0, poll_s=0.002)
    scenario.after(10).record_batch(
        records=30, duration_s=1.0, poll_s=0.004, write_path="in one job: it is large"
    )
    metrics, now_s = scenario.metrics, scenario.clock.now()
    assert metrics.records_total == 40
    assert metrics.write_path == "in one job: it is large"
    assert metrics.batch_size.average(now_s) == 20
    assert metrics.batch_size.maximum(now_s) == 30
    assert metrics.records.rate(now_s) == 40 / 40, "10 s have passed, plus one window of 30 s"
    assert metrics.batch_ms.average(now_s) == 3, "the durations are those of polls, not of batches"


def test_sink_batch_duration_equals_job_duration() -> None:
    scenario = Scenario(is_source=False)
    scenario.meter.record_batch(records=1, duration_s=0.25, poll_s=0.0)
    assert scenario.metrics.batch_ms.maximum(scenario.clock.now()) == 250


def test_phase_stores_latest_and_mean_durations() -> None:
    scenario = Scenario(is_source=True)
    scenario.meter.record_state(State.RUNNING)
    earlier_phases = scenario.metrics.poll, scenario.metrics.write, scenario.metrics.commit
    assert [phase.latest_ms for phase in earlier_phases] == [None, None, None]
    for poll_s, write_s, commit_s in ((0.5, 2.0, 0.25), (0.25, 1.0, 0.75)):
        scenario.meter.record_batch(records=1, duration_s=write_s, poll_s=poll_s)
        scenario.meter.record_commit_start()
        scenario.after(commit_s).record_commit()
    later_phases = scenario.metrics.poll, scenario.metrics.write, scenario.metrics.commit
    assert [phase.latest_ms for phase in later_phases] == [250, 1000, 750]
    assert [
        phase.mean_since(earlier_phase)
        for phase, earlier_phase in zip(later_phases, earlier_phases, strict=True)
    ] == [375, 1500, 500]
    assert [phase.mean_since(phase) for phase in later_phases] == [None, None, None]


def test_sink_has_no_poll_phase() -> None:
    scenario = Scenario(is_source=False)
    scenario.meter.record_batch(records=1, duration_s=0.25, poll_s=0.0)
    assert (scenario.metrics.poll.latest_ms, scenario.metrics.write.latest_ms) == (None, 250)


def test_time_between_continuous_reports_is_not_a_phase() -> None:
    scenario = Scenario(is_source=True)
    scenario.meter.record_batch(records=1, duration_s=60.0, poll_s=0.0, continuous=True)
    assert (scenario.metrics.poll.latest_ms, scenario.metrics.write.latest_ms) == (None, None)
    assert scenario.metrics.records_total == 1


def test_transaction_commit_is_part_of_its_write() -> None:
    scenario = Scenario(is_source=True)
    scenario.meter.record_batch(records=1, duration_s=0.5, poll_s=0.0)
    scenario.meter.record_transaction(1)
    assert (scenario.metrics.commit.latest_ms, scenario.metrics.write.latest_ms) == (None, 500)
    assert scenario.metrics.commits_total == 1


def test_commit_duration_includes_retries() -> None:
    scenario = Scenario(is_source=False)
    scenario.meter.record_commit_start()
    scenario.after(0.5).record_commit()
    scenario.meter.record_commit_start()
    scenario.after(1.5).record_commit()
    metrics, now_s = scenario.metrics, scenario.clock.now()
    assert metrics.commit_ms.average(now_s) == 1000
    assert metrics.commit_ms.maximum(now_s) == 1500
    assert (metrics.commits_total, metrics.commit_number) == (2, 2)
    assert shares(metrics.commit_results, now_s) == (0, 1)


def test_rejected_commit_is_a_failure_and_a_retry() -> None:
    scenario = Scenario(is_source=True)
    scenario.meter.record_commit_start()
    scenario.after(2).record_commit_failure()
    scenario.after(1).record_commit()
    metrics, now_s = scenario.metrics, scenario.clock.now()
    assert shares(metrics.commit_results, now_s) == (0.5, 0.5)
    assert metrics.commit_ms.maximum(now_s) == 1000, "only the successful attempt is measured"
    assert metrics.retries == 1
    assert metrics.last_error_ms == 1_700_000_102_000


def test_failure_during_a_commit_is_a_failed_commit() -> None:
    scenario = Scenario(is_source=False)
    scenario.meter.record_commit_start()
    scenario.meter.record_failure()
    assert shares(scenario.metrics.commit_results, 100) == (1, 0)
    assert math.isnan(scenario.metrics.commit_ms.average(100))


def test_failure_outside_a_commit_is_not_a_failed_commit() -> None:
    scenario = Scenario(is_source=False)
    scenario.after(5).record_failure()
    assert shares(scenario.metrics.commit_results, 105) == (0, 0)
    assert scenario.metrics.last_error_ms == 1_700_000_105_000
    assert scenario.metrics.retries == 0


def test_commit_end_without_a_start_is_ignored() -> None:
    scenario = Scenario(is_source=True)
    scenario.meter.record_commit()
    assert scenario.published_metrics == []


def test_late_commit_is_not_counted_as_a_commit() -> None:
    scenario = Scenario(is_source=False)
    scenario.meter.record_late_commit()
    assert scenario.metrics.late_commits_total == 1
    assert scenario.metrics.late_commits.rate(100) == pytest.approx(1 / 30)
    assert scenario.metrics.commits_total == 0


def test_published_samples_are_immutable() -> None:
    scenario = Scenario(is_source=True)
    scenario.meter.record_batch(records=1, duration_s=0, poll_s=0)
    earlier_records = scenario.metrics.records
    scenario.meter.record_batch(records=3, duration_s=0, poll_s=0)
    assert (earlier_records.average(100), scenario.metrics.records.average(100)) == (1, 2)
