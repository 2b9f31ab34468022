"""Replays dead letters: writes them to their targets, and then commits the progress."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from kraal.dead_letters.api import LettersKafka, OffsetRange
from kraal.dead_letters.records import DeadLetter, Target
from kraal.dead_letters.selection import DeadLetterQueue
from kraal.dead_letters.targets import Targets

BATCH_SIZE: Final = 500
"""Maximum number of dead letters to write before the progress is committed."""
BATCH_BYTES: Final = 16 * 1024 * 1024
"""Size of keys and values, in bytes, at which a batch is complete."""

Batch = Sequence[tuple[DeadLetter, Target]]


def replay(
    kafka: LettersKafka,
    queue: DeadLetterQueue,
    spans: Mapping[int, OffsetRange],
    targets: Targets,
    *,
    limit: int | None = None,
    write: bool = True,
    commit_progress: bool = True,
    until_s: float = math.inf,
) -> Iterator[Batch]:
    """Write up to `limit` dead letters of a queue to their targets, and yield them in batches.

    Only offsets in `spans` are read, and dead letters of other connectors are skipped. Each batch is yielded after it
    is written and the progress is committed to the queue's group, so that the next replay continues after this batch.
    The replay ends at the monotonic time `until_s`. If `write` is False, dead letters are yielded but not written. If
    `commit_progress` is False, the progress is not committed.

    Raises KafkaUnavailable; in this case, some dead letters of the current batch may have been written. Raises
    CannotReplay for a dead letter without an allowed target, before the batch with this dead letter is written.
    """
    scan = _Scan(kafka, queue, spans, until_s)
    letters = ((letter, targets.find_target(letter, kafka.partitions)) for letter in scan.letters())
    selected_letters = islice(letters, limit)
    committed_positions: Mapping[int, int] = {}
    while batch := list(_next_batch(selected_letters)):
        if write:
            kafka.write(batch)
        if commit_progress:
            committed_positions = dict(scan.positions)
            kafka.commit(queue.group, queue.topic, committed_positions)
        yield batch
    if commit_progress and scan.positions != committed_positions:
        kafka.commit(queue.group, queue.topic, scan.positions)


class _Scan:
    """Reads the dead letters of a queue, and tracks the position in each partition."""

    def __init__(
        self, kafka: LettersKafka, queue: DeadLetterQueue, spans: Mapping[int, OffsetRange], until_s: float
    ) -> None:
        self.positions: dict[int, int] = {}
        """The next offset of each partition that was read; after the last record, the end of each span."""
        self._kafka = kafka
        self._queue = queue
        self._spans = spans
        self._until_s = until_s

    def letters(self) -> Iterator[DeadLetter]:
        for letter in self._kafka.read(self._queue.topic, self._spans):
            if time.monotonic() > self._until_s:
                return
            self.positions[letter.partition] = letter.offset + 1
            if self._queue.contains(letter):
                yield letter
        self.positions = {number: span.end for number, span in self._spans.items()}


def _next_batch(letters: Iterable[tuple[DeadLetter, Target]]) -> Iterator[tuple[DeadLetter, Target]]:
    size = 0
    for letter, target in islice(letters, BATCH_SIZE):
        yield letter, target
        size += len(letter.key or b"") + len(letter.value or b"")
        if size >= BATCH_BYTES:
            return
