"""Tests that unsent records of a worker that loses its brokers during a job are not written later."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kraal.broker.broker import HOST, Broker, free_port
from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Opened, Stopped, Waiting
from kraal.engine.client_options import SHARED_CLIENT
from kraal.plugins.api import SourceBatch
from scripts.chaos_run.proxy import Mode, Proxy
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import RunObserver, TaskHarness, await_ready

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kraal.engine.engine import SparkEngine

RECORD_COUNT = 100
VALUES = [str(number) for number in range(RECORD_COUNT)]
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    """Run a proxy in front of one of the broker's listeners."""
    tcp_proxy = Proxy(free_port())
    yield tcp_proxy
    tcp_proxy.close()


@pytest.fixture(scope="module")
def broker(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Run a broker with two listeners: one for the disconnected worker, and one for all other clients."""
    port, controller, proxied_port = free_port(), free_port(), proxy._target
    listeners = {
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller},CUT://{HOST}:{proxied_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port},CUT://{HOST}:{proxy.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CUT:PLAINTEXT",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
    }
    server = Broker(tmp_path_factory.mktemp("cut-off"), port, extra=listeners)
    server.start()
    yield server
    server.stop()


def table_batch(topic: str) -> SourceBatch:
    """Return a small batch, which is sent by the producer that tasks share."""
    return SourceBatch(
        offsets={SourcePartition.of({"list": "a"}): {"position": RECORD_COUNT}},
        table=pa.table({"value": VALUES}),
        topic=topic,
    )


def spark_batch(topic: str) -> SourceBatch:
    """Return a batch that Spark reads, which is sent by the task's own producer."""

    def read(spark: SparkSession) -> DataFrame:
        return spark.range(0, RECORD_COUNT, 1, 1).selectExpr("cast(id as string) as value")

    return plugins.read_batch(read, RECORD_COUNT, topic)


class HangingTask:
    """A task whose second batch is stuck in a disconnected producer."""

    def __init__(
        self, engine: SparkEngine, broker: Broker, proxy: Proxy, batch: Callable[[str], SourceBatch]
    ) -> None:
        await_ready(engine)
        self.harness, self.lease, self._proxy = (
            TaskHarness(engine, broker.bootstrap),
            threading.Event(),
            proxy,
        )
        self.task, self.topic = f"cut-{uuid.uuid4().hex[:8]}", self.harness.topic()
        self.client_id = SHARED_CLIENT if batch is table_batch else f"connector-producer-{self.task}-0"
        self.lease.set()
        proxy.set_mode(Mode.STRAIGHT)
        config = {"producer.override.bootstrap.servers": f"{HOST}:{proxy.port}"}
        self.observer: RunObserver = self.harness.open(self.task, config=config, lease=self.lease.is_set)
        self.observer.expect(Opened)
        plugins.BATCHES[self.task].append(batch(self.topic))
        self.observer.run.next()
        self.observer.expect(BatchDone)  # the producer then has the topic's metadata
        proxy.set_mode(Mode.CUT)
        plugins.BATCHES[self.task].append(batch(self.topic))
        self.observer.run.next()
        self.wait_until(lambda: "awaitFlushCompletion" in self.threads())

    def threads(self) -> str:
        """Return the JVM's threads with their stacks."""
        jvm: Any = self.harness.engine._session.spark().session.sparkContext._jvm
        beans = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
        return "".join(str(thread) for thread in beans.dumpAllThreads(False, False))  # noqa: FBT003 - a Java method

    def wait_until(self, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_done():
            assert time.monotonic() < deadline, self.threads()
            time.sleep(0.05)

    def reconnect_without_producer(self) -> None:
        """Wait until the producer is closed, reconnect the task, and write a record with another client."""
        self.wait_until(lambda: f"kafka-producer-network-thread | {self.client_id}" not in self.threads())
        self._proxy.set_mode(Mode.STRAIGHT)
        self.harness.produce(self.topic, ["new"])


@pytest.mark.parametrize("batch", [table_batch, spark_batch])
def test_job_without_a_lease_writes_nothing_and_is_retried_with_one(
    engine: SparkEngine, broker: Broker, proxy: Proxy, batch: Callable[[str], SourceBatch]
) -> None:
    hanging_task = HangingTask(engine, broker, proxy, batch)
    hanging_task.lease.clear()
    while "lease has expired" not in hanging_task.observer.expect(Waiting, TIMEOUT_S).reason:
        pass
    hanging_task.reconnect_without_producer()
    hanging_task.lease.set()
    assert hanging_task.observer.expect(BatchDone).records == RECORD_COUNT
    hanging_task.observer.run.stop()
    assert hanging_task.observer.expect(Stopped).clean
    assert hanging_task.harness.values(hanging_task.topic, 2 * RECORD_COUNT + 1) == [*VALUES, "new", *VALUES]


@pytest.mark.parametrize("batch", [table_batch, spark_batch])
def test_cancelled_job_writes_no_records_afterwards(
    engine: SparkEngine, broker: Broker, proxy: Proxy, batch: Callable[[str], SourceBatch]
) -> None:
    hanging_task = HangingTask(engine, broker, proxy, batch)
    hanging_task.observer.run.cancel()
    assert not hanging_task.observer.expect(Stopped).clean
    hanging_task.reconnect_without_producer()
    assert hanging_task.harness.values(hanging_task.topic, RECORD_COUNT + 1) == [*VALUES, "new"]


def test_job_whose_shared_producer_was_closed_is_retried(
    engine: SparkEngine, broker: Broker, proxy: Proxy
) -> None:
    hanging_task = HangingTask(engine, broker, proxy, table_batch)
    engine._context.producers.close(SHARED_CLIENT)
    waiting = hanging_task.observer.expect(Waiting, TIMEOUT_S)
    assert waiting.retry
    assert "Producer is closed forcefully" in waiting.reason
    proxy.set_mode(Mode.STRAIGHT)
    assert hanging_task.observer.expect(BatchDone).records == RECORD_COUNT
    hanging_task.observer.run.stop()
    assert hanging_task.observer.expect(Stopped).clean
