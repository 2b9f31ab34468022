"""Tests for threads that wait for records."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kraal.engine.waiters import Waiters

TIMEOUT_S = 10.0


def test_function_is_rejected_while_all_threads_are_busy() -> None:
    waiters, release = Waiters(2), threading.Event()
    started_calls, ended_calls = threading.Semaphore(0), threading.Semaphore(0)

    def wait() -> None:
        started_calls.release()
        release.wait(TIMEOUT_S)
        ended_calls.release()

    assert waiters.try_submit(wait)
    assert waiters.try_submit(wait)
    assert started_calls.acquire(timeout=TIMEOUT_S)
    assert started_calls.acquire(timeout=TIMEOUT_S)
    assert not waiters.try_submit(wait)
    release.set()
    assert ended_calls.acquire(timeout=TIMEOUT_S)
    assert ended_calls.acquire(timeout=TIMEOUT_S)
    waiters.close()


def test_waiting_function_that_submits_another_keeps_its_thread() -> None:
    waiters, threads, done = Waiters(1), list[int](), threading.Event()

    def submit_chain(remaining: int) -> Callable[[], None]:
        def wait() -> None:
            threads.append(threading.get_ident())
            if remaining:
                assert waiters.try_submit(submit_chain(remaining - 1))
                assert not waiters.try_submit(submit_chain(0)), "there is no thread for another wait"
            else:
                done.set()

        return wait

    assert waiters.try_submit(submit_chain(3))
    assert done.wait(TIMEOUT_S)
    assert len(threads) == 4
    assert len(set(threads)) == 1
    waiters.close()


def test_error_is_logged_and_the_next_function_still_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiters, done = Waiters(1), threading.Event()

    def fail() -> None:
        assert waiters.try_submit(done.set)
        raise ValueError("broken")

    assert waiters.try_submit(fail)
    assert done.wait(TIMEOUT_S)
    ran = threading.Event()
    while not waiters.try_submit(ran.set):
        pass
    assert ran.wait(TIMEOUT_S)
    waiters.close()
    assert "broken" in caplog.text


def test_closed_waiters_reject_functions() -> None:
    waiters = Waiters(1)
    waiters.close()
    assert not waiters.try_submit(lambda: pytest.fail("it ran"))
    assert not waiters.try_submit(lambda: pytest.fail("it ran"))
