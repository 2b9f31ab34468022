"""Tests for the timer thread, which makes periodic calls at common times even while one of the calls hangs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from kraal.core.logging import log_subject
from kraal.engine import timer as module
from kraal.engine.timer import TimerThread

WAIT_S = 30.0


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> Iterator[TimerThread]:
    monkeypatch.setattr(module, "STUCK_TIMEOUT_S", 0.01)
    thread = TimerThread("timers")
    yield thread
    thread.close(5.0)


def test_call_that_returns_true_is_repeated_with_its_subject(timer: TimerThread) -> None:
    subjects: queue.SimpleQueue[str] = queue.SimpleQueue()
    ended = threading.Event()

    def repeat() -> bool:
        subjects.put(log_subject.get())
        if subjects.qsize() < 4:
            return True
        timer.call_later(0.1, ended.set)
        return False

    token = log_subject.set("task-0")
    timer.call_at_interval(0.02, repeat)
    log_subject.reset(token)
    assert ended.wait(WAIT_S)
    assert [subjects.get_nowait() for _ in range(subjects.qsize())] == ["task-0"] * 4


def test_skipped_call_is_due_again_after_its_interval(timer: TimerThread) -> None:
    skips = iter([True, True, False])
    called = threading.Event()

    def call() -> bool:
        called.set()
        return False

    timer.call_at_interval(0.02, call, can_skip=lambda: next(skips))
    assert called.wait(WAIT_S)
    assert list(skips) == []


def test_stuck_call_does_not_block_calls_due_at_the_same_time(timer: TimerThread) -> None:
    calls: queue.SimpleQueue[int] = queue.SimpleQueue()
    release = threading.Event()

    def call(number: int) -> bool:
        if number == 1:
            release.wait()
        calls.put(number)
        return False

    for number in range(4):
        timer.call_at_interval(0.2, lambda number=number: call(number))  # type: ignore[misc]
    assert [calls.get(timeout=WAIT_S) for _ in range(3)] == [0, 2, 3]
    release.set()
    assert calls.get(timeout=WAIT_S) == 1


def test_failed_call_is_not_repeated_and_does_not_affect_other_calls(timer: TimerThread) -> None:
    failed_calls, successful_calls = threading.Semaphore(0), threading.Semaphore(0)

    def fail() -> bool:
        failed_calls.release()
        raise SystemExit

    def succeed() -> bool:
        successful_calls.release()
        return True

    timer.call_at_interval(0.02, fail)
    timer.call_at_interval(0.02, succeed)
    for _ in range(5):
        assert successful_calls.acquire(timeout=WAIT_S)
    assert failed_calls.acquire(timeout=WAIT_S)
    assert not failed_calls.acquire(blocking=False)
