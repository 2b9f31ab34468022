"""Samples of tasks' numbers, against values worked out by hand."""

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
BEGAN_MS = 1_700_000_000_000
"""A multiple of the step."""


@dataclass
class Watch:
    """A clock that a test sets."""

    seconds: float = 1002.5
    wall_shift_ms: int = 0

    def now(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return BEGAN_MS + round((self.seconds - 1000) * 1000) + self.wall_shift_ms


class Story:
    """A registry, its clock, and its samples."""

    def __init__(self, **limits: int) -> None:
        self.watch = Watch()
        self.metrics = MetricsRegistry(self.watch, Windows(), in_group=False)
        self.series = Series(self.metrics, **limits)

    def task(self, task: TaskId, *, is_source: bool = False) -> TaskMeter:
        """Have a task run here."""
        self.metrics.record_start(task)
        meter = TaskMeter(
            task, is_source=is_source, time=self.watch, windows=Windows(), publish=self.metrics.publish
        )
        meter.record_state(State.RUNNING)
        self.metrics.record_state(task, State.RUNNING, "1.0")
        return meter

    def step(self, steps: int = 1) -> None:
        """Let time pass until the next sample, or the one after more steps, and take it."""
        self.watch.seconds += steps * STEP_S
        self.series.sample()

    def column(self, column: str, task: TaskId = A0) -> list[float | None]:
        return list(self.series.of(task.connector).tasks[task.task][column])


def test_each_sample_has_the_rate_and_the_mean_times_of_its_five_seconds() -> None:
    story = Story()
    meter = story.task(A0, is_source=True)
    story.step()
    for write_s, commit_s in ((0.5, 0.25), (1.5, 0.25)):
        meter.record_batch(records=10, duration_s=write_s, poll_s=0.125)
        meter.record_commit_start()
        story.watch.seconds += commit_s
        meter.record_commit()
    story.watch.seconds -= 0.5
    story.step()
    story.step()
    meter.record_batch(records=1, duration_s=0.01, poll_s=0.003)
    story.step()
    assert story.column("records_per_second") == [0, 4, 0, 0.2]
    assert story.column("poll_ms") == [None, 125, None, 3]
    assert story.column("write_ms") == [None, 1000, None, 10]
    assert story.column("commit_ms") == [None, 250, None, None]
    assert story.column("backlog_records") == [None] * 4, "a source has none"


def test_the_backlog_is_that_at_the_end_while_the_task_runs() -> None:
    story = Story()
    meter = story.task(A0)
    story.step()
    story.metrics.has_backlog(A0, 120)
    story.step()
    meter.record_state(State.PAUSED)
    story.step()
    assert story.column("backlog_records") == [None, 120, None]


def test_a_task_that_starts_again_counts_from_zero() -> None:
    story = Story()
    story.task(A0).record_batch(records=50, duration_s=1, poll_s=0)
    story.step()
    again = story.task(A0)
    again.record_batch(records=5, duration_s=0.5, poll_s=0)
    story.step()
    assert story.column("records_per_second") == [10, 1]
    assert story.column("write_ms") == [1000, 500]


def test_the_times_of_samples_are_multiples_of_the_step() -> None:
    story = Story()
    story.task(A0)
    assert story.series.of(A).count == 0
    story.step()
    story.step()
    samples = story.series.of(A)
    assert (samples.start_ms, samples.count) == (BEGAN_MS, 2)
    story.watch.wall_shift_ms = -1200
    story.step()
    assert story.series.of(A).start_ms == BEGAN_MS, "a small correction of the clock moves nothing"
    story.watch.wall_shift_ms = -3_600_000
    story.step()
    assert story.series.of(A).start_ms == BEGAN_MS - 3_600_000, "the clock was set"


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
def test_samples_since_a_time(since_ms: int, start_ms: int, values: list[float]) -> None:
    story = Story()
    meter = story.task(A0)
    for records in (0, 5, 10):
        meter.record_batch(records=records, duration_s=0, poll_s=0)
        story.step()
    samples = story.series.of(A, BEGAN_MS + since_ms)
    assert (samples.start_ms, samples.count) == (BEGAN_MS + start_ms, len(values))
    assert samples.tasks[0]["records_per_second"] == values


def test_samples_expire_after_ten_minutes() -> None:
    story = Story()
    meter = story.task(A0)
    for number in range(SAMPLES + 30):
        meter.record_batch(records=5 * number, duration_s=0, poll_s=0)
        story.step()
    assert story.column("records_per_second") == list(range(30, SAMPLES + 30))
    assert story.series.of(A).start_ms == BEGAN_MS + 30 * STEP_MS


def test_missed_samples_are_gaps() -> None:
    story = Story()
    meter = story.task(A0)
    story.step()
    meter.record_batch(records=30, duration_s=0, poll_s=0)
    story.step(3)
    assert story.column("records_per_second") == [0, None, None, 2], "30 records in 15 s"
    story.step(1000)
    assert story.column("records_per_second") == [*[None] * (SAMPLES - 1), 0]


def test_sampling_waits_for_the_interval() -> None:
    story = Story()
    story.task(A0)
    assert story.series.due_in_s() == 2.5
    story.series.sample()
    assert story.series.of(A).count == 0
    story.watch.seconds += 2.5
    assert story.series.due_in_s() == 0
    story.series.sample()
    assert (story.series.of(A).count, story.series.due_in_s()) == (1, STEP_S)


def test_a_removed_task_disappears_when_its_last_sample_expires() -> None:
    story = Story()
    story.task(A0).record_batch(records=5, duration_s=0, poll_s=0)
    story.step()
    story.metrics.remove(A0)
    for number in range(1, SAMPLES):
        story.step()
        assert story.column("records_per_second") == [1, *[None] * number]
    story.step()
    assert story.series.of(A).tasks == {}
    assert story.series.bytes_used == 0


def test_a_connector_s_recent_rate_is_the_sum_of_its_tasks() -> None:
    story = Story()
    one, two = story.task(A0), story.task(A1)
    story.task(B0)
    story.step()
    one.record_batch(records=5, duration_s=0, poll_s=0)
    two.record_batch(records=10, duration_s=0, poll_s=0)
    story.step()
    story.metrics.remove(A1)
    story.step()
    assert story.series.recent() == {
        A: [*[None] * (RECENT - 3), 0, 3, 0],
        B: [*[None] * (RECENT - 3), 0, 0, 0],
    }
    for _ in range(RECENT):
        story.step()
    assert list(story.series.recent()[B]) == [0] * RECENT
    story.step(2)
    assert list(story.series.recent()[B]) == [*[0] * (RECENT - 2), None, 0]


def test_a_sum_ignores_gaps() -> None:
    assert add_values([1, None, 2, None], [0.5, 3, None, None]) == [1.5, 3, 2, None]


@pytest.mark.parametrize(
    ("later", "values"),
    [
        (-2, [3, 4, None, None]),
        (0, [1, 2, 3, 4]),
        (1, [None, 1, 2, 3]),
        (4, [None] * 4),
        (-4, [None] * 4),
        (10**9, [None] * 4),
    ],
)
def test_samples_of_several_workers_are_merged_at_the_same_times(
    later: int, values: list[float | None]
) -> None:
    def samples(start_ms: int, tasks: dict[int, list[float | None]]) -> Samples:
        columns = {task: dict.fromkeys(COLUMNS, value) for task, value in tasks.items()}
        return Samples(start_ms=start_ms, count=4, tasks=columns)

    local = samples(BEGAN_MS, {7: [10, None, None, 40]})
    other = samples(BEGAN_MS + later * STEP_MS, {7: [1, 2, 3, 4], 3: [1, 2, 3, 4]})
    merged = Samples.merge(local, [other])
    assert (merged.start_ms, merged.count, list(merged.tasks)) == (BEGAN_MS, 4, [3, 7])
    for column in COLUMNS:
        assert merged.tasks[3][column] == values
        assert merged.tasks[7][column] == [10, *values[1:3], 40], "the first known value counts"
    assert local.tasks[7]["poll_ms"] == [10, None, None, 40], "it is left as it is"


def test_a_continuous_run_reports_its_times() -> None:
    story = Story()
    meter = story.task(A0, is_source=True)
    story.step()
    meter.record_batch(records=10, duration_s=4, poll_s=0, continuous=True)
    meter.record_phases(poll=NO_PHASE.more(80, 2), write=NO_PHASE, commit=NO_PHASE.more(7, 1))
    meter.record_phases(poll=NO_PHASE.more(40, 2), write=NO_PHASE, commit=NO_PHASE)
    story.step()
    meter.record_phases(poll=NO_PHASE, write=NO_PHASE.more(5, 1), commit=NO_PHASE)
    story.step()
    assert story.column("poll_ms") == [None, 30, None]
    assert story.column("write_ms") == [None, None, 5]
    assert story.column("commit_ms") == [None, 7, None]


def test_listeners_receive_connectors_with_changed_metrics() -> None:
    story = Story()
    meter = story.task(A0)
    story.task(B0)
    story.step(RECENT + 2)
    heard: list[frozenset[ConnectorName]] = []
    end = story.series.listen(heard.append)
    for _ in range(RECENT + 1):
        story.step()
    heard.clear()
    story.step()
    assert heard == [], "nothing has changed"
    meter.record_batch(records=5, duration_s=0, poll_s=0)
    story.step()
    assert heard == [{A}]
    story.metrics.has_backlog(B0, 7)
    story.step()
    assert heard[1:] == [{A, B}], "the records are still among the recent ones"
    for _ in range(RECENT + 1):
        story.step()
    heard.clear()
    story.step()
    assert heard == []
    end()
    meter.record_batch(records=5, duration_s=0, poll_s=0)
    story.step()
    assert heard == []


def test_listeners_receive_stalls_and_recoveries() -> None:
    story = Story()
    story.task(A0)
    work = story.metrics.follow(A0)
    story.step()
    heard: list[frozenset[ConnectorName]] = []
    story.series.listen(heard.append)
    story.step(RECENT + 2)
    work(busy=True)
    story.step(int(story.metrics.stall_s / STEP_S))
    assert heard == []
    story.step()
    assert heard == [{A}]
    work(busy=False)
    story.step(RECENT + 2)
    assert heard == [{A}] * 2, "it goes on"
    story.step(RECENT + 2)
    assert len(heard) == 2


def test_the_samples_are_bounded_in_bytes(caplog: pytest.LogCaptureFixture) -> None:
    most = 200
    story = Story(max_bytes=most * TASK_BYTES)
    tasks = [TaskId(ConnectorName(f"c{number}"), 0) for number in range(most + 50)]
    meters = [story.task(task) for task in tasks]
    for meter in meters:
        meter.record_batch(records=1, duration_s=0, poll_s=0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(SAMPLES + 5):
            story.step()
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert most * TASK_BYTES / 2 < used < story.series.bytes_used + 20_000
    assert story.series.bytes_used == most * TASK_BYTES
    assert [len(story.series.of(task.connector).tasks) for task in tasks] == [1] * most + [0] * 50
    assert caplog.text.count("Keeping recent metrics for only 200 tasks") == 1


def test_a_sample_of_a_thousand_busy_tasks_takes_little_time() -> None:
    story = Story()
    meters = [story.task(TaskId(ConnectorName(f"c{number}"), 0)) for number in range(1000)]
    took_s = []
    for _ in range(10):
        for meter in meters:
            meter.record_batch(records=5, duration_s=0.1, poll_s=0)
            meter.record_commit_start()
            meter.record_commit()
        began_s = time.thread_time()
        story.step()
        took_s.append(time.thread_time() - began_s)
    assert min(took_s) < 0.05, "of the processor; it is three milliseconds on an idle machine"


def test_the_first_removed_tasks_are_evicted() -> None:
    story = Story(max_bytes=2 * TASK_BYTES)
    story.task(A0)
    story.task(A1)
    story.step()
    story.metrics.remove(A1)
    story.step()
    story.metrics.remove(A0)
    story.task(B0)
    story.step()
    assert (list(story.series.of(A).tasks), list(story.series.of(B).tasks)) == ([0], [0])


def test_the_thread_samples_and_survives_an_error() -> None:
    story = Story()
    sampled = threading.Event()

    class Broken(Series):
        """Fails the first time."""

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

    with Sampler(Broken(story.metrics), pause_s=0.0):
        assert sampled.wait(10)
