from __future__ import annotations

from collections.abc import Sequence

import pytest

from scripts.chaos_run.lines import check_delivery, find_out_of_order, make_line, parse_number


def make_lines(*numbers: int) -> list[bytes]:
    return [make_line("pipe-0", number)[:-1] for number in numbers]


@pytest.mark.parametrize("number", [0, 7, 9_999_999_999])
def test_line_contains_its_number(number: int) -> None:
    assert parse_number("pipe-0", make_line("pipe-0", number)[:-1]) == number


def test_lines_of_a_pipe_have_equal_length() -> None:
    assert len({len(make_line("pipe-0", number)) for number in (0, 1, 12_345_678)}) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"pipe-0",
        b"pipe-0 x y",
        make_line("pipe-1", 3)[:-1],
        make_line("pipe-0", 3)[:-2],
        make_line("pipe-0", 3)[5:-1],
        make_line("pipe-0", 3)[:-1].replace(b"3", b"4", 1),
        make_line("pipe-0", 3)[:-1] + make_line("pipe-0", 4)[:-1],
    ],
)
def test_damaged_and_foreign_lines_have_no_number(text: bytes) -> None:
    assert parse_number("pipe-0", text) is None


@pytest.mark.parametrize(
    ("numbers", "missing_count", "first_missing", "duplicate_count", "decrease_count"),
    [
        ([0, 1, 2, 3], 0, None, 0, 0),
        ([0, 1, 0, 1, 2, 3], 0, None, 2, 1),
        ([0, 0, 1, 1, 2, 3], 0, None, 2, 2),
        ([0, 1, 3], 1, 2, 0, 0),
        ([3, 2], 2, 0, 0, 1),
        ([], 4, 0, 0, 0),
    ],
)
def test_missing_and_duplicate_lines_are_counted(
    numbers: Sequence[int],
    missing_count: int,
    first_missing: int | None,
    duplicate_count: int,
    decrease_count: int,
) -> None:
    delivery = check_delivery("pipe-0", 4, make_lines(*numbers))
    assert (delivery.missing_count, delivery.first_missing) == (missing_count, first_missing)
    assert (delivery.duplicate_count, delivery.decrease_count) == (duplicate_count, decrease_count)
    assert (delivery.unknown_count, delivery.delivered_count) == (0, len(numbers))


def test_unwritten_lines_are_counted_as_unknown() -> None:
    delivery = check_delivery("pipe-0", 2, [*make_lines(0, 1, 2), b"torn"])
    assert (delivery.unknown_count, delivery.missing_count, delivery.duplicate_count) == (2, 0, 0)
    assert delivery.unknown_example == make_lines(2)[0]


@pytest.mark.parametrize(
    ("numbers", "first"),
    [
        ([], None),
        ([0, 1, 2, 3], None),
        ([0, 1, 2, 1, 2, 3], None),
        ([0, 2, 3, 0, 1, 2, 3], None),
        ([0, 1, 3, 4], None),
        ([0, 2, 1, 3], 2),
        ([0, 1, 3, 2], 3),
        ([2, 3, 0, 1], 2),
    ],
    ids=[
        "nothing",
        "once",
        "repeated",
        "partially written batch repeated completely",
        "missing line, which is reported elsewhere",
        "swapped",
        "swapped at the end",
        "batches swapped",
    ],
)
def test_lines_out_of_order_are_reported(numbers: Sequence[int], first: int | None) -> None:
    assert find_out_of_order("pipe-0", [*make_lines(*numbers), b"torn"]) == first
