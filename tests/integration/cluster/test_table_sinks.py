"""Tests that tables equal their topics after the workers of IcebergSink and DeltaSink are killed amid commits."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraal.broker.broker import Broker
from kraal.connectors.tables.sink import DeltaSinkTask, IcebergSinkTask
from kraal.plugins.api import TopicPartition
from kraal.testing import ProcessCluster, WorkerProcess
from tests.fakes.tables.records import Record, event, row, tombstone

pytestmark = pytest.mark.ci

PARTITIONS = 2
KEYS = 400
BACKLOG = 4000
"""Records before the connectors start; Spark reads them, because they are many."""
INTERVAL_MS = 300
KILLS = 3


@pytest.fixture(scope="module")
def two_workers(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    json_converter = "org.apache.kafka.connect.json.JsonConverter"
    properties = {
        "consumer.session.timeout.ms": "6000",
        "consumer.auto.offset.reset": "earliest",
        "key.converter": json_converter,
        "value.converter": json_converter,
    }
    cluster = ProcessCluster(
        workers=2,
        directory=tmp_path_factory.mktemp("tables"),
        bootstrap=kafka.bootstrap,
        properties=properties,
    )
    with cluster:
        yield cluster


class Changes:
    """Produces changes of random keys, and remembers the state that results from them."""

    def __init__(self, bootstrap: str, topic: str, *, is_append: bool, seed: int) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self._topic, self._is_append = topic, is_append
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self.rows: dict[int, str] = {}
        self.ends = dict.fromkeys(range(PARTITIONS), 0)

    def produce(self, count: int) -> None:
        """Produce this number of changes; a delete is followed by a tombstone, as Debezium's are."""
        for _ in range(count):
            for number, record in self._change():
                key, value = record
                partition = number % PARTITIONS
                self._producer.produce(self._topic, value, key, partition=partition)
                self._producer.poll(0)
                self.ends[partition] += 1
        assert self._producer.flush(30) == 0

    def _change(self) -> list[tuple[int, Record]]:
        if self._is_append:
            number = sum(self.ends.values())
            self.rows[number] = "x"
            return [(number, row(number, "x"))]
        number = self._random.randrange(KEYS)
        if number in self.rows and self._random.random() < 0.3:
            del self.rows[number]
            return [(number, event("d", number)), (number, tombstone(number))]
        op = "u" if number in self.rows else "c"
        self.rows[number] = uuid.UUID(int=self._random.getrandbits(128)).hex
        return [(number, event(op, number, self.rows[number]))]

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Produce changes in a thread."""
        ends = threading.Event()

        def run() -> None:
            while not ends.wait(0.05):
                self.produce(10)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()


class Sink:
    """A connector that writes to a table."""

    def __init__(self, kind: str, name: str, directory: Path, mode: str) -> None:
        self.name = name
        self.config = {
            "topics": name,
            "tasks.max": "2",
            "write.mode": mode,
            "commit.interval.ms": str(INTERVAL_MS),
        }
        if kind == "delta":
            self._task: type[DeltaSinkTask | IcebergSinkTask] = DeltaSinkTask
            self.config |= {"connector.class": "DeltaSink", "table": str(directory / "orders")}
        else:
            self._task = IcebergSinkTask
            self.config |= {
                "connector.class": "IcebergSink",
                "table": "shop.orders",
                "iceberg.catalog.type": "sql",
                "iceberg.catalog.uri": f"sqlite:///{directory}/catalog.db",
                "iceberg.catalog.warehouse": f"file://{directory}/warehouse",
            }

    def load(self) -> tuple[list[dict[str, Any]], dict[int, int]]:
        """Return the rows of the table, and the next offsets by partition."""
        table = self._task.open_table({**self.config, "name": self.name})
        state = table.load([TopicPartition(self.name, number) for number in range(PARTITIONS)])
        if state.handle is None:
            return [], {}
        is_delta = self._task is DeltaSinkTask
        rows = state.handle.to_pyarrow_table() if is_delta else state.handle.scan().to_arrow()
        return rows.to_pylist(), {partition.partition: end for partition, end in state.offsets.items()}


def find_owner(cluster: ProcessCluster, name: str) -> int:
    """Return the index of the worker that runs task 0, after waiting for any rebalance in progress."""
    owners: list[int] = []

    def is_assigned() -> bool:
        with suppress(KeyError, StopIteration):  # unassigned, or assigned to the worker before its restart
            owners.append(cluster.workers.index(cluster.worker(cluster.owners(name)["0"])))
        return bool(owners)

    cluster.wait_until("a worker runs the task", is_assigned)
    return owners[0]


@pytest.mark.one_a_day("mode")
@pytest.mark.parametrize("mode", ["cdc", "append"])
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_table_equals_the_topic_after_kills(
    kind: str, mode: str, two_workers: ProcessCluster, kafka: Broker, tmp_path: Path
) -> None:
    name = f"{kind}-{mode}-{uuid.uuid4().hex[:8]}"
    changes = Changes(kafka.bootstrap, name, is_append=mode == "append", seed=7)
    changes.produce(BACKLOG)
    two_workers.start_dead()
    sink = Sink(kind, name, tmp_path, mode)
    two_workers.create(name, sink.config)
    two_workers.wait_until("the backlog is in the table", lambda: sum(sink.load()[1].values()) >= BACKLOG)
    with changes.flowing():
        for _ in range(KILLS):
            offsets = sink.load()[1]
            two_workers.wait_until("commits follow", lambda: sink.load()[1] != offsets)  # noqa: B023 - called at once
            owner = find_owner(two_workers, name)
            two_workers.kill_worker(owner)  # as `kill -9` does
            offsets = sink.load()[1]
            two_workers.wait_until("other tasks commit", lambda: sink.load()[1] != offsets)  # noqa: B023
            two_workers.start_worker(owner)
            two_workers.wait_for_states(name, ["RUNNING"] * 3)
    two_workers.wait_until("all records are in the table", lambda: sink.load()[1] == changes.ends)
    rows, _ = sink.load()
    assert len(rows) == len({item["id"] for item in rows}), "a row was written twice"
    assert {item["id"]: item["name"] for item in rows} == changes.rows
    two_workers.delete(name)


def read_report(worker: WorkerProcess, name: str) -> tuple[int | None, Mapping[int, int], list[int]]:
    """Return the rows, the offsets and the lags by partition of a connector's table, as a worker reports them."""
    body: Any = worker.get(f"/connectors/{name}/tables").body
    [table] = body["tables"] or [{"rows": None, "partitions": []}]
    partitions = table["partitions"]
    offsets = {each["partition"]: each["offset"] for each in partitions}
    return table["rows"], offsets, [each["lag_records"] for each in partitions]


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_table_is_reported_and_its_offsets_are_changed_over_rest(
    kind: str, two_workers: ProcessCluster, kafka: Broker, tmp_path: Path
) -> None:
    name = f"{kind}-offsets-{uuid.uuid4().hex[:8]}"
    changes = Changes(kafka.bootstrap, name, is_append=True, seed=7)
    changes.produce(20)
    two_workers.start_dead()
    sink = Sink(kind, name, tmp_path, "append")
    two_workers.create(name, sink.config)
    two_workers.wait_until("the records are in the table", lambda: sink.load()[1] == changes.ends)
    for worker in two_workers.workers:
        two_workers.wait_until(
            "the worker reports the table",
            lambda: read_report(worker, name) == (20, changes.ends, [0, 0]),  # noqa: B023 - called at once
        )
    two_workers.stop(name)
    two_workers.wait_for_states(name, ["STOPPED"])
    worker = two_workers.workers[0]
    two_workers.wait_until(
        "the offsets are deleted", lambda: worker.delete(f"/connectors/{name}/offsets").status == 200
    )
    assert sink.load()[1] == {}
    two_workers.resume(name)
    two_workers.wait_until("the records are in the table again", lambda: sink.load()[1] == changes.ends)
    assert len(sink.load()[0]) == 40
    two_workers.delete(name)
