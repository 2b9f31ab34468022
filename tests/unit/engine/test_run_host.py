"""Tests for the poll timer of a run."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kraal.engine.executor import NoExecutor
from kraal.engine.run_host import PollTimer
from kraal.engine.thread_pool import WORKER_OWNER, Owner


class Harness:
    """A poll timer whose scheduled calls are made by tests, and the numbers of the polls."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []
        self.poll_numbers: list[int] = []
        self.can_skip: Callable[[], bool] | None = None
        poller = SimpleNamespace(
            call_soon=lambda function, _: self.calls.append(function),
            call_at_interval=self._call_at_interval,
            call_later=lambda _, function, __: self.calls.append(function),
        )
        self.has_free_waiter = True
        self.waits: list[Callable[[], object]] = []
        waiters = SimpleNamespace(try_submit=self._try_submit)
        host: Any = SimpleNamespace(poller=poller, waiters=waiters)
        self.timer = PollTimer(host, WORKER_OWNER, self._poll)

    def _call_at_interval(
        self,
        interval_s: float,
        function: Callable[[], object],
        owner: Owner,
        *,
        can_skip: Callable[[], bool] | None,
    ) -> None:
        assert (interval_s <= 1.0, owner) == (True, WORKER_OWNER)
        self.calls.append(function)
        self.can_skip = can_skip

    def _try_submit(self, function: Callable[[], object]) -> bool:
        if self.has_free_waiter:
            self.waits.append(function)
        return self.has_free_waiter

    def _poll(self, number: int, *, wait: bool = False) -> bool:
        assert wait is (self.waits != [])
        self.poll_numbers.append(number)
        return True


class Executor(NoExecutor):
    """An executor that is always idle."""

    poll_interval_s = 0.1
    can_skip_poll = staticmethod(lambda: True)


class WaitingExecutor(NoExecutor):
    """An executor that waits for records."""

    can_wait = True


def test_timer_polls_only_at_the_latest_time() -> None:
    harness = Harness()
    harness.timer.set(0.0)
    harness.timer.set_next(NoExecutor(), soon=False)
    harness.timer.set(60.0)
    assert [call() for call in harness.calls] == [False, False, True]
    assert len(harness.poll_numbers) == 1
    assert harness.timer.is_current(harness.poll_numbers[0])


def test_replacing_the_time_during_a_poll_makes_the_poll_stale() -> None:
    harness = Harness()
    harness.timer.set(0.0)
    harness.calls[0]()
    harness.timer.set(0.0)
    assert not harness.timer.is_current(harness.poll_numbers[0])


def test_cancelled_timer_does_not_poll() -> None:
    harness = Harness()
    harness.timer.set_next(NoExecutor(), soon=False)
    harness.timer.cancel()
    assert harness.calls[0]() is False
    assert harness.poll_numbers == []


def test_polls_of_an_idle_executor_are_skipped_until_another_time_is_set() -> None:
    harness = Harness()
    harness.timer.set_next(Executor(), soon=False)
    assert harness.can_skip is not None
    assert harness.can_skip()
    can_skip = harness.can_skip
    harness.timer.set(0.0)
    assert not can_skip()


@pytest.mark.parametrize("soon", [False, True])
def test_executor_that_can_wait_does_not_queue_on_the_timer_thread(*, soon: bool) -> None:
    harness = Harness()
    harness.timer.set_next(WaitingExecutor(), soon=soon)
    [wait] = harness.waits
    wait()
    assert (len(harness.poll_numbers), harness.calls) == (1, [])


def test_timer_thread_polls_if_no_thread_is_free_to_wait() -> None:
    harness = Harness()
    harness.has_free_waiter = False
    harness.timer.set_next(WaitingExecutor(), soon=True)
    [call] = harness.calls
    assert call() is True


def test_pause_precedes_a_wait() -> None:
    harness = Harness()
    executor = WaitingExecutor()
    executor.pause_s = 0.1
    harness.timer.set_next(executor, soon=True)
    assert (len(harness.calls), harness.waits) == (1, [])
