"""Tests for the poll timer of a run."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kraal.engine.run_host import PollTimer
from kraal.engine.thread_pool import WORKER_OWNER


class Harness:
    """A poll timer whose scheduled calls are made by tests, and the numbers of the polls."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []
        self.poll_numbers: list[int] = []
        poller = SimpleNamespace(
            call_soon=lambda function, _: self.calls.append(function),
            call_at_interval=lambda _, function, __: self.calls.append(function),
            call_later=lambda _, function, __: self.calls.append(function),
        )
        host: Any = SimpleNamespace(poller=poller, waiters=None)
        self.timer = PollTimer(host, WORKER_OWNER, self._poll)

    def _poll(self, number: int, *, wait: bool = False) -> bool:
        assert not wait
        self.poll_numbers.append(number)
        return True


def test_timer_polls_only_at_the_latest_time() -> None:
    harness = Harness()
    harness.timer.set(0.0)
    harness.timer.set(0.1, together=True)
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
    harness.timer.set(0.1, together=True)
    harness.timer.cancel()
    assert harness.calls[0]() is False
    assert harness.poll_numbers == []
