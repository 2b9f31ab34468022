"""Runs of SparkSource and SparkSink on a stage."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import BatchDone, Committed, Failed, Opened, Stopped
from tests.fakes.spark.stage import Opening, Stage

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
PLAIN = {"value.converter": JSON, "value.converter.schemas.enable": "false"}


@dataclass
class Source:
    """A SparkSource that is started repeatedly at its latest offsets."""

    stage: Stage
    config: Mapping[str, str]
    topic: str
    offsets: dict[SourcePartition, Offset] = field(default_factory=dict)
    read: int = 0

    def open(self) -> Opening:
        opening = self.stage.open(
            f"spark-{uuid.uuid4().hex[:8]}", "SparkSource", {**PLAIN, **self.config}, dict(self.offsets)
        )
        opening.expect(Opened)
        return opening

    def run(self, records: int) -> None:
        """Start the source, wait until it has written `records` further records, and stop it."""
        opening = self.open()
        count = 0
        while count < records:
            opening.run.next()
            done = opening.expect(BatchDone)
            self.offsets |= done.offsets
            count += done.records
        opening.run.stop()
        assert opening.expect(Stopped).clean
        self.read += count
        assert count == records

    def fail(self) -> str:
        """Start the source, and return the trace of its failure."""
        opening = self.open()
        opening.run.next()
        return opening.expect(Failed).trace

    def values(self) -> list[Any]:
        """Return all values in the topic."""
        return [json.loads(message.value()) for message in self.stage.messages(self.topic, self.read)]


def source(stage: Stage, config: Mapping[str, str]) -> Source:
    """Return a source with a new topic and a short poll interval."""
    topic = stage.topic()
    named = {"topic.prefix": topic} if "topic.prefix" in config else {"topic": topic}
    return Source(
        stage, {"spark.poll.interval.ms": "100", "jdbc.poll.interval.ms": "100", **config, **named}, topic
    )


def run_sink(
    stage: Stage, config: Mapping[str, str], count: int, *, name: str = "", connector: str = "SparkSink"
) -> None:
    """Run a sink until it has committed `count` records; a sink with the same name continues at its offsets."""
    common = {"key.converter": STRING, "consumer.override.auto.offset.reset": "earliest"}
    opening = stage.open(name or f"sink-{uuid.uuid4().hex[:8]}", connector, {**common, **config})
    opening.expect(Opened)
    while count > 0:
        opening.run.next()
        done = opening.expect(BatchDone)
        count -= done.records
        opening.run.commit(done.offsets)
        opening.expect(Committed)
    opening.run.stop()
    assert opening.expect(Stopped).clean
    assert count == 0
