"""librdkafka's settings for the clients of the internal topics, and the last error of a client.

These settings favor latency over throughput, because requests wait for these topics. As in Connect, these clients use
the worker's keys without a prefix; the caller passes them with librdkafka's names.
Source: KafkaBasedLog, KafkaConfigBackingStore (Kafka 4.4.0); librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from kraal.config.clients.record_size import LIBRDKAFKA_DEFAULT

log = logging.getLogger(__name__)

Settings = dict[str, Any]

TRANSACTION_TIMEOUT_S = 15.0
"""Maximum time that a leader that crashed during a transaction blocks readers; less if a new leader fences it."""
_MAX_ERROR_AGE_S = 30.0

_COMMON_SETTINGS: Settings = {
    "log_level": "0",  # important events are reported as errors; librdkafka would write to stderr
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "1000",
    "socket.nagle.disable": "true",
}
_PRODUCER_SETTINGS: Settings = {
    "acks": "all",
    "partitioner": "murmur2_random",  # Java's, because compaction requires all records of a key in one partition
    # Collects the records of an append into one atomic batch; a flush does not wait for the linger.
    "linger.ms": "200",
}
_READER_SETTINGS: Settings = {
    "allow.auto.create.topics": "false",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",  # fail if a position does not exist, instead of resetting it silently
    "enable.partition.eof": "true",
    "fetch.min.bytes": "1",
    "fetch.wait.max.ms": "500",
    "fetch.error.backoff.ms": "100",
    "queued.max.messages.kbytes": "16384",
}


class LastClientError:
    """Stores a client's last connection error, because librdkafka's calls only report timeouts."""

    def __init__(self) -> None:
        self._text = ""
        self._at_s = 0.0

    def __call__(self, error: KafkaError) -> None:
        """Store an error; called by the client on the thread that polls it.

        `_ALL_BROKERS_DOWN` does not replace a recent error, because the client has just reported the actual reason.
        """
        now_s = time.monotonic()
        if error.code() != KafkaError._ALL_BROKERS_DOWN or now_s - self._at_s >= _MAX_ERROR_AGE_S:  # noqa: SLF001
            self._text, self._at_s = error.str(), now_s
        log.debug("%s", error.str())

    def append_to(self, cause: object) -> str:
        """Return the message of `cause`, with the last error if it is recent."""
        text = error_message(cause)
        last_text = self._text if time.monotonic() - self._at_s < _MAX_ERROR_AGE_S else ""
        return f"{text} ({last_text})" if last_text and last_text not in text else text


class _ClientLogger:
    """Receives librdkafka's log lines, which would otherwise be written to stderr (severe lines at any log level)."""

    def log(self, level: int, text: str, *args: object) -> None:
        """Log a line at debug level, because important events are also reported as errors."""
        del level
        log.debug(text, *args)


def error_message(cause: object) -> str:
    """Return the message of a client's exception or error."""
    if isinstance(cause, KafkaException) and cause.args and isinstance(cause.args[0], KafkaError):
        cause = cause.args[0]
    if isinstance(cause, KafkaError):
        return cause.str()
    return str(cause) or type(cause).__name__


def error_code(cause: BaseException) -> int | None:
    """Return the error code of a client's exception; None for other exceptions."""
    if isinstance(cause, KafkaException) and cause.args and isinstance(cause.args[0], KafkaError):
        return cause.args[0].code()
    return None


def cause_error_code(error: BaseException) -> int | None:
    """Return the error code of the client's exception that caused `error`; None if it has another cause."""
    return None if error.__cause__ is None else error_code(error.__cause__)


def client_settings(options: Mapping[str, str], client_id: str, last_error: LastClientError) -> Settings:
    """Return the settings of a client: the common settings, then `options`."""
    return {
        **_COMMON_SETTINGS,
        **options,
        "client.id": client_id,
        "error_cb": last_error,
        "logger": _ClientLogger(),
    }


def plain_producer_settings(
    options: Mapping[str, str], client_id: str, last_error: LastClientError, *, timeout_s: float
) -> Settings:
    """Return the settings of a producer that writes in order and fails after `timeout_s`."""
    settings = {
        **LIBRDKAFKA_DEFAULT,
        **client_settings(options, client_id, last_error),
        **_PRODUCER_SETTINGS,
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": str(round(timeout_s * 1000)),
    }
    settings.pop("transactional.id", None)
    return settings


def leader_producer_settings(
    options: Mapping[str, str],
    client_id: str,
    last_error: LastClientError,
    *,
    transactional_id: str,
    timeout_s: float,
) -> Settings:
    """Return the settings of the leader's transactional producer (KIP-618)."""
    return {
        **LIBRDKAFKA_DEFAULT,
        **client_settings(options, client_id, last_error),
        **_PRODUCER_SETTINGS,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": str(round(TRANSACTION_TIMEOUT_S * 1000)),
        "enable.idempotence": "true",
        "max.in.flight.requests.per.connection": "5",
        "delivery.timeout.ms": str(round(min(timeout_s, TRANSACTION_TIMEOUT_S) * 1000)),
    }


def reader_settings(
    options: Mapping[str, str], client_id: str, last_error: LastClientError, *, read_committed: bool
) -> Settings:
    """Return a consumer's settings. The consumer joins no group, but librdkafka requires and looks up a group id."""
    base_settings = client_settings(options, client_id, last_error)
    return {
        "group.id": client_id,
        **base_settings,
        **_READER_SETTINGS,
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
    }
