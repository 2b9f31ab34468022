"""Runs of SparkSource and SparkSink on a task harness."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import (
    BatchDone,
    Committed,
    Failed,
    Opened,
    ProofRequest,
    SourceProofInput,
    Stopped,
    TaskSpec,
)
from kraal.proof.result import ProofResult
from tests.fakes.spark.stage import RunObserver, TaskHarness

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
SCHEMALESS_JSON = {"value.converter": JSON_CONVERTER, "value.converter.schemas.enable": "false"}


@dataclass
class Source:
    """A source that is started repeatedly at its latest offsets."""

    harness: TaskHarness
    config: Mapping[str, str]
    topic: str
    offsets: dict[SourcePartition, Offset] = field(default_factory=dict)
    record_count: int = 0
    connector: str = "SparkSource"

    def open(self) -> RunObserver:
        observer = self.harness.open(
            f"spark-{uuid.uuid4().hex[:8]}",
            self.connector,
            {**SCHEMALESS_JSON, **self.config},
            dict(self.offsets),
        )
        observer.expect(Opened)
        return observer

    def run(self, records: int) -> None:
        """Start the source, wait until it has written `records` further records, and stop it."""
        observer = self.open()
        count = 0
        while count < records:
            observer.run.next()
            done = observer.expect(BatchDone)
            self.offsets |= done.offsets
            count += done.records
        observer.run.stop()
        assert observer.expect(Stopped).clean
        self.record_count += count
        assert count == records

    def prove(
        self,
        offsets: Mapping[SourcePartition, Offset] | None = None,
        task_configs: Sequence[Mapping[str, str]] = ({},),
    ) -> ProofResult:
        """Prove the source with these stored offsets, by default those of its runs."""
        config = {**SCHEMALESS_JSON, **self.config}
        return prove_source(
            self.harness, self.connector, config, self.offsets if offsets is None else offsets, task_configs
        )

    def fail(self) -> str:
        """Start the source, and return the trace of its failure."""
        observer = self.open()
        observer.run.next()
        return observer.expect(Failed).trace

    def values(self) -> list[Any]:
        """Return all values in the topic."""
        return [
            json.loads(message.value()) for message in self.harness.messages(self.topic, self.record_count)
        ]


def source(harness: TaskHarness, config: Mapping[str, str]) -> Source:
    """Return a source with a new topic and a short poll interval."""
    topic = harness.topic()
    topic_config = {"topic.prefix": topic} if "topic.prefix" in config else {"topic": topic}
    return Source(
        harness,
        {"spark.poll.interval.ms": "100", "jdbc.poll.interval.ms": "100", **config, **topic_config},
        topic,
    )


def prove_source(
    harness: TaskHarness,
    connector: str,
    config: Mapping[str, str],
    offsets: Mapping[SourcePartition, Offset],
    task_configs: Sequence[Mapping[str, str]] = ({},),
) -> ProofResult:
    """Prove a source with these stored offsets; `task_configs` are the settings of each task."""
    name = ConnectorName(f"proof-{uuid.uuid4().hex[:8]}")
    connector_config = {"name": name, "connector.class": connector, **config}
    spec = TaskSpec(task=TaskId(name, 0), task_config={}, connector_config=connector_config)
    source_input = SourceProofInput(
        task_configs=[{**connector_config, **task_config} for task_config in task_configs],
        read_offsets=lambda: offsets,
    )
    return harness.engine.open_proof(spec).run(ProofRequest(source=source_input))


def run_sink(
    harness: TaskHarness,
    config: Mapping[str, str],
    count: int,
    *,
    name: str = "",
    connector: str = "SparkSink",
) -> None:
    """Run a sink until it has committed `count` records; a sink with the same name continues at its offsets."""
    common = {"key.converter": STRING_CONVERTER, "consumer.override.auto.offset.reset": "earliest"}
    observer = harness.open(name or f"sink-{uuid.uuid4().hex[:8]}", connector, {**common, **config})
    observer.expect(Opened)
    while count > 0:
        observer.run.next()
        done = observer.expect(BatchDone)
        count -= done.records
        observer.run.commit(done.offsets)
        observer.expect(Committed)
    observer.run.stop()
    assert observer.expect(Stopped).clean
    assert count == 0
