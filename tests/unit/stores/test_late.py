"""Stores that are made when they are first asked."""

from __future__ import annotations

from typing import Any

from kraal.core.ids import ConnectorName
from kraal.core.offsets import TopicPartition
from kraal.stores.late import LateGroupOffsets

SINK = ConnectorName("sink")
PLACE = TopicPartition("t", 0)
CONFIG = {"topics": "t"}


class Noted:
    """Group offsets that note their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def read(self, *given: Any, timeout_s: float) -> dict[TopicPartition, int]:
        self.calls.append(("read", *given, timeout_s))
        return {PLACE: 1}

    def ends(self, *given: Any, timeout_s: float) -> dict[TopicPartition, int]:
        self.calls.append(("ends", *given, timeout_s))
        return {PLACE: 2}

    def alter(self, *given: Any, timeout_s: float) -> None:
        self.calls.append(("alter", *given, timeout_s))

    def delete(self, *given: Any, timeout_s: float) -> None:
        self.calls.append(("delete", *given, timeout_s))


def test_group_offsets_are_made_by_the_first_request_and_get_all_of_them() -> None:
    made: list[Noted] = []

    def make() -> Noted:
        made.append(Noted())
        return made[-1]

    late = LateGroupOffsets(make)
    assert made == []
    assert late.read(SINK, CONFIG, timeout_s=1) == {PLACE: 1}
    assert late.ends(SINK, CONFIG, [PLACE], timeout_s=2) == {PLACE: 2}
    late.alter(SINK, CONFIG, {PLACE: None}, timeout_s=3)
    late.delete(SINK, CONFIG, timeout_s=4)
    [only] = made
    assert only.calls == [
        ("read", SINK, CONFIG, 1),
        ("ends", SINK, CONFIG, [PLACE], 2),
        ("alter", SINK, CONFIG, {PLACE: None}, 3),
        ("delete", SINK, CONFIG, 4),
    ]
