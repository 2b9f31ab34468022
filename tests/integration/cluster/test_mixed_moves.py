"""Tests that work moves between Java and Kraal workers of one group without losing records."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import RUNNING, Pipe, create_topic
from tests.fakes.workers.java_worker import JavaWorker, MixedCluster

pytestmark = pytest.mark.ci

HEARTBEAT_CONNECTOR = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"


@pytest.fixture
def make_group(kafka: Broker, tmp_path: Path) -> Iterator[Callable[[], MixedCluster]]:
    """Yield a function that defines groups; their processes are killed after the test."""
    groups: list[MixedCluster] = []

    def make() -> MixedCluster:
        groups.append(MixedCluster(directory=tmp_path / f"mixed-{len(groups)}", bootstrap=kafka.bootstrap))
        return groups[-1]

    yield make
    for group in groups:
        group.close()


class PipePair:
    """Two pipes through a group, with methods that write lines and count duplicates."""

    def __init__(self, cluster: MixedCluster, kafka: Broker, directory: Path) -> None:
        """Create the pipes on the first running worker, and wait until they run."""
        self.cluster = cluster
        self.pipes = [Pipe(cluster.alive[0], directory) for _ in range(2)]
        for pipe in self.pipes:
            pipe.source_file.touch()
            create_topic(kafka.bootstrap, pipe.topic)
            pipe.create()
        self.wait_until_running()

    @property
    def names(self) -> Sequence[str]:
        """Names of the connectors."""
        return [name for pipe in self.pipes for name in (pipe.source, pipe.sink)]

    def wait_until_running(self) -> None:
        """Wait until every live worker reports all instances as RUNNING, none of them on a dead worker."""
        alive = {worker.url.partition("//")[2] for worker in self.cluster.alive}

        def are_on_running_workers() -> bool:
            return all({*self.cluster.owners(name).values()} <= alive for name in self.names)

        for name in self.names:
            self.cluster.wait_for_states(name, RUNNING)
        self.cluster.wait_until("all instances ran on running workers", are_on_running_workers)

    def wait_until_shared(self) -> None:
        """Wait until every running worker has work."""
        count = len(self.cluster.alive)
        self.cluster.wait_until("all workers had work", lambda: len(self.cluster.work()) == count)
        self.wait_until_running()

    def write(self, count: int = 50) -> int:
        """Write lines, wait until all are delivered, and return the total number of duplicates."""
        for pipe in self.pipes:
            pipe.worker = self.cluster.alive[0]
            pipe.write(count)
        for pipe in self.pipes:
            pipe.wait_until_through()
        return sum(pipe.assert_at_least_once() for pipe in self.pipes)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Write a few hundred lines per second until the context exits."""
        is_over = threading.Event()

        def write() -> None:
            while not is_over.wait(0.05):
                for pipe in self.pipes:
                    pipe.write(10)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


def is_leader(worker: WorkerProcess) -> bool:
    """Return whether the latest assignment in a worker's log names this worker as the leader."""
    urls = re.findall(r"leaderUrl='([^']+)'", worker.log_text())
    return bool(urls) and urls[-1] == f"{worker.url}/"


@pytest.mark.slow
def test_records_flow_when_java_and_kraal_leaders_die(
    make_group: Callable[[], MixedCluster], kafka: Broker, tmp_path: Path
) -> None:
    cluster = make_group()
    java = cluster.start_java()
    kraal = cluster.start_kraal()
    pipe_pair = PipePair(cluster, kafka, tmp_path)
    pipe_pair.wait_until_shared()
    assert is_leader(java)
    assert pipe_pair.write() == 0

    java.kill()
    pipe_pair.wait_until_running()
    assert is_leader(kraal)
    duplicates = pipe_pair.write()  # records whose offsets Java had not committed are delivered again

    java = cluster.start_java()
    pipe_pair.wait_until_shared()
    assert is_leader(kraal)
    assert pipe_pair.write() == duplicates, "graceful reassignment must not duplicate lines"

    kraal.kill()
    pipe_pair.wait_until_running()
    assert is_leader(java)
    duplicates = pipe_pair.write()

    kraal = cluster.start_kraal()
    pipe_pair.wait_until_shared()
    assert pipe_pair.write() == duplicates, "graceful reassignment must not duplicate lines"
    assert java.end() == 143
    pipe_pair.wait_until_running()
    assert pipe_pair.write() == duplicates, "the graceful shutdown of a worker must not duplicate lines"
    assert kraal.end() == 0


def test_java_workers_are_replaced_by_kraal_workers(
    make_group: Callable[[], MixedCluster], kafka: Broker, tmp_path: Path
) -> None:
    cluster = make_group()
    java_workers = [cluster.add_java() for _ in range(2)]
    cluster.start_all(java_workers)
    pipe_pair = PipePair(cluster, kafka, tmp_path)
    pipe_pair.wait_until_shared()
    with pipe_pair.flowing():
        for java in java_workers:
            cluster.start_kraal()
            pipe_pair.wait_until_shared()
            assert java.end() == 143
            pipe_pair.wait_until_running()
    assert pipe_pair.write() == 0
    assert not any(isinstance(worker, JavaWorker) for worker in cluster.alive)
    assert [worker.end() for worker in cluster.alive] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "version"), [("compatible", "1"), ("eager", "0")])
def test_group_uses_the_older_protocol_of_a_java_member(
    make_group: Callable[[], MixedCluster], kafka: Broker, tmp_path: Path, protocol: str, version: str
) -> None:
    cluster = make_group()
    java = cluster.start_java({"connect.protocol": protocol})
    kraal = cluster.start_kraal()
    pipe_pair = PipePair(cluster, kafka, tmp_path)
    pipe_pair.wait_until_shared()
    assert pipe_pair.write() == 0
    assert {*re.findall(r"protocol version (\d)", kraal.log_text())} == {version}
    assert java.end() == 143
    pipe_pair.wait_until_running()
    assert pipe_pair.write() == 0
    assert re.findall(r"protocol version (\d)", kraal.log_text())[-1] == "3"

    java.start()  # Kraal is now the leader and no longer signs its requests
    pipe_pair.wait_until_shared()
    assert is_leader(kraal)
    assert pipe_pair.write() == 0
    assert re.findall(r"protocol version (\d)", kraal.log_text())[-1] == version
    for name in pipe_pair.names:
        assert java.ask("POST", f"/connectors/{name}/restart?includeTasks=true").status == 202
    pipe_pair.wait_until_running()
    assert pipe_pair.write() == 0


def test_worker_without_a_connector_class_does_not_join(
    make_group: Callable[[], MixedCluster], kafka: Broker
) -> None:
    cluster = make_group()
    create_topic(kafka.bootstrap, f"{cluster.group}-config", {"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    value = f'{{"properties":{{"connector.class":"{HEARTBEAT_CONNECTOR}","name":"beats"}}}}'
    producer.produce(f"{cluster.group}-config", value, "connector-beats")
    assert producer.flush(30) == 0
    worker = cluster.add()
    worker.launch()
    assert worker.wait() == 2
    assert f"beats ({HEARTBEAT_CONNECTOR})" in worker.log_text()
    assert "mixed.group.missing.plugins=fail-task" in worker.log_text()
    tolerant_worker = cluster.start_kraal({"mixed.group.missing.plugins": "fail-task"})
    tolerant_worker.wait_for_states("beats", ["FAILED"])
    assert HEARTBEAT_CONNECTOR in tolerant_worker.traces("beats")[0]
    assert tolerant_worker.end() == 0
