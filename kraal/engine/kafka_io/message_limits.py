"""Limits `batch.size` of producers to `max.message.bytes` of the topics that they write to.

Brokers reject a larger batch with MESSAGE_TOO_LARGE. Kafka's producer then splits the batch into batches of
`batch.size`. Up to version 4.1, the producer does not split these further: if `batch.size` exceeds the limit, it sends
the same batch forever (KAFKA-8350). So `batch.size` is at most the smallest limit of the topics that a run writes to,
rounded down to a power of two, because tasks share a producer only if its settings are equal.
Source: RecordAccumulator.splitAndReenqueue, Sender.completeBatch (Kafka 3.9 and 4.3).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import wait
from dataclasses import dataclass, field
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined] # documented there

from kraal.config.clients.record_size import TOPIC_LIMIT
from kraal.core.kafka_errors import NOT_AUTHORIZED

log = logging.getLogger(__name__)

BATCH_SIZE: Final = "batch.size"
_TIMEOUT_S: Final = 10.0
_POLL_INTERVAL_S: Final = 0.2
_ASSUMED_LIMIT: Final = 1 << 18
"""The assumed limit of a topic that rejects a batch if the actual limit is unknown."""
_PROPAGATION_TIMEOUT_S: Final = 2.0
"""Maximum time for which the lookup of a new topic is repeated; a broker may not know the topic yet."""
_MAX_FAILED_LOOKUPS: Final = 2
"""Maximum number of failed lookups of a topic. A lookup fails, for example, if the first write creates the topic."""

Lookup = Callable[[Collection[str]], Mapping[str, int | None]]
"""Returns the limits of topics, or None for a topic whose config the client is not authorized to read. Topics whose
lookup failed, for example because they are missing, are omitted. Blocks; does not raise.
"""


@dataclass(slots=True)
class MessageLimits:
    """The limits of the topics that a run writes to. Only `cap_batch_size` and `lower_limit` are thread-safe."""

    lookup: Lookup | None = None
    """None to disable lookups."""
    _limits: dict[str, int | None] = field(default_factory=dict)
    _failed_lookups: dict[str, int] = field(default_factory=dict)
    """The number of failed lookups by topic."""
    _lowered_limits: dict[str, int] = field(default_factory=dict)
    """Lowered limits of topics that rejected batches although the limit was not exceeded or is unknown."""
    _last_limits: dict[str, int | None] = field(default_factory=dict)
    """The limits that the latest lookup returned for the topics with a lowered limit."""

    def list_unseen(self, names: Iterable[str | None]) -> list[str]:
        """Return the topics whose limit has not been looked up yet, sorted."""
        return [] if self.lookup is None else sorted({name for name in names if name} - self._limits.keys())

    def ensure(self, names: Iterable[str | None], *, should_exist: bool = False) -> None:
        """Look up the limits of topics that were not seen before. Blocks for new topics; does not raise.

        With `should_exist`, retry for topics that are missing, because a new topic may be unknown to a broker.
        """
        unseen_names = self.list_unseen(names)
        deadline_s = time.monotonic() + (_PROPAGATION_TIMEOUT_S if should_exist else 0.0)
        while unseen_names and self.lookup is not None:
            for name, limit in self.lookup(unseen_names).items():
                self._limits[name] = limit
                if limit != self._last_limits.get(name, limit):  # the limit was changed
                    self._lowered_limits.pop(name, None)
            unseen_names = self.list_unseen(unseen_names)
            if not unseen_names or time.monotonic() >= deadline_s:
                break
            time.sleep(_POLL_INTERVAL_S)
        for name in unseen_names:
            self._failed_lookups[name] = self._failed_lookups.get(name, 0) + 1
            if self._failed_lookups[name] >= _MAX_FAILED_LOOKUPS:
                self._limits[name] = None

    def lower_limit(self, topic: str) -> int:
        """Lower the limit of a topic that rejects batches, and return it.

        The lowered limit applies until a lookup returns a changed limit.
        """
        limits = (self._min_limit, self._limits.get(topic), self._lowered_limits.get(topic), _ASSUMED_LIMIT)
        limit = self._lowered_limits[topic] = max(min(value for value in limits if value is not None) // 4, 1)
        self._last_limits[topic] = self._limits.pop(topic, None)
        return limit

    @property
    def topics(self) -> AbstractSet[str]:
        """The topics whose limits were looked up or lowered: those that the run has written to so far."""
        return self._failed_lookups.keys() | self._limits.keys() | self._lowered_limits.keys()

    def known_limits(self) -> Mapping[str, int]:
        """Return the known limits in bytes by topic."""
        return {name: limit for name, limit in self._limits.copy().items() if limit is not None}

    def cap_batch_size(self, options: Mapping[str, str], key: str) -> Mapping[str, str]:
        """Return producer options whose `batch.size`, under `key`, does not exceed the limit of any topic."""
        min_limit = self._min_limit
        if min_limit is None or min_limit >= int(options.get(key, 0)):
            return options
        return {**options, key: str(fit_batch_size(min_limit))}

    @property
    def _min_limit(self) -> int | None:
        return min((*self.known_limits().values(), *self._lowered_limits.copy().values()), default=None)


def fit_batch_size(limit: int) -> int:
    """Return the batch size for a limit in bytes: the largest power of two that does not exceed the limit."""
    return 1 << max(limit.bit_length() - 1, 0)


def make_lookup(settings: Mapping[str, Any], cancelled: threading.Event | None = None) -> Lookup:
    """Return a lookup that creates an admin client with these librdkafka settings; `cancelled` aborts its calls."""

    def lookup(names: Collection[str]) -> Mapping[str, int | None]:
        return read_limits(settings, names, cancelled)

    return lookup


def read_limits(
    settings: Mapping[str, Any], names: Collection[str], cancelled: threading.Event | None = None
) -> Mapping[str, int | None]:
    """Return the limits of topics, requested from the brokers. See `Lookup`."""
    limits: dict[str, int | None] = {}
    deadline_s = time.monotonic() + _TIMEOUT_S
    try:
        admin: Any = AdminClient(dict(settings))
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        futures = admin.describe_configs(resources, request_timeout=_TIMEOUT_S)
    except (ck.KafkaException, ValueError) as exc:
        log.info("Failed to read %s of %s: %s", TOPIC_LIMIT, ", ".join(names), exc)
        return limits
    for resource, future in futures.items():
        while not future.done() and time.monotonic() < deadline_s and not (cancelled and cancelled.is_set()):
            wait([future], _POLL_INTERVAL_S)
        try:
            limits[resource.name] = int(future.result(0)[TOPIC_LIMIT].value)
        except (ck.KafkaException, TimeoutError, KeyError, ValueError) as exc:
            if isinstance(exc, ck.KafkaException) and exc.args[0].code() in NOT_AUTHORIZED:
                limits[resource.name] = None
                log.info(
                    "%s of the topic %s is unknown: DescribeConfigs is not allowed",
                    TOPIC_LIMIT,
                    resource.name,
                )
            else:
                log.info("Failed to read %s of the topic %s: %s", TOPIC_LIMIT, resource.name, repr(exc))
    return limits
