"""Reading of dead letters: those of a box, and the latest of them within bounds."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraal.dead_letters.api import LettersKafka, Span
from kraal.dead_letters.records import DeadLetter
from kraal.dead_letters.selection import Box, last_offsets

Read = Callable[[Mapping[int, Span]], Iterator[DeadLetter]]
"""Reads the letters of a box from spans of its topic."""

_GROWTH_FACTOR: Final = 10
"""Factor by which the search window grows."""


class OutOfBounds(Exception):
    """A search exceeded its limit of bytes or time."""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a search."""

    letters: Sequence[DeadLetter]
    """Letters by time, the latest last."""
    searched: int
    """Number of offsets that were searched, at the end of each partition."""


def read_letters(kafka: LettersKafka, box: Box, spans: Mapping[int, Span]) -> Iterator[DeadLetter]:
    """Yield the letters of a box in order, one partition after the other. Raises KafkaUnavailable."""
    return (letter for letter in kafka.read(box.topic, spans) if box.holds(letter))


def read_latest(
    read: Read, spans: Mapping[int, Span], limit: int, *, max_offsets: int | None = None
) -> Found:
    """Return the latest letters; the window grows until it has enough, or `max_offsets` of each partition are searched.

    Once `read` raises OutOfBounds, the result of the previous window is returned. Raises OutOfBounds for the first
    window, and other errors of `read`.
    """
    previous: Found | None = None
    size = limit
    while True:
        window = last_offsets(spans, size)
        try:
            letters = heapq.nlargest(limit, read(window), key=_by_time)
        except OutOfBounds:
            if previous is None:
                raise
            return previous
        previous = Found(letters[::-1], sum(span.count for span in window.values()))
        if (
            len(letters) == limit
            or window == dict(spans)
            or (max_offsets is not None and size >= max_offsets)
        ):
            return previous
        size *= _GROWTH_FACTOR


def _by_time(letter: DeadLetter) -> tuple[int, int, int]:
    return letter.timestamp_ms or 0, letter.partition, letter.offset
