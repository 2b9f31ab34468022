"""Reading of dead letters: all letters of a queue, or the latest ones with a limit."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraal.dead_letters.api import LettersKafka, OffsetRange
from kraal.dead_letters.records import DeadLetter
from kraal.dead_letters.selection import DeadLetterQueue, last_offsets

Read = Callable[[Mapping[int, OffsetRange]], Iterator[DeadLetter]]
"""Reads the letters of a queue from spans of its topic."""

_GROWTH_FACTOR: Final = 10
"""Factor by which the search window grows."""


class SearchLimitExceeded(Exception):
    """A search exceeded its limit of bytes or time."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search."""

    letters: Sequence[DeadLetter]
    """The letters in order of time, the latest last."""
    searched: int
    """The number of searched offsets, which are at the ends of the partitions."""


def read_letters(
    kafka: LettersKafka, queue: DeadLetterQueue, spans: Mapping[int, OffsetRange]
) -> Iterator[DeadLetter]:
    """Yield the letters of a queue in order, one partition after another. Raises KafkaUnavailable."""
    return (letter for letter in kafka.read(queue.topic, spans) if queue.contains(letter))


def read_latest(
    read: Read, spans: Mapping[int, OffsetRange], limit: int, *, max_offsets: int | None = None
) -> SearchResult:
    """Return the latest letters. The window grows until it has `limit` letters, or `max_offsets` of each partition.

    If `read` raises SearchLimitExceeded, the result of the previous window is returned; for the first window, the error
    is raised. Raises other errors of `read`.
    """
    previous: SearchResult | None = None
    size = limit
    while True:
        window = last_offsets(spans, size)
        try:
            letters = heapq.nlargest(limit, read(window), key=_by_time)
        except SearchLimitExceeded:
            if previous is None:
                raise
            return previous
        previous = SearchResult(letters[::-1], sum(span.count for span in window.values()))
        if (
            len(letters) == limit
            or window == dict(spans)
            or (max_offsets is not None and size >= max_offsets)
        ):
            return previous
        size *= _GROWTH_FACTOR


def _by_time(letter: DeadLetter) -> tuple[int, int, int]:
    return letter.timestamp_ms or 0, letter.partition, letter.offset
