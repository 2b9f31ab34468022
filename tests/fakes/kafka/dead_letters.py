"""In-memory Kafka for tests of `kraal dlq`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Self

from kraal.dead_letters.api import KafkaUnavailable, OffsetRange
from kraal.dead_letters.records import PREFIX, DeadLetter, Target


def letter(
    number: int,
    overrides: Mapping[str, str | None] | None = None,
    *,
    connector: str | None = "orders-sink",
) -> DeadLetter:
    """Return a dead letter with Connect's headers, some replaced by `overrides`. Without a connector, omit them all."""
    fields: dict[str, str | None] = {
        "topic": "orders", "partition": "1", "offset": str(100 + number), "connector.name": connector, "task.id": "0",
        "stage": "VALUE_CONVERTER", "class.name": "JsonConverter", "exception.class.name": "DataException",
        "exception.message": "no\nJSON", "exception.stacktrace": "DataException\n\tat x", **(overrides or {}),
    }  # fmt: skip
    headers = [] if connector is None else [(PREFIX + name, text) for name, text in fields.items()]
    return DeadLetter(
        topic="dead",
        partition=0,
        offset=number,
        timestamp_ms=1_700_000_000_000 + number,
        key=f"k{number}".encode(),
        value=f"bad {number}".encode(),
        headers=[
            ("own", b"\x01"),
            *((name, None if text is None else text.encode()) for name, text in headers),
        ],
    )


class MemoryKafka:
    """A cluster with topics that tests fill. Replaces `kraal.dead_letters.kafka.Kafka`."""

    def __init__(self) -> None:
        self.partitions: dict[str, int] = {"orders": 2, "dead": 1}
        self.letters: defaultdict[str, list[DeadLetter]] = defaultdict(list)
        self.groups: dict[str, dict[int, int]] = {}
        self.written: list[tuple[DeadLetter, Target]] = []
        self.settings: Mapping[str, str | None] = {}
        self.refuses = False
        """Whether writes fail."""
        self.internal: frozenset[str] | None = None
        """The internal topics of the Connect cluster; None if they are unknown."""
        self.compact: set[str] = set()
        """The names of compacted topics."""

    def __call__(self, settings: Mapping[str, str | None]) -> Self:
        """Accept the arguments of the real client."""
        self.settings = dict(settings)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def compacted_topics(self, topics: Collection[str]) -> set[str]:
        """Return the topics that are in `compact`."""
        return self.compact.intersection(topics)

    def spans(self, topic: str) -> dict[int, OffsetRange]:
        """Return the offset range of each partition of the topic; offsets start at 0."""
        return {
            number: OffsetRange(
                0, sum(dead_letter.partition == number for dead_letter in self.letters[topic])
            )
            for number in range(self.partitions[topic])
        }

    def committed_offsets(self, group: str, topic: str) -> dict[int, int]:
        """Return the offsets stored by `commit`."""
        del topic
        return dict(self.groups.get(group, {}))

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Store offsets."""
        del topic
        self.groups.setdefault(group, {}).update(offsets)

    def read(self, topic: str, spans: Mapping[int, OffsetRange]) -> Iterator[DeadLetter]:
        """Yield the dead letters in these offset ranges."""
        for number, span in sorted(spans.items()):
            for dead_letter in self.letters[topic]:
                if dead_letter.partition == number and span.first <= dead_letter.offset < span.end:
                    yield dead_letter

    def write(self, letters: Sequence[tuple[DeadLetter, Target]]) -> None:
        """Store the written letters."""
        if self.refuses:
            raise KafkaUnavailable("Kafka at nowhere failed to write all letters: it is full")
        self.written += letters
