"""When a sink's backlogs go by columns, and what the sink sees of one that is given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraal.plugins.chain import Chain
from kraal.spark.sink_columns import SinkColumns
from kraal.spark.source_columns import DOUBT
from tests.fakes.column_path import TEXT, steps_of


class Frame:
    """A frame whose rows are in doubt, or not."""

    def __init__(self, *, doubtful: bool) -> None:
        self.doubtful = doubtful
        self.log: list[str] = []

    def persist(self) -> Frame:
        self.log.append("persist")
        return self

    def count(self) -> int:
        self.log.append("count")
        if self.doubtful:
            raise RuntimeError(f"[USER_RAISED_EXCEPTION] {DOUBT}")
        return 1

    def unpersist(self) -> None:
        self.log.append("unpersist")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[Frame | None], None]:
    """Have all batches from now on be this frame."""

    def give(frame: Frame | None) -> None:
        monkeypatch.setattr(SinkColumns, "_frame", lambda *_: frame)

    return give


@pytest.fixture
def columns() -> SinkColumns:
    return SinkColumns(steps_of(Chain(), TEXT), "text")


def test_a_sink_is_asked_when_no_row_is_in_doubt(columns: SinkColumns, given: Any) -> None:
    frame = Frame(doubtful=False)
    given(frame)
    assert columns.write(dict, lambda _: frame.log.append("put"), all_or_nothing=False)
    assert frame.log == ["persist", "count", "put", "unpersist"]
    frame.log.clear()
    given(Frame(doubtful=True))
    assert not columns.write(dict, lambda _: frame.log.append("put"), all_or_nothing=False)
    assert frame.log == []


def test_a_sink_that_leaves_nothing_is_asked_at_once(columns: SinkColumns, given: Any) -> None:
    def compute(frame: Any) -> None:
        frame.count()

    frame = Frame(doubtful=True)
    given(frame)
    assert not columns.write(dict, compute, all_or_nothing=True)
    assert frame.log == ["count"]


@pytest.mark.parametrize("all_or_nothing", [True, False])
def test_what_the_sink_raises_is_no_doubt(columns: SinkColumns, given: Any, *, all_or_nothing: bool) -> None:
    def full(_: object) -> None:
        raise OSError("no space left")

    frame = Frame(doubtful=False)
    given(frame)
    with pytest.raises(OSError, match="no space left"):
        columns.write(dict, full, all_or_nothing=all_or_nothing)
    assert frame.log == ([] if all_or_nothing else ["persist", "count", "unpersist"])


def test_after_a_batch_by_records_more_and_more_follow_until_one_goes_by_columns(
    columns: SinkColumns, given: Any
) -> None:
    def tried(batches: int) -> list[int]:
        """Return which of so many batches were tried by columns."""
        seen: list[int] = []
        frame = Frame(doubtful=True)
        given(frame)
        for number in range(batches):
            columns.write(dict, lambda _: None, all_or_nothing=False)
            if frame.log:
                seen.append(number)
                frame.log.clear()
        return seen

    assert tried(300) == [0, 2, 5, 10, 19, 36, 69, 134, 199, 264]
    given(Frame(doubtful=False))
    while not columns.write(dict, lambda _: None, all_or_nothing=False):
        pass
    assert tried(3) == [0, 2]
