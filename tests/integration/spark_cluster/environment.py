"""A Spark cluster, a broker with one listener behind a proxy, and Kraal workers that use both."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka as ck

from kraal.broker.broker import HOST, Broker, free_port
from kraal.broker.records import read_topic
from kraal.testing.process import WorkerProcess
from scripts.chaos_run.proxy import Proxy
from scripts.spark_cluster.standalone import SparkStandalone
from tests.fakes.spark.bare_python import bare_python

TIMEOUT_S = 180.0
CORES = 2


@dataclass
class SparkEnvironment:
    """The processes that the tests of a module share."""

    cluster: SparkStandalone
    broker: Broker
    proxy: Proxy
    directory: Path
    python: Path
    """The Python of executors, without Kraal."""
    workers: list[WorkerProcess] = field(default_factory=list)

    def worker(
        self, name: str, properties: Mapping[str, str] | None = None, group: str | None = None
    ) -> WorkerProcess:
        """Return a worker that uses the cluster. The worker is stopped at the end of the module."""
        settings = {
            **self.cluster.settings,
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.pyspark.python": str(self.python),
            "task.shutdown.graceful.timeout.ms": "1000",
            "spark.cluster.shared.paths": str(self.directory / "shared"),
            **(properties or {}),
        }
        (self.directory / "shared").mkdir(exist_ok=True)
        worker_process = WorkerProcess(
            self.directory / name, self.broker.bootstrap, properties=settings, group=group
        )
        self.workers.append(worker_process)
        return worker_process

    def create_shared_folder(self, name: str) -> Path:
        """Create a folder that executors can access at the same path."""
        folder = self.directory / "shared" / name
        folder.mkdir(parents=True)
        return folder

    def values(self, topic: str) -> list[bytes]:
        """Return the values of a topic, in order within each partition."""
        return [record.value or b"" for record in read_topic(self.broker.bootstrap, topic, timeout_s=30.0)]

    def wait_for_values(
        self, worker: WorkerProcess, topic: str, count: int, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Wait until a topic has at least `count` records."""
        worker.wait_until(
            f"{topic} had {count} records",
            lambda: read_end_offset(self.broker.bootstrap, topic) >= count,
            timeout_s=timeout_s,
        )

    def produce(self, topic: str, values: list[bytes]) -> None:
        """Write values to partition 0."""
        producer = ck.Producer({"bootstrap.servers": self.broker.bootstrap})
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0

    def threads(self) -> str:
        """Return thread dumps of all executors."""
        dumps = ""
        for pid in self.cluster.executors():
            output = Path(f"/proc/{pid}/cwd").readlink() / "stdout"
            output_size = output.stat().st_size
            os.kill(pid, signal.SIGQUIT)
            dumps += _wait_for(output, output_size)
        return dumps

    def close(self) -> None:
        """Stop all processes."""
        for worker in self.workers:
            worker.close()
        self.cluster.stop()
        self.broker.stop()
        self.proxy.close()


def start_environment(directory: Path, spark_properties: Mapping[str, str] | None = None) -> SparkEnvironment:
    """Start a cluster with two Spark workers, and a broker. Tests start their own Kraal workers.

    `spark_properties` are the properties of the Spark master and the Spark workers.
    """
    proxied_port = free_port()
    proxy = Proxy(proxied_port)
    port, controller = free_port(), free_port()
    listeners = {
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller},CUT://{HOST}:{proxied_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port},CUT://{HOST}:{proxy.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CUT:PLAINTEXT",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
    }
    broker = Broker(directory / "kafka", port, extra=listeners)
    cluster = SparkStandalone(
        directory / "spark", environment={"PYTHONPATH": ""}, properties=spark_properties
    )
    environment = SparkEnvironment(cluster, broker, proxy, directory, bare_python(directory / "python"))
    try:
        cluster.start()
        broker.start()
    except BaseException:
        environment.close()
        raise
    return environment


def kill_executors(cluster: SparkStandalone) -> None:
    """Kill all executors with SIGKILL."""
    for pid in cluster.executors():
        os.kill(pid, signal.SIGKILL)


def read_end_offset(bootstrap: str, topic: str, *, level: str = "read_committed") -> int:
    """Return the end offset of partition 0 (after any transaction marker), or 0 if the broker does not respond."""
    consumer = ck.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "ends", "log_level": 2, "isolation.level": level}
    )
    try:
        with suppress(ck.KafkaException):
            return int(
                consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), timeout=5.0, cached=False)[1]
            )
        return 0
    finally:
        consumer.close()


def _wait_for(output: Path, output_size: int) -> str:
    """Return the thread dump that a JVM appends to its output, or an empty string if there is none within 20 s.

    The dump ends with a heap summary.
    """
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        dump = output.read_bytes()[output_size:].decode(errors="replace")
        if "\nHeap\n" in dump:
            return dump
        time.sleep(0.05)
    return ""


def wait_until(is_done: Callable[[], bool], description: str, timeout_s: float = TIMEOUT_S) -> None:
    """Wait until `is_done` returns True. Raises AssertionError after the timeout."""
    deadline = time.monotonic() + timeout_s
    while not is_done():
        assert time.monotonic() < deadline, description
        time.sleep(0.2)
