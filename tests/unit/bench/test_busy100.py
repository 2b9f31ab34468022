from __future__ import annotations

import pytest

from scripts.bench.data.busy100 import (
    ROWS,
    Line,
    Received,
    Round,
    Window,
    cases,
    figures,
    make_stamped_line,
    read_stamp,
)
from scripts.bench.report import Target
from scripts.harness.lines import ON_DISK

MS = 1_000_000


def test_stamped_line_contains_number_and_timestamp() -> None:
    line = make_stamped_line(123_456, 1_700_000_000_123_456_789)
    assert len(line) == ON_DISK
    assert read_stamp(line.rstrip(b"\n")) == (123_456, 1_700_000_000_123_456_789)


def test_window_selects_lines_by_write_time() -> None:
    lines = [Line(at, at, 10_000) for at in (999, 1000, 1999, 2000)]
    assert [line.written for line in Window(1000, 2000, 0.5).select(lines)] == [1000, 1999]


def test_figures_are_in_the_order_of_the_rows() -> None:
    lines = [Line(0, number * MS, number * 10 * MS) for number in range(1, 101)]
    values = figures(lines, 0.7)
    assert len(values) == len(ROWS)
    assert values == pytest.approx([0.95, 0.505, 0.99, 1.0, 50.5, 9 * 50.5, 0.7])


def test_rest_of_a_round_excludes_poll_and_store() -> None:
    assert Round(round_ms=200, poll_ms=1, store_ms=12).rest_ms == 187


def test_offsets_without_a_line_count_as_transaction_markers() -> None:
    lines = [Line(0, 0, 0)] * 5
    # a: two lines, marker, one line, marker; b: one line, repeated once, and another in three transactions
    assert Received(lines, repeated=1, ends={"a": 4, "b": 5}).transactions == 5


def test_unmeasured_side_has_no_values() -> None:
    first, second = cases([("some", "s", Target()), ("more", "ms", Target())], {"kraal": [1.0, 2.0]})
    assert (first.name, first.java, first.kraal) == ("some", [], [1.0])
    assert (second.unit, second.java, second.kraal) == ("ms", [], [2.0])
