"""Tests for reading the latest dead letters, including search limits and truncation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from kraal.dead_letters.api import OffsetRange
from kraal.dead_letters.reading import SearchLimitExceeded, SearchResult, read_latest
from kraal.dead_letters.records import PREFIX, DeadLetter, to_json_object, truncate
from tests.fakes.kafka.dead_letters import letter


class Topic:
    """A topic with 5,000 offsets, some of which have letters of the connector. It records the size of each read."""

    def __init__(self, *offsets: int, max_offsets: int | None = None) -> None:
        self.letters = [letter(number) for number in offsets]
        self.read_counts: list[int] = []
        self.max_offsets = max_offsets

    def read(self, spans: Mapping[int, OffsetRange]) -> Iterator[DeadLetter]:
        self.read_counts.append(spans[0].count)
        if self.max_offsets is not None and spans[0].count > self.max_offsets:
            raise SearchLimitExceeded
        return (
            dead_letter for dead_letter in self.letters if spans[0].first <= dead_letter.offset < spans[0].end
        )

    def latest(self, limit: int, max_offsets: int | None = None) -> SearchResult:
        return read_latest(self.read, {0: OffsetRange(0, 5_000)}, limit, max_offsets=max_offsets)


def list_offsets(result: SearchResult) -> list[int]:
    return [dead_letter.offset for dead_letter in result.letters]


def test_search_ends_at_limit() -> None:
    topic = Topic(10, 4_950, 4_991, 4_992, 4_999)
    search_result = topic.latest(3)
    assert (list_offsets(search_result), search_result.searched, topic.read_counts) == (
        [4_991, 4_992, 4_999],
        30,
        [3, 30],
    )


def test_search_ends_at_beginning_of_topic() -> None:
    topic = Topic(10, 4_991)
    search_result = topic.latest(3)
    assert (list_offsets(search_result), search_result.searched, topic.read_counts) == (
        [10, 4_991],
        5_000,
        [3, 30, 300, 3_000, 5_000],
    )


def test_search_is_limited_to_max_offsets() -> None:
    topic = Topic(10, 4_991)
    search_result = topic.latest(3, max_offsets=300)
    assert (list_offsets(search_result), search_result.searched) == ([4_991], 300)


def test_exceeded_search_limit_returns_previous_result() -> None:
    search_result = Topic(10, 4_991, max_offsets=100).latest(3)
    assert (list_offsets(search_result), search_result.searched) == ([4_991], 30)
    with pytest.raises(SearchLimitExceeded):
        Topic(10, max_offsets=1).latest(3)


def test_latest_letters_of_partitions_are_ordered_by_time() -> None:
    letters = [
        replace(letter(number), partition=number % 2, timestamp_ms=100 - number) for number in range(10)
    ]
    spans = {0: OffsetRange(0, 10), 1: OffsetRange(0, 10)}
    search_result = read_latest(lambda _: iter(letters), spans, 2)
    assert (list_offsets(search_result), search_result.searched) == ([1, 0], 4)


def test_small_letter_is_not_truncated() -> None:
    assert to_json_object(truncate(letter(1), 100)) == to_json_object(letter(1))
    assert truncate(letter(1), 100).truncated == {}


def test_large_parts_are_truncated_and_report_their_sizes() -> None:
    errors = letter(1, {"exception.stacktrace": "s" * 50, "exception.message": "m" * 40}).headers
    large_letter = replace(
        letter(1), key=b"\xff" * 30, value="ü".encode() * 20, headers=[*errors, ("h", b"x" * 30)]
    )
    truncated_letter = truncate(large_letter, 21)
    assert (truncated_letter.key, truncated_letter.value) == (b"\xff" * 21, "ü".encode() * 10), (
        "text is truncated at a character boundary"
    )
    assert truncated_letter.truncated == {"key": 30, "value": 40, "headers": 31, "error": 90}
    assert truncated_letter.original_headers == [("own", b"\x01")]
    error = to_json_object(truncated_letter)["error"]
    assert (error["stacktrace"], error["message"], error["offset"]) == ("s" * 21, "m" * 21, 101)


def test_truncation_keeps_last_of_equal_error_headers() -> None:
    letter_with_duplicate = replace(letter(1), headers=[(PREFIX + "topic", b"x" * 99), *letter(1).headers])
    assert truncate(letter_with_duplicate, 30).error_fields == letter(1).error_fields
