"""Reads dead letters: all dead letters of a queue, or only the latest ones."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraal.dead_letters.api import LettersKafka, OffsetRange
from kraal.dead_letters.records import DeadLetter
from kraal.dead_letters.selection import DeadLetterQueue, last_offsets

Read = Callable[[Mapping[int, OffsetRange]], Iterator[DeadLetter]]
"""Reads the dead letters of a queue in offset ranges of its topic."""

_GROWTH_FACTOR: Final = 10
"""Factor by which the search window grows."""


class SearchLimitExceeded(Exception):
    """A search exceeded its limit of bytes or time."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search."""

    letters: Sequence[DeadLetter]
    """The dead letters by ascending time."""
    searched: int
    """The number of offsets that were searched, at the ends of the partitions."""


def read_letters(
    kafka: LettersKafka, queue: DeadLetterQueue, spans: Mapping[int, OffsetRange]
) -> Iterator[DeadLetter]:
    """Yield the dead letters of a queue in offset order, one partition after another. Raises KafkaUnavailable."""
    return (letter for letter in kafka.read(queue.topic, spans) if queue.contains(letter))


def read_latest(
    read: Read, spans: Mapping[int, OffsetRange], limit: int, *, max_offsets: int | None = None
) -> SearchResult:
    """Return the latest `limit` dead letters.

    Searches a window at the end of each partition. The window grows until `limit` dead letters are found, or until it
    contains `max_offsets` offsets per partition. If `read` raises SearchLimitExceeded, the result of the previous
    window is returned; for the first window, the error is raised. Raises other errors of `read`.
    """
    previous_result: SearchResult | None = None
    size = limit
    while True:
        window = last_offsets(spans, size)
        try:
            letters = heapq.nlargest(limit, read(window), key=_by_time)
        except SearchLimitExceeded:
            if previous_result is None:
                raise
            return previous_result
        previous_result = SearchResult(letters[::-1], sum(span.count for span in window.values()))
        if (
            len(letters) == limit
            or window == dict(spans)
            or (max_offsets is not None and size >= max_offsets)
        ):
            return previous_result
        size *= _GROWTH_FACTOR


def _by_time(letter: DeadLetter) -> tuple[int, int, int]:
    return letter.timestamp_ms or 0, letter.partition, letter.offset
