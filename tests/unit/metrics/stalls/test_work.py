"""Tests for the steps of tasks and the growth of backlogs."""

from __future__ import annotations

from kraal.metrics.stalls.work import Backlog, Step, Work, next_backlog, next_exact_backlog


class FakeClock:
    """A clock set by the test."""

    at_s = 0.0

    def now(self) -> float:
        return self.at_s

    def wall_ms(self) -> int:
        return 0


def test_retried_step_keeps_its_start_and_reports_its_latest_failure() -> None:
    clock = FakeClock()
    work = Work(clock)

    def step() -> Step | None:
        return work.step

    work(busy=True, step="poll")
    clock.at_s = 5.0
    work(busy=True, step="batch")
    work(busy=True, failure="a")
    work(busy=True, failure="b")
    work(busy=True)
    assert step() == Step("batch", 0.0, "b")
    work(busy=False)
    assert step() is None
    work(busy=True)
    assert step() == Step("", 5.0)


def test_progress_resets_the_start_of_the_step() -> None:
    clock = FakeClock()
    work = Work(clock)
    work(busy=True, progress=True)
    assert work.step is None
    work(busy=True, step="batch")
    work(busy=True, failure="a")
    clock.at_s = 5.0
    work(busy=True, progress=True)
    assert work.step == Step("batch", 5.0)


def test_backlog_grows_only_while_no_record_is_read() -> None:
    first_backlog = next_backlog(None, 10, 3, 1.0)
    assert first_backlog == Backlog(10, 3, 10)
    assert next_backlog(first_backlog, 10, 3, 2.0) == first_backlog
    growing_backlog = next_backlog(first_backlog, 12, 3, 2.0)
    assert (growing_backlog, growing_backlog.growth) == (Backlog(12, 3, 10, 2.0), 2)
    assert next_backlog(growing_backlog, 15, 3, 9.0) == Backlog(15, 3, 10, 2.0)
    assert next_backlog(growing_backlog, 15, 4, 9.0) == Backlog(15, 4, 15), "the task has read records"
    assert next_backlog(growing_backlog, 4, 3, 9.0) == Backlog(4, 3, 4), (
        "the offsets of the task were altered"
    )


def test_unchanged_exact_backlog_is_treated_as_growing() -> None:
    first_backlog = next_exact_backlog(None, 2, 3, 1.0, 0)
    assert (first_backlog, first_backlog.growth) == (Backlog(2, 3, 0, 1.0, is_exact=True), 2)
    assert next_exact_backlog(first_backlog, 2, 3, 5.0, 1) == Backlog(
        2, 3, 0, 1.0, is_exact=True, paused_partitions=1
    )
    assert next_exact_backlog(first_backlog, 9, 3, 5.0, 0).grows_since_s == 1.0
    assert next_exact_backlog(first_backlog, 1, 3, 5.0, 0).grows_since_s == 5.0, (
        "the task has skipped an aborted transaction"
    )
    assert next_exact_backlog(first_backlog, 2, 4, 5.0, 0).grows_since_s == 5.0, "the task has read records"
    empty_backlog = next_exact_backlog(first_backlog, 0, 3, 5.0, 0)
    assert empty_backlog.grows_since_s is None
    assert next_exact_backlog(empty_backlog, 2, 3, 9.0, 0).grows_since_s == 9.0
