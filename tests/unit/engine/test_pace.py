"""Tests for the intervals and pauses between polls of a task."""

from __future__ import annotations

import pytest

from kraal.engine.pace import (
    BUSY_PERIOD_S,
    BUSY_POLL_S,
    MAX_IDLE_POLLS_PER_S,
    MAX_IGNORED_PAIRS,
    STEPS_S,
    IdleInterval,
    Pace,
    PausePolicy,
    pause_s,
    stretch_interval,
)


@pytest.mark.parametrize(
    ("rate", "limit_s", "expected_s"),
    [
        (0, 0.025, 0.0),
        (9, 0.025, 0.0),
        (10, 0.025, 0.01),
        (24, 0.025, 0.01),
        (25, 0.025, 0.025),
        (5000, 0.025, 0.025),
        (300, 0.5, 0.25),
        (5000, 0.5, 0.5),
        (5000, 0.03, 0.03),
        (5000, 0.0, 0.0),
        (5, 0.003, 0.003),
        (5000, 60.0, 1.0),
    ],
)
def test_pause_grows_with_the_rate_of_small_batches_up_to_the_limit(
    rate: float, limit_s: float, expected_s: float
) -> None:
    assert pause_s(rate, limit_s) == expected_s


def test_pauses_of_at_least_50_ms_are_multiples_of_50_ms() -> None:
    steps_ms = [round(step * 1000) for step in STEPS_S[2:]]
    assert all(step_ms % 50 == 0 for step_ms in steps_ms)


class Harness:
    """A pace with a manual clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.pace = Pace(lambda: self.now_s)

    def count_batches(self, rate: float, seconds: float) -> None:
        for _ in range(int(rate * seconds)):
            self.now_s += 1 / rate
            self.pace.count_batch()


def test_rate_decays_within_seconds() -> None:
    harness = Harness()
    assert harness.pace.pause_s(1.0) == 0.0
    harness.count_batches(200, 5)
    assert harness.pace.pause_s(1.0) == 0.1
    harness.now_s += 10
    assert harness.pace.pause_s(1.0) == 0.0


def test_task_with_its_own_interval_does_not_count_as_idle() -> None:
    harness = Harness()
    configured, shared = IdleInterval(harness.pace, 0.02, 0.05), IdleInterval(harness.pace, None, 0.05)
    for _ in range(2 * MAX_IDLE_POLLS_PER_S):
        configured.set_polling(is_polling=True)
        shared.set_polling(is_polling=True)
    assert (configured.seconds, shared.seconds) == (0.02, 0.05), "a reopened task counts once"
    for _ in range(2 * MAX_IDLE_POLLS_PER_S - 1):
        IdleInterval(harness.pace, None, 0.05).set_polling(is_polling=True)
    assert (configured.seconds, shared.seconds) == (0.02, 2.0)
    shared.set_polling(is_polling=False)
    shared.set_polling(is_polling=False)
    assert shared.seconds == (2 * MAX_IDLE_POLLS_PER_S - 1) / MAX_IDLE_POLLS_PER_S


def test_transaction_has_a_higher_weight_than_a_batch() -> None:
    harness = Harness()
    harness.count_batches(200, 5)
    before_s = harness.pace.pause_s(60.0)
    harness.now_s += 100
    for _ in range(1000):
        harness.now_s += 1 / 200
        harness.pace.count_batch(transaction=True)
    assert (before_s, harness.pace.pause_s(60.0)) == (0.1, 0.25)


def test_recent_batch_shortens_the_poll_interval() -> None:
    harness, idle_s = Harness(), 0.05
    assert harness.pace.interval_s(idle_s, harness.now_s - 2 * BUSY_PERIOD_S, 0.025) == idle_s
    assert harness.pace.interval_s(idle_s, harness.now_s, 0.025) == BUSY_POLL_S
    assert harness.pace.interval_s(0.005, harness.now_s, 0.025) == 0.005
    harness.count_batches(1000, 3)
    assert harness.pace.interval_s(idle_s, harness.now_s, 0.025) == 0.025
    assert harness.pace.interval_s(idle_s, harness.now_s, 0.5) == idle_s


@pytest.mark.parametrize(
    ("task_count", "expected_s"),
    [(0, 0.05), (50, 0.05), (51, 0.1), (250, 0.25), (1000, 1.0), (10 * MAX_IDLE_POLLS_PER_S, 10.0)],
)
def test_many_idle_tasks_stretch_the_poll_interval(task_count: int, expected_s: float) -> None:
    assert stretch_interval(0.05, task_count) == expected_s


def test_only_open_tasks_count_as_idle() -> None:
    harness = Harness()
    for _ in range(1000):
        harness.pace.add_task()
    assert harness.pace.idle_s(0.05) == 1.0
    for _ in range(950):
        harness.pace.remove_task()
    assert harness.pace.idle_s(0.05) == 0.05


@pytest.mark.parametrize(
    "polls",
    [
        [(1, True)],
        [(1, True), (3, True)],
        [(1, True), (None, False), (1, True)],
        [(1, True), (1, True), (2, True)],
        [(0, True), (0, True)],
    ],
)
def test_source_pauses_after_small_batches_of_different_sizes(polls: list[tuple[int | None, bool]]) -> None:
    assert _record_polls(polls).should_pause


@pytest.mark.parametrize(
    "polls",
    [
        [],
        [(3, True), (3, True)],
        [(1, True), (1, True), (1, True)],
        [(5000, False)],
        [(1, True), (None, False)],
    ],
)
def test_source_does_not_pause_after_equal_empty_or_large_batches(
    polls: list[tuple[int | None, bool]],
) -> None:
    assert not _record_polls(polls).should_pause


def _record_polls(polls: list[tuple[int | None, bool]]) -> PausePolicy:
    policy = PausePolicy()
    for row_count, is_small in polls:
        policy.record_poll(row_count, is_small=is_small)
    return policy


def test_failed_probes_make_further_probes_rare() -> None:
    policy = PausePolicy()
    probes = 0
    for _ in range(1000):
        policy.record_poll(5, is_small=True)
        if not policy.should_pause:
            probes += 1
            policy.record_poll(None)
    assert probes == 1000 // (MAX_IGNORED_PAIRS + 2) + 3


def test_source_with_fixed_batch_size_is_polled_without_pauses() -> None:
    policy = PausePolicy()
    policy.record_poll(100, is_small=True)
    for _ in range(50):
        policy.record_poll(100, is_small=True)
        assert not policy.should_pause
    policy.record_poll(37, is_small=True)
    assert policy.should_pause
