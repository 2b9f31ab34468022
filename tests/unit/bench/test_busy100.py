from __future__ import annotations

import pytest

from scripts.bench.data.busy100 import ROWS, Came, Line, Round, Window, cases, figures, read_stamp, stamped
from scripts.bench.report import Wanted
from scripts.harness.lines import ON_DISK

MS = 1_000_000


def test_a_line_says_its_number_and_when_it_was_written() -> None:
    line = stamped(123_456, 1_700_000_000_123_456_789)
    assert len(line) == ON_DISK
    assert read_stamp(line.rstrip(b"\n")) == (123_456, 1_700_000_000_123_456_789)


def test_a_window_has_what_was_written_in_it_however_late_it_came() -> None:
    lines = [Line(at, at, 10_000) for at in (999, 1000, 1999, 2000)]
    assert [line.written for line in Window(1000, 2000, 0.5).of(lines)] == [1000, 1999]


def test_figures_stand_in_the_order_of_the_rows() -> None:
    lines = [Line(0, number * MS, number * 10 * MS) for number in range(1, 101)]
    values = figures(lines, 0.7)
    assert len(values) == len(ROWS)
    assert values == pytest.approx([0.95, 0.505, 0.99, 1.0, 50.5, 9 * 50.5, 0.7])


def test_the_rest_of_a_round_is_waiting_time() -> None:
    assert Round(round_ms=200, poll_ms=1, store_ms=12).rest_ms == 187


def test_offsets_without_a_line_are_the_ends_of_transactions() -> None:
    lines = [Line(0, 0, 0)] * 5
    # a: two lines, marker, one line, marker; b: one line, repeated once, and another in three transactions
    assert Came(lines, repeated=1, ends={"a": 4, "b": 5}).transactions == 5


def test_a_side_that_was_left_out_has_no_figures() -> None:
    first, second = cases([("some", "s", Wanted()), ("more", "ms", Wanted())], {"kraal": [1.0, 2.0]})
    assert (first.name, first.java, first.kraal) == ("some", [], [1.0])
    assert (second.unit, second.java, second.kraal) == ("ms", [], [2.0])
