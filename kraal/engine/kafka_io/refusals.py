"""Refusals by brokers: retriable errors after which Kafka's producers silently retry a request.

With Connect's settings, a producer retries forever after a retriable error, for example while a partition has too few
in-sync replicas or a topic does not exist. The producer only logs a warning, which `java/Refusals.java` collects in the
driver's JVM, or in each executor of a cluster.
Source: Sender.completeBatch, NetworkClient.DefaultMetadataUpdater.handleSuccessfulResponse (Kafka 3.9).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from kraal.engine.session.executors import PRODUCERS_PLUGIN
from kraal.engine.session.janino import load_class, new_instance

if TYPE_CHECKING:
    from kraal.engine.session.session import Spark

_CLASS: Final = "kraal.Refusals"
_MAX_AGE_MS: Final = 20_000
_RETRIED_REQUEST: Final = re.compile(
    r"(?P<count>\d+) \[Producer clientId=(?P<client>[^],]*).*?\] Got error produce response (?:in|with) "
    r"correlation id on topic-partition (?P<topic>\S+)-(?P<partition>\d+), (?:splitting and )?"
    r"retrying\.? Error: (?P<error>.*)"
)
_NO_METADATA: Final = re.compile(
    r"(?P<count>\d+) \[Producer clientId=(?P<client>[^],]*).*?\] "
    r"(?:Error while fetching metadata|The metadata response .*?) with correlation id ?: \{(?P<topics>.*)\}"
)
TOO_LARGE: Final = "MESSAGE_TOO_LARGE"
_ADVICE: Final = {
    "NOT_ENOUGH_REPLICAS": "fewer replicas are in sync than min.insync.replicas of the topic",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "fewer replicas are in sync than min.insync.replicas of the topic",
    "UNKNOWN_TOPIC_OR_PARTITION": "the topic does not exist, and neither Kraal (topic.creation.enable) nor the "
    "brokers (auto.create.topics.enable) have created it",
    "LEADER_NOT_AVAILABLE": "the partition has no leader",
    TOO_LARGE: "batches are larger than max.message.bytes of the topic",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request of a producer that is retried because of an error for a topic."""

    client: str
    """The client id of the producer."""
    topic: str
    error: str
    count: int
    """Number of errors since the collector was started."""

    @override
    def __str__(self) -> str:
        """Return the refusal as a message for users."""
        name = self.error.split(" ", 1)[0].strip(".:,")
        advice = f": {_ADVICE[name]}" if name in _ADVICE else ""
        return f"The brokers refuse records for the topic {self.topic!r} with {self.error}{advice}"

    @property
    def is_too_large(self) -> bool:
        """Whether the batch is too large for the topic."""
        return self.error.startswith(TOO_LARGE)


def read_refusals(spark: Spark, *, in_executors: bool) -> list[Refusal]:
    """Return the recent refusals. In the driver's JVM, the first call starts the collector.

    Must be called on a job thread.
    """
    context = spark.session.sparkContext
    if in_executors:
        return parse_refusals(str(new_instance(context, PRODUCERS_PLUGIN).refusals()))
    collector = load_class(context, _CLASS).getMethod("get", None).invoke(None, None)
    return parse_refusals(str(collector.since(_MAX_AGE_MS)))


def parse_refusals(text: str) -> list[Refusal]:
    """Parse the lines of the collector, ignoring other warnings; add up the counts of partitions and executors."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for line in text.splitlines():
        if (request := _RETRIED_REQUEST.match(line)) is not None:
            counts[request["client"], request["topic"], request["error"].strip()] += int(request["count"])
        elif (lookup := _NO_METADATA.match(line)) is not None:
            for pair in lookup["topics"].split(", "):
                topic, _, error = pair.rpartition("=")
                counts[lookup["client"], topic, error] += int(lookup["count"])
    return [Refusal(*key, count) for key, count in counts.items()]
