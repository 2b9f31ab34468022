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
from tests.fakes.spark.stage import Opening, Stage, await_ready

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kraal.engine.engine import SparkEngine

COUNT = 100
VALUES = [str(number) for number in range(COUNT)]
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    """Return the proxy in front of one of the broker's listeners."""
    tcp_proxy = Proxy(free_port())
    yield tcp_proxy
    tcp_proxy.close()


@pytest.fixture(scope="module")
def broker(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a broker with two listeners: one for the disconnected worker, and one for all other clients."""
    port, controller, behind = free_port(), free_port(), proxy._target
    listeners = {
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller},CUT://{HOST}:{behind}",
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
        offsets={SourcePartition.of({"list": "a"}): {"position": COUNT}},
        table=pa.table({"value": VALUES}),
        topic=topic,
    )


def spark_batch(topic: str) -> SourceBatch:
    """Return a batch that Spark reads, which is sent by the task's own producer."""

    def read(spark: SparkSession) -> DataFrame:
        return spark.range(0, COUNT, 1, 1).selectExpr("cast(id as string) as value")

    return plugins.read_batch(read, COUNT, topic)


class HangingTask:
    """A task whose second batch is stuck in a disconnected producer."""

    def __init__(
        self, engine: SparkEngine, broker: Broker, proxy: Proxy, batch: Callable[[str], SourceBatch]
    ) -> None:
        await_ready(engine)
        self.stage, self.lease, self._proxy = Stage(engine, broker.bootstrap), threading.Event(), proxy
        self.task, self.topic = f"cut-{uuid.uuid4().hex[:8]}", self.stage.topic()
        self.client = SHARED_CLIENT if batch is table_batch else f"connector-producer-{self.task}-0"
        self.lease.set()
        proxy.set_mode(Mode.STRAIGHT)
        config = {"producer.override.bootstrap.servers": f"{HOST}:{proxy.port}"}
        self.opening: Opening = self.stage.open(self.task, config=config, lease=self.lease.is_set)
        self.opening.expect(Opened)
        plugins.BATCHES[self.task].append(batch(self.topic))
        self.opening.run.next()
        self.opening.expect(BatchDone)  # the producer then has the topic's metadata
        proxy.set_mode(Mode.CUT)
        plugins.BATCHES[self.task].append(batch(self.topic))
        self.opening.run.next()
        self.wait_until(lambda: "awaitFlushCompletion" in self.threads())

    def threads(self) -> str:
        """Return the JVM's threads with their stacks."""
        jvm: Any = self.stage.engine._session.spark().session.sparkContext._jvm
        beans = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
        return "".join(str(thread) for thread in beans.dumpAllThreads(False, False))  # noqa: FBT003 - a Java method

    def wait_until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not done():
            assert time.monotonic() < deadline, self.threads()
            time.sleep(0.05)

    def reconnect_without_producer(self) -> None:
        """Wait until the producer is closed, reconnect the task, and write a record with another client."""
        self.wait_until(lambda: f"kafka-producer-network-thread | {self.client}" not in self.threads())
        self._proxy.set_mode(Mode.STRAIGHT)
        self.stage.produce(self.topic, ["new"])


@pytest.mark.parametrize("batch", [table_batch, spark_batch])
def test_job_without_a_lease_writes_nothing_and_is_retried_with_one(
    engine: SparkEngine, broker: Broker, proxy: Proxy, batch: Callable[[str], SourceBatch]
) -> None:
    hanging = HangingTask(engine, broker, proxy, batch)
    hanging.lease.clear()
    while "lease has expired" not in hanging.opening.expect(Waiting, TIMEOUT_S).reason:
        pass
    hanging.reconnect_without_producer()
    hanging.lease.set()
    assert hanging.opening.expect(BatchDone).records == COUNT
    hanging.opening.run.stop()
    assert hanging.opening.expect(Stopped).clean
    assert hanging.stage.values(hanging.topic, 2 * COUNT + 1) == [*VALUES, "new", *VALUES]


@pytest.mark.parametrize("batch", [table_batch, spark_batch])
def test_cancelled_job_writes_no_records_afterwards(
    engine: SparkEngine, broker: Broker, proxy: Proxy, batch: Callable[[str], SourceBatch]
) -> None:
    hanging = HangingTask(engine, broker, proxy, batch)
    hanging.opening.run.cancel()
    assert not hanging.opening.expect(Stopped).clean
    hanging.reconnect_without_producer()
    assert hanging.stage.values(hanging.topic, COUNT + 1) == [*VALUES, "new"]


def test_job_whose_shared_producer_was_closed_is_retried(
    engine: SparkEngine, broker: Broker, proxy: Proxy
) -> None:
    hanging = HangingTask(engine, broker, proxy, table_batch)
    engine._context.producers.close(SHARED_CLIENT)
    waiting = hanging.opening.expect(Waiting, TIMEOUT_S)
    assert waiting.retry
    assert "Producer is closed forcefully" in waiting.reason
    proxy.set_mode(Mode.STRAIGHT)
    assert hanging.opening.expect(BatchDone).records == COUNT
    hanging.opening.run.stop()
    assert hanging.opening.expect(Stopped).clean
