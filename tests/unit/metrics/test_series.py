"""Tests for samples of task metrics, with expected values computed by hand."""

from __future__ import annotations

import threading
import time
import tracemalloc
from dataclasses import dataclass

import pytest
from typing_extensions import override

from kraal.core.ids import ConnectorName, State, TaskId
from kraal.metrics.registry import MetricsRegistry
from kraal.metrics.series import (
    COLUMNS,
    RECENT,
    SAMPLES,
    STEP_MS,
    STEP_S,
    TASK_BYTES,
    Sampler,
    Samples,
    Series,
    add_values,
)
from kraal.metrics.task import NO_PHASE, TaskMeter
from kraal.metrics.windows import Windows

A, B = ConnectorName("a"), ConnectorName("b")
A0, A1, B0 = TaskId(A, 0), TaskId(A, 1), TaskId(B, 0)
START_MS = 1_700_000_000_000
"""Start time, a multiple of the sampling step."""


@dataclass
class FakeClock:
    """A clock set by a test."""

    seconds: float = 1002.5
    wall_shift_ms: int = 0

    def now(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return START_MS + round((self.seconds - 1000) * 1000) + self.wall_shift_ms


class Scenario:
    """A metrics registry with a fake clock and samples."""

    def __init__(self, **limits: int) -> None:
        self.clock = FakeClock()
        self.metrics = MetricsRegistry(self.clock, Windows(), in_group=False)
        self.series = Series(self.metrics, **limits)

    def start_task(self, task: TaskId, *, is_source: bool = False) -> TaskMeter:
        """Start a task; return its meter."""
        self.metrics.record_start(task)
        meter = TaskMeter(
            task, is_source=is_source, time=self.clock, windows=Windows(), publish=self.metrics.publish
        )
        meter.record_state(State.RUNNING)
        self.metrics.record_state(task, State.RUNNING, "1.0")
        return meter

    def step(self, steps: int = 1) -> None:
        """Advance the time by one or more steps, and take a sample."""
        self.clock.seconds += steps * STEP_S
        self.series.sample()

    def column(self, column: str, task: TaskId = A0) -> list[float | None]:
        return list(self.series.of(task.connector).tasks[task.task][column])


def test_sample_contains_rate_and_mean_durations_of_its_interval() -> None:
    scenario = Scenario()
    meter = scenario.start_task(A0, is_source=True)
    scenario.step()
    for write_s, commit_s in ((0.5, 0.25), (1.5, 0.25)):
        meter.record_batch(records=10, duration_s=write_s, poll_s=0.125)
        meter.record_commit_start()
        scenario.clock.seconds += commit_s
        meter.record_commit()
    scenario.clock.seconds -= 0.5
    scenario.step()
    scenario.step()
    meter.record_batch(records=1, duration_s=0.01, poll_s=0.003)
    scenario.step()
    assert scenario.column("records_per_second") == [0, 4, 0, 0.2]
    assert scenario.column("poll_ms") == [None, 125, None, 3]
    assert scenario.column("write_ms") == [None, 1000, None, 10]
    assert scenario.column("commit_ms") == [None, 250, None, None]
    assert scenario.column("backlog_records") == [None] * 4, "a source has no backlog"


def test_backlog_is_sampled_while_the_task_runs() -> None:
    scenario = Scenario()
    meter = scenario.start_task(A0)
    scenario.step()
    scenario.metrics.record_backlog(A0, 120)
    scenario.step()
    meter.record_state(State.PAUSED)
    scenario.step()
    assert scenario.column("backlog_records") == [None, 120, None]


def test_restarted_task_counts_from_zero() -> None:
    scenario = Scenario()
    scenario.start_task(A0).record_batch(records=50, duration_s=1, poll_s=0)
    scenario.step()
    restarted_meter = scenario.start_task(A0)
    restarted_meter.record_batch(records=5, duration_s=0.5, poll_s=0)
    scenario.step()
    assert scenario.column("records_per_second") == [10, 1]
    assert scenario.column("write_ms") == [1000, 500]


def test_sample_times_are_multiples_of_the_step() -> None:
    scenario = Scenario()
    scenario.start_task(A0)
    assert scenario.series.of(A).count == 0
    scenario.step()
    scenario.step()
    samples = scenario.series.of(A)
    assert (samples.start_ms, samples.count) == (START_MS, 2)
    scenario.clock.wall_shift_ms = -1200
    scenario.step()
    assert scenario.series.of(A).start_ms == START_MS, "a small correction of the clock is ignored"
    scenario.clock.wall_shift_ms = -3_600_000
    scenario.step()
    assert scenario.series.of(A).start_ms == START_MS - 3_600_000, "the clock was set"


@pytest.mark.parametrize(
    ("since_ms", "start_ms", "values"),
    [
        (0, 0, [0, 1, 2]),
        (1, 5000, [1, 2]),
        (5000, 5000, [1, 2]),
        (14_999, 15_000, []),
        (15_000, 15_000, []),
        (10**15, 15_000, []),
    ],
)
def test_samples_are_filtered_by_time(since_ms: int, start_ms: int, values: list[float]) -> None:
    scenario = Scenario()
    meter = scenario.start_task(A0)
    for records in (0, 5, 10):
        meter.record_batch(records=records, duration_s=0, poll_s=0)
        scenario.step()
    samples = scenario.series.of(A, START_MS + since_ms)
    assert (samples.start_ms, samples.count) == (START_MS + start_ms, len(values))
    assert samples.tasks[0]["records_per_second"] == values


def test_samples_expire_after_ten_minutes() -> None:
    scenario = Scenario()
    meter = scenario.start_task(A0)
    for number in range(SAMPLES + 30):
        meter.record_batch(records=5 * number, duration_s=0, poll_s=0)
        scenario.step()
    assert scenario.column("records_per_second") == list(range(30, SAMPLES + 30))
    assert scenario.series.of(A).start_ms == START_MS + 30 * STEP_MS


def test_missed_samples_are_gaps() -> None:
    scenario = Scenario()
    meter = scenario.start_task(A0)
    scenario.step()
    meter.record_batch(records=30, duration_s=0, poll_s=0)
    scenario.step(3)
    assert scenario.column("records_per_second") == [0, None, None, 2], "the rate is 30 records in 15 s"
    scenario.step(1000)
    assert scenario.column("records_per_second") == [*[None] * (SAMPLES - 1), 0]


def test_sampling_waits_for_the_interval() -> None:
    scenario = Scenario()
    scenario.start_task(A0)
    assert scenario.series.due_in_s() == 2.5
    scenario.series.sample()
    assert scenario.series.of(A).count == 0
    scenario.clock.seconds += 2.5
    assert scenario.series.due_in_s() == 0
    scenario.series.sample()
    assert (scenario.series.of(A).count, scenario.series.due_in_s()) == (1, STEP_S)


def test_removed_task_is_dropped_when_its_last_sample_expires() -> None:
    scenario = Scenario()
    scenario.start_task(A0).record_batch(records=5, duration_s=0, poll_s=0)
    scenario.step()
    scenario.metrics.remove(A0)
    for number in range(1, SAMPLES):
        scenario.step()
        assert scenario.column("records_per_second") == [1, *[None] * number]
    scenario.step()
    assert scenario.series.of(A).tasks == {}
    assert scenario.series.bytes_used == 0


def test_recent_rate_of_a_connector_is_the_sum_of_its_tasks() -> None:
    scenario = Scenario()
    first_meter, second_meter = scenario.start_task(A0), scenario.start_task(A1)
    scenario.start_task(B0)
    scenario.step()
    first_meter.record_batch(records=5, duration_s=0, poll_s=0)
    second_meter.record_batch(records=10, duration_s=0, poll_s=0)
    scenario.step()
    scenario.metrics.remove(A1)
    scenario.step()
    assert scenario.series.recent() == {
        A: [*[None] * (RECENT - 3), 0, 3, 0],
        B: [*[None] * (RECENT - 3), 0, 0, 0],
    }
    for _ in range(RECENT):
        scenario.step()
    assert list(scenario.series.recent()[B]) == [0] * RECENT
    scenario.step(2)
    assert list(scenario.series.recent()[B]) == [*[0] * (RECENT - 2), None, 0]


def test_sum_ignores_gaps() -> None:
    assert add_values([1, None, 2, None], [0.5, 3, None, None]) == [1.5, 3, 2, None]


@pytest.mark.parametrize(
    ("later_steps", "values"),
    [
        (-2, [3, 4, None, None]),
        (0, [1, 2, 3, 4]),
        (1, [None, 1, 2, 3]),
        (4, [None] * 4),
        (-4, [None] * 4),
        (10**9, [None] * 4),
    ],
)
def test_samples_of_several_workers_are_merged_by_time(later_steps: int, values: list[float | None]) -> None:
    def samples(start_ms: int, tasks: dict[int, list[float | None]]) -> Samples:
        columns = {task: dict.fromkeys(COLUMNS, value) for task, value in tasks.items()}
        return Samples(start_ms=start_ms, count=4, tasks=columns)

    local_samples = samples(START_MS, {7: [10, None, None, 40]})
    other_samples = samples(START_MS + later_steps * STEP_MS, {7: [1, 2, 3, 4], 3: [1, 2, 3, 4]})
    merged_samples = Samples.merge(local_samples, [other_samples])
    assert (merged_samples.start_ms, merged_samples.count, list(merged_samples.tasks)) == (
        START_MS,
        4,
        [3, 7],
    )
    for column in COLUMNS:
        assert merged_samples.tasks[3][column] == values
        assert merged_samples.tasks[7][column] == [10, *values[1:3], 40], "the first reported value is used"
    assert local_samples.tasks[7]["poll_ms"] == [10, None, None, 40], "the earlier sample is unchanged"


def test_continuous_run_reports_its_phases() -> None:
    scenario = Scenario()
    meter = scenario.start_task(A0, is_source=True)
    scenario.step()
    meter.record_batch(records=10, duration_s=4, poll_s=0, continuous=True)
    meter.record_phases(
        poll=NO_PHASE.add_occurrences(80, 2), write=NO_PHASE, commit=NO_PHASE.add_occurrences(7, 1)
    )
    meter.record_phases(poll=NO_PHASE.add_occurrences(40, 2), write=NO_PHASE, commit=NO_PHASE)
    scenario.step()
    meter.record_phases(poll=NO_PHASE, write=NO_PHASE.add_occurrences(5, 1), commit=NO_PHASE)
    scenario.step()
    assert scenario.column("poll_ms") == [None, 30, None]
    assert scenario.column("write_ms") == [None, None, 5]
    assert scenario.column("commit_ms") == [None, 7, None]


def test_listeners_receive_connectors_with_changed_metrics() -> None:
    scenario = Scenario()
    meter = scenario.start_task(A0)
    scenario.start_task(B0)
    scenario.step(RECENT + 2)
    notifications: list[frozenset[ConnectorName]] = []
    stop_listening = scenario.series.listen(notifications.append)
    for _ in range(RECENT + 1):
        scenario.step()
    notifications.clear()
    scenario.step()
    assert notifications == [], "no value has changed"
    meter.record_batch(records=5, duration_s=0, poll_s=0)
    scenario.step()
    assert notifications == [{A}]
    scenario.metrics.record_backlog(B0, 7)
    scenario.step()
    assert notifications[1:] == [{A, B}], "the records are still in the recent window"
    for _ in range(RECENT + 1):
        scenario.step()
    notifications.clear()
    scenario.step()
    assert notifications == []
    stop_listening()
    meter.record_batch(records=5, duration_s=0, poll_s=0)
    scenario.step()
    assert notifications == []


def test_listeners_receive_stalls_and_recoveries() -> None:
    scenario = Scenario()
    scenario.start_task(A0)
    work = scenario.metrics.track(A0)
    scenario.step()
    notifications: list[frozenset[ConnectorName]] = []
    scenario.series.listen(notifications.append)
    scenario.step(RECENT + 2)
    work(busy=True)
    scenario.step(int(scenario.metrics.stall_timeout_s / STEP_S))
    assert notifications == []
    scenario.step()
    assert notifications == [{A}]
    work(busy=False)
    scenario.step(RECENT + 2)
    assert notifications == [{A}] * 2, "sampling continues"
    scenario.step(RECENT + 2)
    assert len(notifications) == 2


def test_samples_are_limited_in_bytes(caplog: pytest.LogCaptureFixture) -> None:
    max_tasks = 200
    scenario = Scenario(max_bytes=max_tasks * TASK_BYTES)
    tasks = [TaskId(ConnectorName(f"c{number}"), 0) for number in range(max_tasks + 50)]
    meters = [scenario.start_task(task) for task in tasks]
    for meter in meters:
        meter.record_batch(records=1, duration_s=0, poll_s=0)
    tracemalloc.start()
    try:
        bytes_before, _ = tracemalloc.get_traced_memory()
        for _ in range(SAMPLES + 5):
            scenario.step()
        bytes_used = tracemalloc.get_traced_memory()[0] - bytes_before
    finally:
        tracemalloc.stop()
    assert max_tasks * TASK_BYTES / 2 < bytes_used < scenario.series.bytes_used + 20_000
    assert scenario.series.bytes_used == max_tasks * TASK_BYTES
    assert [len(scenario.series.of(task.connector).tasks) for task in tasks] == [1] * max_tasks + [0] * 50
    assert caplog.text.count("Keeping recent metrics for only 200 tasks") == 1


def test_sampling_a_thousand_busy_tasks_is_fast() -> None:
    scenario = Scenario()
    meters = [scenario.start_task(TaskId(ConnectorName(f"c{number}"), 0)) for number in range(1000)]
    durations_s = []
    for _ in range(10):
        for meter in meters:
            meter.record_batch(records=5, duration_s=0.1, poll_s=0)
            meter.record_commit_start()
            meter.record_commit()
        began_s = time.thread_time()
        scenario.step()
        durations_s.append(time.thread_time() - began_s)
    assert min(durations_s) < 0.05, "the CPU time on an idle machine is about 3 ms"


def test_earliest_removed_tasks_are_evicted() -> None:
    scenario = Scenario(max_bytes=2 * TASK_BYTES)
    scenario.start_task(A0)
    scenario.start_task(A1)
    scenario.step()
    scenario.metrics.remove(A1)
    scenario.step()
    scenario.metrics.remove(A0)
    scenario.start_task(B0)
    scenario.step()
    assert (list(scenario.series.of(A).tasks), list(scenario.series.of(B).tasks)) == ([0], [0])


def test_sampler_thread_survives_an_error() -> None:
    scenario = Scenario()
    sampled = threading.Event()

    class BrokenSeries(Series):
        """A series whose first sample fails."""

        calls = 0

        @override
        def due_in_s(self) -> float:
            return 0.0

        @override
        def sample(self) -> None:
            self.calls += 1
            if self.calls == 1:
                raise RuntimeError
            sampled.set()

    with Sampler(BrokenSeries(scenario.metrics), pause_s=0.0):
        assert sampled.wait(10)
