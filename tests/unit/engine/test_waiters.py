"""Threads that wait for records."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kraal.engine.waiters import Waiters

TIMEOUT_S = 10.0


def test_a_function_is_refused_while_all_threads_wait() -> None:
    waiters, release = Waiters(2), threading.Event()
    began, ended = threading.Semaphore(0), threading.Semaphore(0)

    def wait() -> None:
        began.release()
        release.wait(TIMEOUT_S)
        ended.release()

    assert waiters.take(wait)
    assert waiters.take(wait)
    assert began.acquire(timeout=TIMEOUT_S)
    assert began.acquire(timeout=TIMEOUT_S)
    assert not waiters.take(wait)
    release.set()
    assert ended.acquire(timeout=TIMEOUT_S)
    assert ended.acquire(timeout=TIMEOUT_S)
    waiters.close()


def test_a_task_that_waits_again_keeps_its_thread() -> None:
    waiters, threads, done = Waiters(1), list[int](), threading.Event()

    def again(left: int) -> Callable[[], None]:
        def wait() -> None:
            threads.append(threading.get_ident())
            if left:
                assert waiters.take(again(left - 1))
                assert not waiters.take(again(0)), "another one finds no thread"
            else:
                done.set()

        return wait

    assert waiters.take(again(3))
    assert done.wait(TIMEOUT_S)
    assert len(threads) == 4
    assert len(set(threads)) == 1
    waiters.close()


def test_an_error_is_logged_and_what_the_thread_took_before_it_is_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiters, done = Waiters(1), threading.Event()

    def fail() -> None:
        assert waiters.take(done.set)
        raise ValueError("broken")

    assert waiters.take(fail)
    assert done.wait(TIMEOUT_S)
    again = threading.Event()
    while not waiters.take(again.set):
        pass
    assert again.wait(TIMEOUT_S)
    waiters.close()
    assert "broken" in caplog.text


def test_closed_waiters_take_no_calls() -> None:
    waiters = Waiters(1)
    waiters.close()
    assert not waiters.take(lambda: pytest.fail("it ran"))
    assert not waiters.take(lambda: pytest.fail("it ran"))
