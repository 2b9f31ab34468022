"""The check of a cluster's internal topics when a worker starts: creates them, or waits until they can be used.

A topic with another cleanup policy, or a config topic of several partitions, would lose data later. Java ends then.
This worker waits: the topic is mended on the brokers, and a process that starts again and again hides the reason. It
does not read and so does not join its group, logs what to do, answers requests with it, and continues once the topic is
mended. Settings that brokers refuse are in the worker's file, so they end the process, as does a missing topic if the
worker may not create it (KIP-1209).
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

RETRY_S: Final = 1.0
LOG_INTERVAL_S: Final = 60.0
"""Seconds between two log lines with the same reason."""
_CHECK_INTERVAL_S: Final = 0.25


def internal_topics(config: DistributedConfig) -> list[InternalTopic]:
    """Return the config, offset and status topics of a worker, with their settings."""
    return [
        _internal_topic(config.config_topic, "connector configurations", single=True),
        offset_topic(config),
        _internal_topic(config.status_topic, "connector and task statuses"),
    ]


def offset_topic(config: DistributedConfig) -> InternalTopic:
    """Return the topic of source offsets, with its settings."""
    return _internal_topic(config.offset_topic, "source connector offsets")


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
    """Runs the check on a thread of its own; the other methods: any thread."""

    def __init__(
        self, ensure: Callable[[], None], ended: threading.Event, fail: Callable[[TopicUnusable], None]
    ) -> None:
        """Check nothing yet.

        Args:
            ensure: creates or checks all topics once; raises as `kraal.kafka.topics.ensure_topics`.
            ended: set when the process shuts down.
            fail: called with an error that only a change of the worker's file mends.
        """
        self._ensure = ensure
        self._ended = ended
        self._fail = fail
        self._checked = threading.Event()
        """Set once the topics can be read: no topic is misconfigured."""
        self.problem: str | None = None
        """Why the worker waits, and what to do; None: it does not wait for an administrator."""

    def start(self) -> None:
        """Check until the topics can be used, or the process ends."""
        threading.Thread(target=self.run, name="topics", daemon=True).start()

    def run(self) -> None:
        """Check again and again, until the topics can be used or the process ends."""
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
                    log.info("Continuing the start: the internal topics can be used now")
                self._release()
                return
            if text != reason or time.monotonic() - logged_s >= LOG_INTERVAL_S:
                reason, logged_s = text, time.monotonic()
                log.log(level, "%s", text)
            self._ended.wait(RETRY_S)

    def wait(self) -> None:
        """Block until the topics may be read. Raises StoreError if the process ends first."""
        while not self._checked.wait(_CHECK_INTERVAL_S):
            if self._ended.is_set():
                raise StoreError("the worker is shutting down")

    def _release(self) -> None:
        self.problem = None
        self._checked.set()
