"""Replay of dead letters: writing them back, and then remembering that they were."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from kraal.dead_letters.api import LettersKafka, Span
from kraal.dead_letters.records import DeadLetter, Target
from kraal.dead_letters.selection import Box
from kraal.dead_letters.targets import Targets

AT_ONCE: Final = 500
"""Number of letters that are written and then remembered at a time."""
AT_ONCE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of keys and values after which no more letters are added to these."""

Piece = Sequence[tuple[DeadLetter, Target]]


def replay(
    kafka: LettersKafka,
    box: Box,
    spans: Mapping[int, Span],
    targets: Targets,
    *,
    limit: int | None = None,
    write: bool = True,
    remember: bool = True,
    until_s: float = math.inf,
) -> Iterator[Piece]:
    """Write the letters of a box in these spans back, at most `limit`, and yield them in pieces.

    Each piece is yielded when it is written and the progress is committed to the box's group, so that the next replay
    continues after it. Letters of other connectors count as passed. `until_s`, of time.monotonic, ends it early.
    Without `write` it only yields; without `remember` it commits nothing.

    Raises KafkaUnavailable; some letters of the current piece may be written then. Raises CannotReplay for a letter
    without an allowed target, before anything of its piece is written.
    """
    scan = _Scan(kafka, box, spans, until_s)
    letters = ((letter, targets.target(letter, kafka.partitions)) for letter in scan.letters())
    chosen = islice(letters, limit)
    committed: Mapping[int, int] = {}
    while piece := list(_piece(chosen)):
        if write:
            kafka.write(piece)
        if remember:
            committed = dict(scan.passed)
            kafka.commit(box.group, box.topic, committed)
        yield piece
    if remember and scan.passed != committed:
        kafka.commit(box.group, box.topic, scan.passed)


class _Scan:
    """Reads the letters of a box, and knows how far it has come."""

    def __init__(self, kafka: LettersKafka, box: Box, spans: Mapping[int, Span], until_s: float) -> None:
        self.passed: dict[int, int] = {}
        """Offset behind the latest record that was read, by partition; the ends, when all were."""
        self._kafka = kafka
        self._box = box
        self._spans = spans
        self._until_s = until_s

    def letters(self) -> Iterator[DeadLetter]:
        for letter in self._kafka.read(self._box.topic, self._spans):
            if time.monotonic() > self._until_s:
                return
            self.passed[letter.partition] = letter.offset + 1
            if self._box.holds(letter):
                yield letter
        self.passed = {number: span.end for number, span in self._spans.items()}


def _piece(letters: Iterable[tuple[DeadLetter, Target]]) -> Iterator[tuple[DeadLetter, Target]]:
    size = 0
    for letter, target in islice(letters, AT_ONCE):
        yield letter, target
        size += len(letter.key or b"") + len(letter.value or b"")
        if size >= AT_ONCE_BYTES:
            return
