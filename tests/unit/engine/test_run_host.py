"""A run's poll timer: one time at a time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kraal.engine.run_host import PollTimer
from kraal.engine.thread_pool import NOBODY


class Bench:
    """A timer whose calls a test makes, and the numbers with which it polls."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []
        self.polled: list[int] = []
        poller = SimpleNamespace(
            call_soon=lambda function, _: self.calls.append(function),
            at_next=lambda _, function, __: self.calls.append(function),
            after=lambda _, function, __: self.calls.append(function),
        )
        host: Any = SimpleNamespace(poller=poller, waiters=None)
        self.timer = PollTimer(host, NOBODY, self._poll)

    def _poll(self, number: int, *, wait: bool = False) -> bool:
        assert not wait
        self.polled.append(number)
        return True


def test_only_the_latest_time_polls() -> None:
    bench = Bench()
    bench.timer.set(0.0)
    bench.timer.set(0.1, together=True)
    bench.timer.set(60.0)
    assert [call() for call in bench.calls] == [False, False, True]
    assert len(bench.polled) == 1
    assert bench.timer.is_current(bench.polled[0])


def test_a_poll_that_is_under_way_when_its_time_is_replaced_learns_that_it_is_not_current() -> None:
    bench = Bench()
    bench.timer.set(0.0)
    bench.calls[0]()
    bench.timer.set(0.0)
    assert not bench.timer.is_current(bench.polled[0])


def test_cancelled_timer_does_not_poll() -> None:
    bench = Bench()
    bench.timer.set(0.1, together=True)
    bench.timer.cancel()
    assert bench.calls[0]() is False
    assert bench.polled == []
