"""Reading of dead letters: those of a box, and the latest of them within bounds."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraal.dead_letters.api import LettersKafka, Span
from kraal.dead_letters.records import DeadLetter
from kraal.dead_letters.selection import Box, last

Read = Callable[[Mapping[int, Span]], Iterator[DeadLetter]]
"""Reads the letters of a box from spans of its topic."""

_FURTHER: Final = 10
"""Factor by which each search looks back further than the one before."""


class OutOfBounds(Exception):
    """A search has read as much, or taken as long, as it may."""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a search."""

    letters: Sequence[DeadLetter]
    """By time; the latest is the last."""
    searched: int
    """Number of offsets that were searched, at the end of each partition."""


def read_letters(kafka: LettersKafka, box: Box, spans: Mapping[int, Span]) -> Iterator[DeadLetter]:
    """Yield the letters of a box in order, one partition after the other. Raises KafkaUnavailable."""
    return (letter for letter in kafka.read(box.topic, spans) if box.holds(letter))


def latest(read: Read, spans: Mapping[int, Span], limit: int, *, most: int | None = None) -> Found:
    """Return the latest letters; looks back further until there are enough, or `most` offsets a partition are searched.

    Once `read` raises OutOfBounds, the letters of the search before are the result. Raises OutOfBounds if it was the
    first one, and what else `read` raises.
    """
    found: Found | None = None
    size = limit
    while True:
        window = last(spans, size)
        try:
            letters = heapq.nlargest(limit, read(window), key=_by_time)
        except OutOfBounds:
            if found is None:
                raise
            return found
        found = Found(letters[::-1], sum(span.count for span in window.values()))
        if len(letters) == limit or window == dict(spans) or (most is not None and size >= most):
            return found
        size *= _FURTHER


def _by_time(letter: DeadLetter) -> tuple[int, int, int]:
    return letter.timestamp_ms or 0, letter.partition, letter.offset
