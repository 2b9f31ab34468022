"""Replay of dead letters: write them back, then commit the progress."""

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

BATCH_SIZE: Final = 500
"""Maximum number of letters to write before the progress is committed."""
BATCH_BYTES: Final = 16 * 1024 * 1024
"""Bytes of keys and values at which a batch is complete."""

Batch = Sequence[tuple[DeadLetter, Target]]


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
) -> Iterator[Batch]:
    """Write the letters of a box in these spans back, at most `limit`, and yield them in batches.

    Each batch is yielded after it is written and the progress is committed to the box's group, so that the next replay
    continues after it. Letters of other connectors are skipped. `until_s`, of time.monotonic, ends the replay early.
    Without `write` it only yields; without `remember` it commits nothing.

    Raises KafkaUnavailable; some letters of the current batch may be written then. Raises CannotReplay for a letter
    without an allowed target, before its batch is written.
    """
    scan = _Scan(kafka, box, spans, until_s)
    letters = ((letter, targets.target(letter, kafka.partitions)) for letter in scan.letters())
    selected = islice(letters, limit)
    committed: Mapping[int, int] = {}
    while batch := list(_next_batch(selected)):
        if write:
            kafka.write(batch)
        if remember:
            committed = dict(scan.positions)
            kafka.commit(box.group, box.topic, committed)
        yield batch
    if remember and scan.positions != committed:
        kafka.commit(box.group, box.topic, scan.positions)


class _Scan:
    """Reads the letters of a box and tracks its position."""

    def __init__(self, kafka: LettersKafka, box: Box, spans: Mapping[int, Span], until_s: float) -> None:
        self.positions: dict[int, int] = {}
        """Next offset by partition; the ends of the spans after the last record."""
        self._kafka = kafka
        self._box = box
        self._spans = spans
        self._until_s = until_s

    def letters(self) -> Iterator[DeadLetter]:
        for letter in self._kafka.read(self._box.topic, self._spans):
            if time.monotonic() > self._until_s:
                return
            self.positions[letter.partition] = letter.offset + 1
            if self._box.holds(letter):
                yield letter
        self.positions = {number: span.end for number, span in self._spans.items()}


def _next_batch(letters: Iterable[tuple[DeadLetter, Target]]) -> Iterator[tuple[DeadLetter, Target]]:
    size = 0
    for letter, target in islice(letters, BATCH_SIZE):
        yield letter, target
        size += len(letter.key or b"") + len(letter.value or b"")
        if size >= BATCH_BYTES:
            return
