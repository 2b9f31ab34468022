"""Check of a cluster's internal topics at startup: creates the topics, or waits until they are usable.

A topic with a cleanup policy other than compact, or a config topic with several partitions, would lose data later.
Java exits in this case. Kraal's worker waits, because the topic has to be fixed on the brokers, and a crash loop would
hide the reason. While it waits, the worker neither reads the topics nor joins its group. It logs a remedy, which error
responses also contain, and continues once the topic is fixed. Settings that brokers reject are in the worker's file and
therefore cause an exit, as does a missing topic that the worker may not create (KIP-1209).
Source: KafkaTopicBasedBackingStore, KafkaConfigBackingStore.start, TopicAdmin (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from kraal.config.worker.distributed import DistributedConfig
from kraal.config.worker.distributed import InternalTopic as ConfiguredTopic
from kraal.core.errors import KraalError, StoreError, TopicMisconfigured, TopicUnusable
from kraal.kafka.topics import InternalTopic

log = logging.getLogger(__name__)

RETRY_INTERVAL_S: Final = 1.0
LOG_INTERVAL_S: Final = 60.0
"""Minimum interval between log lines with the same reason."""
_CHECK_INTERVAL_S: Final = 0.25


def internal_topics(config: DistributedConfig) -> list[InternalTopic]:
    """Return the config, offset and status topics of a worker with their settings."""
    return [
        _internal_topic(config.config_topic, "connector configurations", single=True),
        offset_topic(config),
        _internal_topic(config.status_topic, "connector and task statuses"),
    ]


def offset_topic(config: DistributedConfig) -> InternalTopic:
    """Return the offset topic with its settings."""
    return _internal_topic(config.offset_topic, "source connector offsets")


def ledger_topic(topic: ConfiguredTopic) -> InternalTopic:
    """Return the ledger's topic with its settings."""
    return _internal_topic(topic, "delivery totals", single=True)


def _internal_topic(topic: ConfiguredTopic, purpose: str, *, single: bool = False) -> InternalTopic:
    return InternalTopic(
        name=topic.name,
        property=topic.key,
        purpose=purpose,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        single=single,
        settings=topic.settings,
    )


class InternalTopicsCheck:
    """The check of the internal topics, which `start` runs on a separate thread. `wait` is thread-safe."""

    def __init__(
        self, ensure: Callable[[], None], ended: threading.Event, fail: Callable[[TopicUnusable], None]
    ) -> None:
        """Create a check that has not started.

        Args:
            ensure: creates or checks all topics once; raises the same errors as `kraal.kafka.topics.ensure_topics`.
            ended: set when the process shuts down.
            fail: called with an error that requires a change of the worker's file.
        """
        self._ensure = ensure
        self._ended = ended
        self._fail = fail
        self._are_readable = threading.Event()
        """Set once no topic is known to be misconfigured, so that the topics can be read."""
        self.problem: str | None = None
        """Problem that an administrator must fix, with a remedy; None if there is no such problem."""

    def start(self) -> None:
        """Start a thread that checks until the topics are usable or the process ends."""
        threading.Thread(target=self.run, name="topics", daemon=True).start()

    def run(self) -> None:
        """Check repeatedly until the topics are usable or the process ends."""
        reason, logged_s = "", 0.0
        while not self._ended.is_set():
            try:
                self._ensure()
            except TopicMisconfigured as error:
                self.problem = f"{error}. {error.hint}".replace("..", ".")
                level, text = logging.ERROR, f"Waiting for an internal topic to be changed. {self.problem}"
            except TopicUnusable as error:
                self._fail(error)
                return
            except StoreError as error:
                self._release()
                level, text = logging.WARNING, f"{error}; retrying{f'. {error.hint}' if error.hint else ''}"
            except KraalError as error:
                self._fail(TopicUnusable(str(error)))
                return
            else:
                if self.problem is not None:
                    log.info("Resuming startup: the internal topics are now usable")
                self._release()
                return
            if text != reason or time.monotonic() - logged_s >= LOG_INTERVAL_S:
                reason, logged_s = text, time.monotonic()
                log.log(level, "%s", text)
            self._ended.wait(RETRY_INTERVAL_S)

    def wait(self) -> None:
        """Block until the topics can be read. Raises StoreError if the process ends first."""
        while not self._are_readable.wait(_CHECK_INTERVAL_S):
            if self._ended.is_set():
                raise StoreError("the worker is shutting down")

    def _release(self) -> None:
        self.problem = None
        self._are_readable.set()
