"""librdkafka's settings for the clients of the internal topics, and what such a client said last.

Latency decides here, not throughput: a request waits for these topics. Java gives these clients the worker's own
keys without a prefix; the caller hands them in, named as librdkafka names them.
Source: KafkaBasedLog, KafkaConfigBackingStore (Kafka 4.3.0); contract 3.2 C10, C11; librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

log = logging.getLogger(__name__)

Settings = dict[str, Any]

TRANSACTION_TIMEOUT_S = 15.0
"""How long a leader that died inside a transaction can keep others from reading on, unless a new one claims."""
_FRESH_S = 30.0

_COMMON: Settings = {
    "log_level": "0",  # what matters comes as errors; librdkafka would write to stderr
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "1000",
    "socket.nagle.disable": "true",
}
_PRODUCER: Settings = {
    "acks": "all",
    "partitioner": "murmur2_random",  # Java's: one key must stay in one partition, or compaction loses order
    # What one append writes goes in one batch, whole or not at all: a flush does not wait for the linger.
    "linger.ms": "200",
}
_READER: Settings = {
    "allow.auto.create.topics": "false",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",  # a position that is gone is an error to be told, never a silent new start
    "enable.partition.eof": "true",
    "fetch.min.bytes": "1",
    "fetch.wait.max.ms": "500",
    "fetch.error.backoff.ms": "100",
    "queued.max.messages.kbytes": "16384",
}


class LastWord:
    """Keeps what a client said of its connections; librdkafka's calls only ever say that they timed out."""

    def __init__(self) -> None:
        self._text = ""
        self._at_s = 0.0

    def __call__(self, error: KafkaError) -> None:
        """Take note; called by the client, on whichever thread serves it."""
        self._text, self._at_s = error.str(), time.monotonic()
        log.debug("%s", error.str())

    def added_to(self, cause: object) -> str:
        """Return `cause` as text, with what was said in the last seconds."""
        text = told(cause)
        said = self._text if time.monotonic() - self._at_s < _FRESH_S else ""
        return f"{text} ({said})" if said and said not in text else text


class _Murmur:
    """Takes what librdkafka would write to stderr, which it does for the worst even when it is to be silent."""

    def log(self, level: int, text: str, *args: object) -> None:
        """Pass it on for those who look closely; what matters comes as errors as well."""
        del level
        log.debug(text, *args)


def told(cause: object) -> str:
    """Return the sentence of a client's exception or error."""
    if isinstance(cause, KafkaException) and cause.args and isinstance(cause.args[0], KafkaError):
        cause = cause.args[0]
    if isinstance(cause, KafkaError):
        return cause.str()
    return str(cause) or type(cause).__name__


def code(cause: BaseException) -> int | None:
    """Return a client's error code, None when there is none."""
    if isinstance(cause, KafkaException) and cause.args and isinstance(cause.args[0], KafkaError):
        return cause.args[0].code()
    return None


def client(options: Mapping[str, str], client_id: str, said: LastWord) -> Settings:
    """Return what all clients have."""
    return {**_COMMON, **options, "client.id": client_id, "error_cb": said, "logger": _Murmur()}


def producer(options: Mapping[str, str], client_id: str, said: LastWord, *, timeout_s: float) -> Settings:
    """Return a producer's settings: in order, and given up after `timeout_s`."""
    settings = {
        **client(options, client_id, said),
        **_PRODUCER,
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": str(round(timeout_s * 1000)),
    }
    settings.pop("transactional.id", None)
    return settings


def leader_producer(
    options: Mapping[str, str], client_id: str, said: LastWord, *, transactional_id: str, timeout_s: float
) -> Settings:
    """Return the settings of the leader's transactional producer (KIP-618)."""
    return {
        **client(options, client_id, said),
        **_PRODUCER,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": str(round(TRANSACTION_TIMEOUT_S * 1000)),
        "enable.idempotence": "true",
        "max.in.flight.requests.per.connection": "5",
        "delivery.timeout.ms": str(round(min(timeout_s, TRANSACTION_TIMEOUT_S) * 1000)),
    }


def reader(options: Mapping[str, str], client_id: str, said: LastWord, *, read_committed: bool) -> Settings:
    """Return a consumer's settings. It joins no group; librdkafka wants the name of one and looks it up."""
    common = client(options, client_id, said)
    return {
        "group.id": client_id,
        **common,
        **_READER,
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
    }
