"""Each sink that ships is stopped, moved and killed three times while records flow, and its rows are counted."""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraal.broker.broker import Broker
from kraal.jars import jars
from kraal.testing import ProcessCluster
from scripts.harness.postgresql import PostgreSQL, postgresql
from tests.fakes.spark.counted_sinks import (
    PARTITIONS,
    CountedSink,
    Feed,
    file_stream,
    spark_files,
    spark_table,
    verifiable,
)

log = logging.getLogger(__name__)

TIMES = 3
LOOK_S = 0.2
RUNNING = ["RUNNING", "RUNNING"]
SINKS = ["file-stream", "files", "table", "table-once", "verifiable"]


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


@pytest.fixture(scope="module")
def pair(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Two workers that tests end; each test finds two."""
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
    """One sink that numbers flow into."""

    def __init__(self, cluster: ProcessCluster, name: str, sink: CountedSink, feed: Feed) -> None:
        self.cluster = cluster
        self.name = name
        self.sink = sink
        self.feed = feed

    def stop(self) -> None:
        """Stop the connector, and let it continue."""
        self.cluster.stop(self.name)
        self.cluster.wait_for_states(self.name, ["STOPPED"])
        self.cluster.resume(self.name)
        self.wait_until_numbers_come_again()

    def move(self) -> None:
        """End the task's worker in good order, and start it again when its work was taken over."""
        owner = self.owner()
        assert self.cluster.stop_worker(owner) == 0
        self.wait_until_numbers_come_again()
        self.cluster.start_worker(owner)

    def kill(self) -> None:
        """The same by kill -9."""
        owner = self.owner()
        self.cluster.kill_worker(owner)
        self.wait_until_numbers_come_again()
        self.cluster.start_worker(owner)

    def owner(self) -> int:
        """Return the number of the worker that runs the task; a rebalance may have taken it for a moment."""
        found: dict[str, str] = {}

        def runs() -> bool:
            found.update(self.cluster.owners(self.name))
            return "0" in found

        self._wait_until("somebody ran the task", runs)
        return self.cluster.workers.index(self.cluster.worker(found["0"]))

    def three_times(self, fault: Callable[[], None]) -> None:
        """Do it, each time when all runs."""
        for turn in range(TIMES):
            self.cluster.wait_for_states(self.name, RUNNING)
            began = time.monotonic()
            fault()
            log.info("%s: %s %d took %.1f s", self.name, fault.__name__, turn, time.monotonic() - began)

    def wait_until_numbers_come_again(self) -> None:
        """Wait until a number was written that was sent from now on."""
        wanted = self.feed.sent
        self._wait_until("numbers came again", lambda: max(self.sink.rows(), default=-1) >= wanted)

    def wait_until_through(self) -> None:
        """Wait until every number that was sent was written, none lost."""
        wanted = set(range(self.feed.sent))
        self._wait_until("all numbers were through", lambda: set(self.sink.rows()) >= wanted)

    def _wait_until(self, what: str, done: Callable[[], bool]) -> None:
        def looked() -> bool:
            time.sleep(LOOK_S)  # a look may start a process
            return done()

        self.cluster.wait_until(f"{what} from {self.name}", looked)


def made(
    kind: str, cluster: ProcessCluster, name: str, directory: Path, request: pytest.FixtureRequest
) -> CountedSink:
    match kind:
        case "file-stream":
            return file_stream(directory)
        case "files":
            return spark_files(directory)
        case "verifiable":
            return verifiable(cluster, name)
        case _:
            guarantee = "exactly_once" if kind == "table-once" else "at_least_once"
            return spark_table(request.getfixturevalue("database"), guarantee)


@pytest.mark.slow  # nine faults, six of which start a worker again
@pytest.mark.parametrize("kind", SINKS)
def test_stopped_moved_and_killed_sink_loses_no_records(
    kind: str, pair: ProcessCluster, kafka: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name = f"{kind}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    pair.start_dead()
    sink, feed = made(kind, pair, name, tmp_path, request), Feed(kafka.bootstrap, name)
    pair.create(name, {**sink.config, "topics": name})
    trial = Trial(pair, name, sink, feed)
    with feed.flowing():
        trial.wait_until_numbers_come_again()
        trial.three_times(trial.stop)
        trial.three_times(trial.move)
    trial.wait_until_through()
    assert sorted(sink.rows()) == list(range(feed.sent)), "stops and moves repeat nothing"
    with feed.flowing():
        trial.three_times(trial.kill)
    trial.wait_until_through()
    pair.stop(name)
    pair.wait_for_states(name, ["STOPPED"])
    times = Counter(sink.rows())
    doubles = times.total() - len(times)
    log.info("%s: %d numbers, %d of them again", name, feed.sent, doubles)
    assert times.keys() == set(range(feed.sent))
    if sink.is_exactly_once:
        assert doubles == 0
    else:
        assert max(times.values()) <= 1 + TIMES, "each kill repeats a batch at most"
    pair.delete(name)
