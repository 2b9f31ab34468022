"""Executors, Spark workers, the master, the broker and the Kraal worker die while lines flow: nothing is lost."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest

from kraal.testing.process import WorkerProcess
from tests.integration.spark_cluster.place import Place, until

pytestmark = pytest.mark.slow  # 8 minutes together on a busy machine

COUNT = 5_000
BACK_S = 240.0
OUTAGE_S = 20.0


class Flow:
    """Numbered lines from files of text into a topic, by executors, and from there into files."""

    def __init__(self, place: Place) -> None:
        self.place, self.written = place, 0
        self.worker: WorkerProcess = place.worker("kills")
        self.worker.start()
        self.source, self.target = place.shared("in"), place.shared("out")
        text = {"spark.format": "text"}
        self.write()
        source = {"connector.class": "SparkSource", "path": str(self.source), "topic": "kills", **text}
        self.worker.create("in", source | {"file.batch.bytes": "20000"})
        sink = {"connector.class": "SparkSink", "path": str(self.target), "topics": "kills", **text}
        self.worker.create("out", sink)

    def write(self) -> None:
        """Let further lines come, as a whole file."""
        numbers = range(self.written, self.written + COUNT)
        hidden = self.source / f".{self.written:08d}"
        hidden.write_text("".join(f"{number:08d} and some more text\n" for number in numbers))
        hidden.rename(self.source / hidden.name.removeprefix("."))
        self.written += COUNT

    def wait_until_flowing(self, more: int = 500) -> None:
        """Wait until some more lines are in files."""
        before = len(self.found())
        until(lambda: len(self.found()) >= before + more, "lines flowed", BACK_S)

    def found(self) -> Counter[int]:
        """Count each line in the sink's files."""
        return Counter(
            int(line[:8])
            for file in self.target.iterdir()
            if file.is_file() and not file.name.startswith(".")
            for line in file.read_text().splitlines()
        )

    def wait_until_through(self) -> None:
        """Wait until every line is in files, and check that each record of the topic is there once."""
        self.worker.wait_until(
            "all lines came through", lambda: len(self.found()) == self.written, timeout_s=BACK_S
        )
        for name in ("in", "out"):
            self.worker.wait_for_states(name, ["RUNNING", "RUNNING"])
        values = [int(value[:8]) for value in self.place.values("kills")]
        assert set(values) == set(range(self.written))
        self.worker.wait_until(
            "repeats were in files, too", lambda: self.found() == Counter(values), timeout_s=BACK_S
        )
        firsts = list(dict.fromkeys(values))
        assert firsts == sorted(firsts), "what comes for the first time comes in order"


@pytest.fixture(scope="module")
def flow(place: Place) -> Flow:
    """The module's lines, which flow."""
    made = Flow(place)
    made.wait_until_through()
    return made


def test_an_executor_is_killed(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    victim = flow.place.cluster.executors()[0]
    os.kill(victim, signal.SIGKILL)
    flow.wait_until_through()
    until(lambda: len(flow.place.cluster.executors()) == 2, "there was another executor")
    assert victim not in flow.place.cluster.executors()


def test_a_spark_worker_is_killed_with_its_executors(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.place.cluster
    for process in cluster.running("worker-0").tree():  # as if its machine had died
        process.kill()
    flow.write()
    flow.wait_until_through()
    cluster.start_worker("worker-0")


def test_only_the_process_of_a_spark_worker_is_killed(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.place.cluster
    executors = set(cluster.executors())
    name = next(
        each
        for each in ("worker-0", "worker-1")
        if executors & {process.pid for process in cluster.running(each).tree()}
    )
    killed = cluster.running(name)
    killed.kill()
    until(lambda: killed.tree() == [], "its executors ended, too", 60.0)
    flow.write()
    flow.wait_until_through()
    cluster.start_worker(name)


def test_the_master_is_killed_and_knows_nothing_when_it_is_back(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    cluster = flow.place.cluster
    cluster.running("master").kill()
    flow.write()
    flow.wait_until_flowing()
    cluster.start_master()
    flow.write()
    flow.wait_until_through()
    until(lambda: bool(cluster.state()["activeapps"]), "the application was registered again", BACK_S)
    flow.write()
    flow.wait_until_through()


def test_the_broker_is_killed(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    broker = flow.place.broker
    assert broker.kill()
    flow.write()
    time.sleep(OUTAGE_S)
    assert flow.worker.states("in") == flow.worker.states("out") == ["RUNNING", "RUNNING"]
    broker.start()
    flow.wait_until_through()


def test_the_worker_is_killed(flow: Flow) -> None:
    flow.write()
    flow.wait_until_flowing()
    flow.worker.kill()
    until(lambda: flow.place.cluster.executors() == [], "executors without a driver ended", 60.0)
    flow.worker.start()
    flow.wait_until_through()
