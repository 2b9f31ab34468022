"""Tests for the minimum time between two batches of a sink."""

from __future__ import annotations

import pytest

from kraal.engine.sink.pacing import MAX_CHECK_INTERVAL_S, BatchPacing


class Clock:
    """A clock that tests advance."""

    now_s = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def test_first_batch_starts_at_once() -> None:
    pacing = BatchPacing(60, Clock())
    assert pacing.is_due
    assert pacing.may_start(is_full=False)
    assert pacing.stretch(0.025) == 0.025


def test_next_batch_starts_after_the_interval() -> None:
    clock = Clock()
    pacing = BatchPacing(2, clock)
    pacing.record_start()
    clock.now_s += 1.9
    assert (pacing.is_due, pacing.may_start(is_full=False)) == (False, False)
    clock.now_s += 0.1
    assert (pacing.is_due, pacing.may_start(is_full=False)) == (True, True)


def test_full_batch_starts_early() -> None:
    clock = Clock()
    pacing = BatchPacing(2, clock)
    pacing.record_start()
    checks = [pacing.may_be_full]  # the backlog was just read
    clock.now_s += 0.5
    checks.append(pacing.may_be_full)
    assert not pacing.may_start(is_full=False)
    checks.append(pacing.may_be_full)  # the next comparison is due later
    assert checks == [False, True, False]
    assert pacing.may_start(is_full=True)
    assert pacing.is_due, "until the batch starts"


def test_backlog_is_compared_at_once_after_a_full_batch() -> None:
    pacing = BatchPacing(60, Clock())
    pacing.record_start(has_more=True)
    assert pacing.may_be_full
    assert not pacing.is_due
    assert pacing.stretch(0.025) == 0.025


def test_polls_become_rare_while_no_batch_may_start() -> None:
    clock = Clock()
    pacing = BatchPacing(60, clock)
    pacing.record_start()
    assert pacing.stretch(0.025) == MAX_CHECK_INTERVAL_S
    clock.now_s += 14.9
    assert pacing.stretch(0.025) == pytest.approx(0.1)
    clock.now_s += 60
    assert pacing.stretch(0.025) == 0.025


def test_interval_of_zero_has_no_effect() -> None:
    pacing = BatchPacing(0.0, Clock())
    pacing.record_start()
    assert pacing.is_due
    assert pacing.stretch(1.0) == 1.0
