"""What `kraal dlq` asks of Kafka: how many letters there are, the letters, and writing them back.

One thread, which waits. Whatever goes wrong is a KafkaTrouble with a sentence.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient

from kraal.config.kafka.librdkafka import librdkafka_options
from kraal.dlq.letters import Letter, Target
from kraal.errors import KraalError
from kraal.stores.kafka_settings import LastWord, client

ASK_S: Final = 20.0
WRITE_S: Final = 60.0
_CLIENT_ID: Final = "kraal-dlq"
_OURS: Final = frozenset(
    {"group.id", "client.id", "transactional.id", "group.instance.id", "auto.offset.reset"}
)
"""Keys of a client's file that say who a program is, and mean nothing here."""


class KafkaTrouble(KraalError):
    """Kafka does not answer, or refuses."""


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition, `[first, end)`."""

    first: int
    end: int

    @property
    def count(self) -> int:
        """How many records they are; fewer in a compacted topic."""
        return max(0, self.end - self.first)


class Kafka:
    """A cluster. Use it in `with`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """`settings`: of a client, in Connect's words, `bootstrap.servers` among them. Raises ConfigInvalid."""
        own = {key: value for key, value in settings.items() if key not in _OURS}
        self.address = own["bootstrap.servers"]
        self._options = librdkafka_options(own)
        self._said = LastWord()

    def __enter__(self) -> Self:
        """Nothing is opened before it is needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what was opened."""
        if "_consumer" in vars(self):
            self._consumer.close()

    @cached_property
    def partitions(self) -> Mapping[str, int]:
        """How many partitions each topic has. Raises KafkaTrouble."""
        try:
            found = self._admin.list_topics(timeout=ASK_S)
        except ck.KafkaException as exc:
            raise self._trouble("did not say which topics there are", exc) from exc
        return {name: len(topic.partitions) for name, topic in found.topics.items()}

    def spans(self, topic: str) -> dict[int, Span]:
        """Return what is in each partition of a topic; nothing for one that does not exist. Raises KafkaTrouble."""
        consumer = self._consumer
        try:
            return {
                number: Span(*consumer.get_watermark_offsets(ck.TopicPartition(topic, number), timeout=ASK_S))
                for number in range(self.partitions.get(topic, 0))
            }
        except (ck.KafkaException, TypeError) as exc:  # it is None when the time is over
            raise self._trouble(f"did not say how much is in the topic {topic}", exc) from exc

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return where a group goes on, for partitions where it has been. Raises KafkaTrouble."""
        places = [ck.TopicPartition(topic, number) for number in range(self.partitions.get(topic, 0))]
        what = f"did not say how far the group {group} is"
        found = self._of_group(self._admin.list_consumer_group_offsets, group, places, what)
        return {place.partition: place.offset for place in found if place.offset >= 0}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Keep where a group goes on. Raises KafkaTrouble."""
        places = [ck.TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        what = f"did not keep how far the group {group} is"
        self._of_group(self._admin.alter_consumer_group_offsets, group, places, what)

    def _of_group(self, ask: Any, group: str, places: Sequence[Any], what: str) -> Sequence[Any]:
        """Ask about offsets of a group, which no consumer has to join for it."""
        try:
            asked = ask([ck.ConsumerGroupTopicPartitions(group, list(places))], request_timeout=ASK_S)
            found: Sequence[Any] = asked[group].result(ASK_S + 5).topic_partitions
        except (ck.KafkaException, TimeoutError) as exc:
            raise self._trouble(what, exc) from exc
        for place in found:
            if place.error is not None:
                raise self._trouble(what, place.error)
        return found

    def read(self, topic: str, spans: Mapping[int, Span]) -> Iterator[Letter]:
        """Yield the records of the spans: a partition after the other, in order. Raises KafkaTrouble."""
        consumer = self._consumer
        for number, span in sorted(spans.items()):
            if span.count:
                consumer.assign([ck.TopicPartition(topic, number, span.first)])
                yield from self._one(consumer, topic, number, span)
        consumer.unassign()

    def _one(self, consumer: Any, topic: str, number: int, span: Span) -> Iterator[Letter]:
        until_s = time.monotonic() + ASK_S
        while True:
            message = consumer.poll(0.2)
            if message is None:
                if time.monotonic() > until_s:
                    raise self._trouble(f"gave nothing of {topic}-{number} for {ASK_S:.0f} s", "")
                continue
            until_s = time.monotonic() + ASK_S
            if (error := message.error()) is not None:
                if error.code() == ck.KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own are spelled so
                    return
                raise self._trouble(f"did not give {topic}-{number}", error)
            if message.offset() >= span.end:
                return
            yield _letter(message)
            if message.offset() + 1 >= span.end:
                return

    def write(self, letters: Sequence[tuple[Letter, Target]]) -> None:
        """Write letters back without the headers of their error; when this returns all are there.

        Raises KafkaTrouble; some may be there then.
        """
        producer = self._producer
        failures: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            del message
            if error is not None:
                failures.append(error)

        try:
            for letter, target in letters:
                where = {} if target.partition is None else {"partition": target.partition}
                stamp = {} if letter.timestamp_ms is None else {"timestamp": letter.timestamp_ms}
                producer.produce(
                    target.topic,
                    key=letter.key,
                    value=letter.value,
                    headers=letter.own_headers,
                    on_delivery=delivered,
                    **where,
                    **stamp,
                )
            left = producer.flush(WRITE_S)
        except (ck.KafkaException, BufferError) as exc:
            raise self._trouble("took not all letters", exc) from exc
        if failures or left:
            cause = failures[0] if failures else f"{left} were not written in {WRITE_S:.0f} s"
            raise self._trouble("took not all letters", cause)

    @cached_property
    def _producer(self) -> Any:
        settings = client(self._options, _CLIENT_ID, self._said)
        return self._made(
            ck.Producer,
            {**settings, "acks": "all", "enable.idempotence": "true", "partitioner": "murmur2_random"},
        )

    @cached_property
    def _consumer(self) -> Any:
        fixed = {
            "group.id": _CLIENT_ID,  # demanded by the library; nothing is subscribed or committed
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "enable.partition.eof": "true",
            "auto.offset.reset": "earliest",  # what retention has taken meanwhile is no reason to stop
            "allow.auto.create.topics": "false",
        }
        return self._made(ck.Consumer, {**client(self._options, _CLIENT_ID, self._said), **fixed})

    @cached_property
    def _admin(self) -> Any:
        return self._made(AdminClient, client(self._options, _CLIENT_ID, self._said))

    def _made(self, kind: Any, settings: Mapping[str, Any]) -> Any:
        try:
            return kind(dict(settings))
        except (ck.KafkaException, ValueError) as exc:
            raise self._trouble("cannot be asked with these settings", exc) from exc

    def _trouble(self, what: str, cause: object) -> KafkaTrouble:
        said = self._said.added_to(cause) if cause else ""
        return KafkaTrouble(f"Kafka at {self.address} {what}" + (f": {said}" if said else ""))


def _letter(message: Any) -> Letter:
    kind, stamp_ms = message.timestamp()
    return Letter(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=None if kind == ck.TIMESTAMP_NOT_AVAILABLE else stamp_ms,
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )
