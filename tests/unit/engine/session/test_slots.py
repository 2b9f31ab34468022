"""Tests for the task slots that queries in real-time mode may reserve."""

from __future__ import annotations

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.session.slots import Slots, SlotsMissing, count_missing_slots

A, B = TaskId(ConnectorName("a"), 0), TaskId(ConnectorName("b"), 1)


@pytest.mark.parametrize(
    ("requested", "reserved", "total", "missing"),
    [(1, 0, 2, 0), (2, 0, 2, 1), (2, 1, 4, 0), (2, 2, 4, 1), (8, 0, 1, 8)],
)
def test_one_slot_stays_free_for_other_tasks(requested: int, reserved: int, total: int, missing: int) -> None:
    assert count_missing_slots(requested, reserved, total) == missing


def test_refusal_names_slot_holders_and_missing_slots() -> None:
    slots = Slots()
    slots.reserve(A, 2, 4)
    reservation = slots.reserve(A, 2, 4)  # the same query, restarted
    with pytest.raises(
        SlotsMissing, match=r"has 2 partitions, 2 are occupied by a-0, .* Spark has 4: 1 missing.*local\[5\]"
    ):
        slots.reserve(B, 2, 4)
    slots.reserve(B, 1, 4)
    slots.release(reservation)
    slots.reserve(B, 3, 4)
    with pytest.raises(SlotsMissing, match="none is occupied by other tasks"):
        slots.reserve(B, 4, 4)


def test_abandoned_run_does_not_release_the_slots_of_the_next_one() -> None:
    slots = Slots()
    reservation = slots.reserve(A, 3, 4)
    slots.reserve(A, 3, 4)
    slots.release(reservation)
    with pytest.raises(SlotsMissing, match="3 are occupied by a-0"):
        slots.reserve(B, 1, 4)
