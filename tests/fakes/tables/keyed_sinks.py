"""SparkSink with `write.mode=upsert` or `cdc`, on a real database, for tests."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import confluent_kafka as ck

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone, Failed, Opened, ProofRequest, Stopped, TaskSpec
from kraal.plugins.api import TopicPartition
from kraal.proof.result import Verdict
from tests.fakes.spark.stage import RunObserver, TaskHarness
from tests.fakes.spark.tasks import JSON_CONVERTER, run_sink
from tests.fakes.tables.records import Record


class KeyedSink:
    """A sink of one topic, which is started repeatedly."""

    def __init__(self, harness: TaskHarness, database: Mapping[str, str], table: str, **changes: str) -> None:
        self.harness, self.topic = harness, harness.topic()
        self.name = f"sink-{uuid.uuid4().hex[:8]}"
        self.config = {
            "topics": self.topic,
            "spark.format": "jdbc",
            **database,
            "jdbc.table": table,
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            **changes,
        }

    def produce(self, records: Sequence[Record]) -> int:
        producer = ck.Producer({"bootstrap.servers": self.harness.address})
        for key, value in records:
            encoded = [None if text is None else text.encode() for text in (key, value)]
            producer.produce(self.topic, key=encoded[0], value=encoded[1], partition=0)
        assert producer.flush(30) == 0
        return len(records)

    def write(self, *records: Record) -> None:
        """Produce records, and run the sink until it has committed them."""
        run_sink(self.harness, self.config, self.produce(records), name=self.name)

    def fail(self, *records: Record) -> str:
        """Produce records, and return the trace of the sink's failure."""
        self.produce(records)
        return self.open().expect(Failed).trace

    def write_without_commit(self, *records: Record) -> None:
        """Produce records and write them; the task is killed before it commits their offsets to Kafka."""
        count = self.produce(records)
        observer = self.open()
        assert observer.expect(BatchDone).records == count
        observer.run.cancel()
        observer.expect(Stopped)

    def open(self) -> RunObserver:
        """Start a task, and request a batch."""
        config = {"consumer.override.auto.offset.reset": "earliest", **self.config}
        observer = self.harness.open(self.name, "SparkSink", config)
        observer.expect(Opened)
        observer.run.next()
        return observer

    def prove(self, committed: int) -> tuple[Verdict, list[int], int]:
        """Return the verdict, the offsets of missing rows, and the number of unexpected rows."""
        spec = TaskSpec(
            task=TaskId(ConnectorName(self.name), 0),
            task_config={},
            connector_config={"name": self.name, "connector.class": "SparkSink", **self.config},
        )
        result = self.harness.engine.open_proof(spec).run(
            ProofRequest(committed={TopicPartition(self.topic, 0): committed})
        )
        differences = result.differences
        offsets = [offset for span in differences.missing for offset in range(span.first, span.last + 1)]
        return result.verdict, offsets, differences.unexpected_count
