"""Tests that the worker's producers keep the order of records if a broker rejects one request and accepts the next."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Mapping

import pyarrow as pa

from kraal.broker.broker import Broker
from kraal.broker.records import read_topic
from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone
from kraal.engine.client_options import worker_producer_configs
from kraal.engine.executor import JobResult
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.lanes.worker_producers import WorkerProducers
from tests.fakes.kafka.refusing_proxy import RefusingProxy
from tests.fakes.spark.pipe import create_topic

WRITE_TIMEOUT_S = 30.0
WRITE_PLAN = WritePlan(converters=None, options={}, key_schema=None, value_schema=None)
ONE_RECORD_PER_REQUEST = {"producer.override.batch.size": "1"}


class Writer:
    """A writer that sends batches with the worker's producers, and waits for acknowledgements."""

    def __init__(self, topic: str, configs: Mapping[str, str]) -> None:
        self._topic = topic
        self._configs = configs
        self.jobs: list[PendingBatch] = []
        self.producers = WorkerProducers(self.jobs.append, is_local=True)

    def write(self, values: list[bytes]) -> None:
        """Write one batch. Raises queue.Empty if the batch is not acknowledged."""
        results: queue.SimpleQueue[JobResult] = queue.SimpleQueue()
        batch = PendingBatch(
            task=TaskId(ConnectorName("c"), 0),
            table=pa.table({"value": values}),
            topic=self._topic,
            offsets={},
            plan=WRITE_PLAN,
            done=results.put,
            size=10,
            producer_configs=self._configs,
        )
        self.producers.put(batch, self)
        assert isinstance(results.get(timeout=WRITE_TIMEOUT_S), BatchDone)


def test_rejected_request_is_retried_before_the_next_one(kafka: Broker) -> None:
    topic = f"order-{uuid.uuid4().hex[:8]}"
    create_topic(kafka.bootstrap, topic)
    with RefusingProxy(kafka.bootstrap) as proxy:
        configs = worker_producer_configs({"bootstrap.servers": proxy.bootstrap}, ONE_RECORD_PER_REQUEST)
        assert configs is not None
        writer = Writer(topic, configs)
        writer.write([b"0"])
        proxy.refuse_next()
        writer.write([b"1", b"2", b"3"])
        writer.producers.close()
        assert proxy.refused_count == 1
    assert not writer.jobs
    assert [record.value for record in read_topic(kafka.bootstrap, topic, timeout_s=WRITE_TIMEOUT_S)] == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]
