"""Tests that a proof waits until the connector has delivered all visible changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from kraal.core.offsets import SourcePartition
from kraal.engine.proof.delivery import POLL_S, TIMEOUT_S, wait_for_delivery
from kraal.plugins.api import NotComparable

PARTITION = SourcePartition.of({"server": "shop"})
POSITION = 10


@dataclass
class FakeSource:
    """A source that stores and receives one position more after each pause."""

    stored: int = 0
    received: int = 0
    is_stuck: bool = False
    is_cancelled: bool = False
    settle_s: float = 7.0
    now_s: float = 0.0
    pauses: list[float] = field(default_factory=list)

    def read_position(self, _spark: object) -> int:
        return POSITION

    def has_stored(self, offsets: Any, position: int) -> bool:
        return bool(offsets[PARTITION]["lsn"] >= position)

    def has_received(self, _spark: object, position: int) -> bool:
        return self.received >= position

    def describe_delay(self, offsets: Any, position: int) -> str:
        return f"{offsets[PARTITION]['lsn']} is before {position}"

    def pause(self, seconds: float) -> None:
        if self.is_cancelled:
            raise NotComparable("the proof was cancelled")
        self.pauses.append(seconds)
        self.now_s += seconds
        if not self.is_stuck:
            self.stored += 1
            self.received += 1

    def wait(self) -> None:
        wait_for_delivery(
            cast("Any", self),
            cast("Any", None),
            lambda: {PARTITION: {"lsn": self.stored}},
            self.pause,
            count=1234,
            now_s=lambda: self.now_s,
        )


def test_wait_ends_as_soon_as_the_offset_is_stored() -> None:
    source = FakeSource(stored=POSITION - 2)
    source.wait()
    assert source.pauses == [POLL_S, POLL_S]
    source.wait()
    assert len(source.pauses) == 2


def test_records_of_received_changes_get_time_to_reach_the_topics() -> None:
    source = FakeSource(received=POSITION - 1)
    source.wait()
    assert source.pauses == [POLL_S, source.settle_s]


def test_changes_that_are_not_delivered_in_time_end_the_proof_with_the_reason() -> None:
    source = FakeSource(stored=3, is_stuck=True)
    with pytest.raises(NotComparable, match=r"1,234 rows differ .*, but 3 is before 10"):
        source.wait()
    assert TIMEOUT_S <= source.now_s <= TIMEOUT_S + 2 * POLL_S


def test_cancelled_proof_stops_waiting() -> None:
    with pytest.raises(NotComparable, match="the proof was cancelled"):
        FakeSource(is_cancelled=True).wait()
