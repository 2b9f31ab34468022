"""How many core slots queries in real-time mode may hold."""

from __future__ import annotations

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.session.slots import Slots, SlotsMissing, missing

A, B = TaskId(ConnectorName("a"), 0), TaskId(ConnectorName("b"), 1)


@pytest.mark.parametrize(
    ("wanted", "slots_", "total", "lacks"),
    [(1, 0, 2, 0), (2, 0, 2, 1), (2, 1, 4, 0), (2, 2, 4, 1), (8, 0, 1, 8)],
)
def test_one_slot_stays_free_for_all_other_tasks(wanted: int, slots_: int, total: int, lacks: int) -> None:
    assert missing(wanted, slots_, total) == lacks


def test_refusal_names_slot_holders_and_missing_slots() -> None:
    slots = Slots()
    slots.take(A, 2, 4)
    slots_ = slots.take(A, 2, 4)  # the same query, started again
    with pytest.raises(
        SlotsMissing, match=r"has 2 partitions, 2 are held by a-0, .* Spark has 4: 1 missing.*local\[5\]"
    ):
        slots.take(B, 2, 4)
    slots.take(B, 1, 4)
    slots.free(slots_)
    slots.take(B, 3, 4)
    with pytest.raises(SlotsMissing, match="none is held by others"):
        slots.take(B, 4, 4)


def test_a_run_that_was_left_behind_does_not_free_the_slots_of_the_next_one() -> None:
    slots = Slots()
    slots_ = slots.take(A, 3, 4)
    slots.take(A, 3, 4)
    slots.free(slots_)
    with pytest.raises(SlotsMissing, match="3 are held by a-0"):
        slots.take(B, 1, 4)
