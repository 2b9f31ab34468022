"""Seeded changes of rows in a topic, and the rows that result from them."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.fakes.tables.records import Record, event, row, tombstone

PARTITIONS: Final = 2
KEYS: Final = 400
_DELETE_PROBABILITY: Final = 0.3
_FLUSH_TIMEOUT_S: Final = 120.0
_INTERVAL_S: Final = 0.05
_BATCH: Final = 10


class TopicChanges:
    """Produces changes of random keys, and remembers the state that results from them. For one thread at a time."""

    def __init__(
        self, bootstrap: str, topic: str, mode: Literal["append", "upsert", "cdc"], *, seed: int
    ) -> None:
        """Create the topic; `mode` is the write mode of the sinks that read it."""
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True, "log_level": 2}
        )
        self._topic, self._mode = topic, mode
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self.rows: dict[int, str] = {}
        self.ends = dict.fromkeys(range(PARTITIONS), 0)

    def produce(self, count: int) -> None:
        """Produce this number of changes; in `cdc`, a delete is followed by a tombstone, as Debezium's are."""
        for _ in range(count):
            for number, record in self._change():
                key, value = record
                partition = number % PARTITIONS
                self._producer.produce(self._topic, value, key, partition=partition)
                self._producer.poll(0)
                self.ends[partition] += 1
        assert self._producer.flush(_FLUSH_TIMEOUT_S) == 0

    def _change(self) -> list[tuple[int, Record]]:
        if self._mode == "append":
            number = sum(self.ends.values())
            self.rows[number] = "x"
            return [(number, row(number, "x"))]
        number = self._random.randrange(KEYS)
        exists = number in self.rows
        if exists and self._random.random() < _DELETE_PROBABILITY:
            del self.rows[number]
            deletion = [(number, event("d", number))] if self._mode == "cdc" else []
            return [*deletion, (number, tombstone(number))]
        name = self.rows[number] = uuid.UUID(int=self._random.getrandbits(128)).hex
        is_event = self._mode == "cdc"
        return [(number, event("u" if exists else "c", number, name) if is_event else row(number, name))]

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Produce changes in a thread."""
        ends = threading.Event()

        def run() -> None:
            while not ends.wait(_INTERVAL_S):
                self.produce(_BATCH)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()
