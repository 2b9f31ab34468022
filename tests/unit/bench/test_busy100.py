from __future__ import annotations

import pytest

from scripts.bench.data.busy100 import (
    ROWS,
    Cycle,
    Line,
    ReceivedLines,
    Window,
    cases,
    figures,
    make_stamped_line,
    read_stamp,
)
from scripts.bench.report import Target
from scripts.harness.lines import LINE_BYTES_ON_DISK

NS_PER_MS = 1_000_000


def test_stamped_line_contains_number_and_timestamp() -> None:
    line = make_stamped_line(123_456, 1_700_000_000_123_456_789)
    assert len(line) == LINE_BYTES_ON_DISK
    assert read_stamp(line.rstrip(b"\n")) == (123_456, 1_700_000_000_123_456_789)


def test_window_selects_lines_by_write_time() -> None:
    lines = [Line(time_ns, time_ns, 10_000) for time_ns in (999, 1000, 1999, 2000)]
    assert [line.written_ns for line in Window(1000, 2000, 0.5).select(lines)] == [1000, 1999]


def test_figures_are_in_the_order_of_the_rows() -> None:
    lines = [Line(0, number * NS_PER_MS, number * 10 * NS_PER_MS) for number in range(1, 101)]
    values = figures(lines, 0.7)
    assert len(values) == len(ROWS)
    assert values == pytest.approx([0.95, 0.505, 0.99, 1.0, 50.5, 9 * 50.5, 0.7])


def test_remaining_cycle_time_excludes_poll_and_store() -> None:
    assert Cycle(cycle_ms=200, poll_ms=1, store_ms=12).remaining_ms == 187


def test_offsets_without_a_line_count_as_transaction_markers() -> None:
    lines = [Line(0, 0, 0)] * 5
    # a: two lines, marker, one line, marker; b: one line, repeated once, and another in three transactions
    assert ReceivedLines(lines, duplicates=1, end_offsets={"a": 4, "b": 5}).transactions == 5


def test_unmeasured_side_has_no_values() -> None:
    first_case, second_case = cases(
        [("some", "s", Target()), ("more", "ms", Target())], {"kraal": [1.0, 2.0]}
    )
    assert (first_case.name, first_case.java, first_case.kraal) == ("some", [], [1.0])
    assert (second_case.unit, second_case.java, second_case.kraal) == ("ms", [], [2.0])
