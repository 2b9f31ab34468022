"""Tests that bundled sinks lose no records when they are stopped, reassigned and killed while records flow."""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraal.broker.broker import Broker
from kraal.jars import jars
from kraal.testing import ProcessCluster
from scripts.harness.postgresql import PostgreSQL, postgresql
from scripts.harness.proofs import count_differences, prove
from tests.fakes.spark.counted_sinks import (
    PARTITIONS,
    CountedSink,
    file_stream,
    keyed_table,
    spark_files,
    spark_table,
    topic_feed,
    verifiable,
)
from tests.fakes.spark.feed import Feed

log = logging.getLogger(__name__)

REPEATS = 3
CHECK_INTERVAL_S = 0.2
RUNNING = ["RUNNING", "RUNNING"]
SINKS = ["file-stream", "files", "table", "table-once", "table-upsert", "verifiable"]


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


@pytest.fixture(scope="module")
def two_workers(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Run two workers that tests stop. Each test first restarts the stopped workers."""
    properties = {
        "consumer.session.timeout.ms": "6000",
        "consumer.auto.offset.reset": "earliest",
        "task.shutdown.graceful.timeout.ms": "15000",
        "spark.jars": ",".join(str(jar) for jar in jars.ensure("postgresql")),
    }
    cluster = ProcessCluster(
        workers=2,
        directory=tmp_path_factory.mktemp("sinks"),
        bootstrap=kafka.bootstrap,
        properties=properties,
    )
    with cluster:
        yield cluster


class Trial:
    """A sink connector, the producer of its numbered records, and the system to which the connector writes."""

    def __init__(self, cluster: ProcessCluster, name: str, sink: CountedSink, feed: Feed) -> None:
        self.cluster = cluster
        self.name = name
        self.sink = sink
        self.feed = feed

    def stop(self) -> None:
        """Stop and resume the connector."""
        self.cluster.stop(self.name)
        self.cluster.wait_for_states(self.name, ["STOPPED"])
        self.cluster.resume(self.name)
        self.wait_until_new_records_arrive()

    def move(self) -> None:
        """Stop the task's worker gracefully, and restart it after its work was reassigned."""
        owner = self.owner()
        assert self.cluster.stop_worker(owner) == 0
        self.wait_until_new_records_arrive()
        self.cluster.start_worker(owner)

    def kill(self) -> None:
        """Kill the task's worker with SIGKILL, and restart it after its work was reassigned."""
        owner = self.owner()
        self.cluster.kill_worker(owner)
        self.wait_until_new_records_arrive()
        self.cluster.start_worker(owner)

    def owner(self) -> int:
        """Return the index of the worker that runs the task, after waiting for any rebalance in progress."""
        owners: dict[str, str] = {}

        def is_assigned() -> bool:
            owners.update(self.cluster.owners(self.name))
            return "0" in owners

        self._wait_until("a worker ran the task", is_assigned)
        return self.cluster.workers.index(self.cluster.worker(owners["0"]))

    def repeat_fault(self, fault: Callable[[], None]) -> None:
        """Call `fault` repeatedly. Before each call, wait until the connector and all tasks run."""
        for turn in range(REPEATS):
            self.cluster.wait_for_states(self.name, RUNNING)
            start_s = time.monotonic()
            fault()
            log.info("%s: %s %d took %.1f s", self.name, fault.__name__, turn, time.monotonic() - start_s)

    def wait_until_new_records_arrive(self) -> None:
        """Wait until a record sent after this call is written."""
        next_number = self.feed.added_count
        self._wait_until(
            "new records arrived", lambda: max(self.sink.read_numbers(), default=-1) >= next_number
        )

    def wait_until_delivered(self) -> None:
        """Wait until every sent record is written."""
        expected = set(range(self.feed.added_count))
        self._wait_until("all records were delivered", lambda: set(self.sink.read_numbers()) >= expected)

    def prove(self) -> Mapping[str, Any]:
        """Prove the delivery on the first worker that runs; return the state of the proof."""
        worker = next(worker for worker in self.cluster.workers if worker.alive)
        return prove(worker, self.name)

    def check_proof(self, duplicates: int) -> None:
        """Prove that no record is missing, and that the target has this number of duplicates."""
        self._wait_until("all offsets were committed", self._is_committed)
        proof = self.prove()
        if self.sink.is_readable:
            assert proof["state"] == ("DIFFERENT" if duplicates else "PROVED"), proof
            assert count_differences(proof) == [0, duplicates, 0]
            assert sum(span["end"] for span in proof["result"]["partitions"]) == self.feed.added_count
        else:
            assert proof["state"] == "UNDECIDED", proof

    def _is_committed(self) -> bool:
        worker = next(worker for worker in self.cluster.workers if worker.alive)
        offsets = worker.get(f"/connectors/{self.name}/offsets").body["offsets"]
        return int(sum(entry["offset"]["kafka_offset"] for entry in offsets)) == self.feed.added_count

    def _wait_until(self, description: str, done: Callable[[], bool]) -> None:
        def check() -> bool:
            time.sleep(CHECK_INTERVAL_S)  # a check may start a process
            return done()

        self.cluster.wait_until(f"{description} from {self.name}", check)


def create_sink(
    kind: str, cluster: ProcessCluster, name: str, directory: Path, request: pytest.FixtureRequest
) -> CountedSink:
    match kind:
        case "file-stream":
            return file_stream(directory)
        case "files":
            return spark_files(directory)
        case "table-upsert":
            return keyed_table(request.getfixturevalue("database"))
        case "verifiable":
            return verifiable(cluster, name)
        case _:
            guarantee = "exactly_once" if kind == "table-once" else "at_least_once"
            return spark_table(request.getfixturevalue("database"), guarantee)


@pytest.mark.slow  # nine faults, six of which restart a worker
@pytest.mark.parametrize("kind", SINKS)
def test_stopped_reassigned_and_killed_sink_loses_no_records(
    kind: str, two_workers: ProcessCluster, kafka: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name = f"{kind}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    two_workers.start_dead()
    sink, feed = create_sink(kind, two_workers, name, tmp_path, request), topic_feed(kafka.bootstrap, name)
    two_workers.create(name, {**sink.config, "topics": name})
    trial = Trial(two_workers, name, sink, feed)
    with feed.flowing():
        trial.wait_until_new_records_arrive()
        trial.repeat_fault(trial.stop)
        trial.repeat_fault(trial.move)
    trial.wait_until_delivered()
    assert sorted(sink.read_numbers()) == list(range(feed.added_count)), (
        "stops and reassignments must not cause duplicates"
    )
    trial.check_proof(duplicates=0)
    with feed.flowing():
        trial.repeat_fault(trial.kill)
    trial.wait_until_delivered()
    trial.check_proof(duplicates=len(sink.read_numbers()) - feed.added_count)
    two_workers.stop(name)
    two_workers.wait_for_states(name, ["STOPPED"])
    counts = Counter(sink.read_numbers())
    duplicates = counts.total() - len(counts)
    log.info("%s: %d records, %d duplicates", name, feed.added_count, duplicates)
    assert counts.keys() == set(range(feed.added_count))
    if sink.is_exactly_once:
        assert duplicates == 0
    else:
        assert max(counts.values()) <= 1 + REPEATS, "each kill may duplicate only one batch"
    two_workers.delete(name)
