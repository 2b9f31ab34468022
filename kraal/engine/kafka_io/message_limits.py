"""The largest record batch that each topic accepts, `max.message.bytes`, and producers' batches that fit.

Brokers refuse a larger batch with MESSAGE_TOO_LARGE. Kafka's producer splits it into batches of `batch.size`, and up to
version 4.1 no further: if `batch.size` is larger than the limit, it sends the same batch forever (KAFKA-8350). So
`batch.size` is at most the smallest limit of the topics that a run writes to, rounded down to a power of two, because
batches of several tasks share a producer only if its settings are equal.
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
"""The limit that is assumed for a topic whose limit is not known when it refuses a batch."""
_PROPAGATION_TIMEOUT_S: Final = 2.0
"""How long a new topic may be unknown to a broker."""
_MAX_LOOKUPS: Final = 2
"""Maximum number of lookups of a topic that is missing or not described. The first write may create it."""

Lookup = Callable[[Collection[str]], Mapping[str, int | None]]
"""Returns the limits of topics; None: the client may not read it. Topics whose lookup failed, for instance because they
are missing, are omitted. Blocks; does not raise.
"""


@dataclass(slots=True)
class MessageLimits:
    """The limits of the topics that one run writes to. One thread at a time, except for `capped` and `lower`."""

    lookup: Lookup | None = None
    """None: no limit is known."""
    _limits: dict[str, int | None] = field(default_factory=dict)
    _lookups: dict[str, int] = field(default_factory=dict)
    _lowered: dict[str, int] = field(default_factory=dict)
    """Limits of topics that refused batches although their limit is not known, or allows them."""
    _disproved: dict[str, int | None] = field(default_factory=dict)
    """The limits of these topics as looked up before."""

    def unseen(self, names: Iterable[str | None]) -> list[str]:
        """Return the topics whose limit has not been looked up yet, sorted."""
        return [] if self.lookup is None else sorted({name for name in names if name} - self._limits.keys())

    def ensure(self, names: Iterable[str | None], *, exist: bool = False) -> None:
        """Look up the limits of topics that were not seen yet. Blocks for new topics; does not raise.

        `exist`: the topics exist, although a broker may not know a new one yet.
        """
        unseen = self.unseen(names)
        deadline_s = time.monotonic() + (_PROPAGATION_TIMEOUT_S if exist else 0.0)
        while unseen and self.lookup is not None:
            for name, limit in self.lookup(unseen).items():
                self._limits[name] = limit
                if limit != self._disproved.get(name, limit):  # it was changed
                    self._lowered.pop(name, None)
            unseen = self.unseen(unseen)
            if not unseen or time.monotonic() >= deadline_s:
                break
            time.sleep(_POLL_INTERVAL_S)
        for name in unseen:
            self._lookups[name] = self._lookups.get(name, 0) + 1
            if self._lookups[name] >= _MAX_LOOKUPS:
                self._limits[name] = None

    def lower(self, topic: str) -> int:
        """Return a lower limit for a topic that refuses batches, valid unless the next lookup returns another one."""
        limits = (self._smallest, self._limits.get(topic), self._lowered.get(topic), _ASSUMED_LIMIT)
        limit = self._lowered[topic] = max(min(each for each in limits if each is not None) // 4, 1)
        self._disproved[topic] = self._limits.pop(topic, None)
        return limit

    @property
    def topics(self) -> AbstractSet[str]:
        """Return the topics that were seen."""
        return self._lookups.keys() | self._limits.keys() | self._lowered.keys()

    def known(self) -> Mapping[str, int]:
        """Return the known limits in bytes by topic."""
        return {name: limit for name, limit in self._limits.copy().items() if limit is not None}

    def capped(self, options: Mapping[str, str], key: str) -> Mapping[str, str]:
        """Return a producer's options whose `batch.size`, under this key, fits all topics; the same if it does."""
        smallest = self._smallest
        if smallest is None or smallest >= int(options.get(key, 0)):
            return options
        return {**options, key: str(fitting(smallest))}

    @property
    def _smallest(self) -> int | None:
        return min((*self.known().values(), *self._lowered.copy().values()), default=None)


def fitting(limit: int) -> int:
    """Return the size of batches for a limit in bytes: the next lower power of two, at least 1."""
    return 1 << max(limit.bit_length() - 1, 0)


def make_reader(settings: Mapping[str, Any], cancelled: threading.Event | None = None) -> Lookup:
    """Return a lookup with an admin client of its own for each call; `settings`: librdkafka's; `cancelled` ends it."""

    def lookup(names: Collection[str]) -> Mapping[str, int | None]:
        return read_limits(settings, names, cancelled)

    return lookup


def read_limits(
    settings: Mapping[str, Any], names: Collection[str], cancelled: threading.Event | None = None
) -> Mapping[str, int | None]:
    """Request the limits of topics from the brokers. See `Lookup`."""
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
