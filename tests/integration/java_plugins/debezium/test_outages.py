"""Debezium while broker and database are killed and frozen, in the snapshot and afterwards: nothing is lost."""

from __future__ import annotations

import json
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kraal.broker.broker import Broker, free_port
from kraal.jars.jars import ensure
from kraal.testing import ProcessCluster
from scripts.harness.postgresql import PostgreSQL, postgresql
from tests.integration.java_plugins.debezium.test_postgresql import slot_position, source
from tests.integration.java_plugins.flows import RUNNING, a_name, plugin_jvm, wait_for_plugins

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = 20_000
MORE = 500
FROZEN_S = 8.0


@dataclass(frozen=True)
class Place:
    """A worker, its broker, and a database."""

    cluster: ProcessCluster
    broker: Broker
    database: PostgreSQL

    def kill_broker(self) -> None:
        """Kill the broker and start it again."""
        self.cluster.kill_broker()
        self.cluster.start_broker()

    def freeze_broker(self) -> None:
        """Suspend the broker for some seconds, as a machine does that stalls."""
        assert self.broker.pid is not None
        freeze([psutil.Process(self.broker.pid)])

    def crash_database(self) -> None:
        """Kill a process of the server, which then ends all others and recovers."""
        self._checkpointer().kill()

    def freeze_database(self) -> None:
        """Suspend all processes of the server for some seconds."""
        server = self._checkpointer().parent()
        assert server is not None
        freeze([server, *server.children(recursive=True)])

    def kill_jvm(self) -> None:
        """Kill the JVM of Java plugins."""
        plugin_jvm(self.cluster.alive[0]).kill()

    def kill_worker(self) -> None:
        """Kill the worker and start it again."""
        worker = self.cluster.alive[0]
        worker.kill()
        self.cluster.start_all([worker])

    def _checkpointer(self) -> psutil.Process:
        (pid,) = self.database.ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
        return psutil.Process(int(pid))


OUTAGES: tuple[Callable[[Place], None], ...] = (
    Place.kill_broker,
    Place.freeze_broker,
    Place.crash_database,
    Place.freeze_database,
    Place.kill_jvm,
    Place.kill_worker,
)


def freeze(processes: list[psutil.Process]) -> None:
    for process in processes:
        process.suspend()
    time.sleep(FROZEN_S)
    for process in processes:
        process.resume()


@contextmanager
def opened(directory: Path, exactly_once: str) -> Iterator[Place]:
    """Start a worker with Debezium's plugin, a broker and a database of its own."""
    plugins = directory / "plugins"
    with tarfile.open(next(each for each in ensure("debezium") if "postgres" in each.name)) as archive:
        archive.extractall(plugins, filter="data")
    properties = {
        "plugin.path": str(plugins),
        "offset.flush.interval.ms": "500",
        "exactly.once.source.support": exactly_once,
    }
    broker = Broker(directory / "kafka", free_port())
    with (
        postgresql("wal_level=logical") as database,
        ProcessCluster(1, directory=directory, broker=broker, properties=properties) as cluster,
    ):
        wait_for_plugins(cluster.alive[0])
        yield Place(cluster, broker, database)


def ids(bootstrap: str, topic: str) -> Counter[int]:
    """Return how often a consumer of committed records reads the row of each id."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )
    found: Counter[int] = Counter()
    try:
        if topic not in consumer.list_topics(timeout=30).topics:
            return found
        place = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([place])
        while consumer.position([place])[0].offset < end and (message := consumer.poll(5)) is not None:
            assert message.error() is None
            found[json.loads(message.key() or b"")["payload"]["id"]] += 1
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_nothing_is_lost(tmp_path: Path, exactly_once: str) -> None:
    with opened(tmp_path, exactly_once) as place:
        for outage in OUTAGES:
            during_the_snapshot(place, outage, exactly_once)
        while_changes_are_followed(place, exactly_once)


def create(place: Place, table: str, exactly_once: str) -> tuple[str, str]:
    """Fill a table, and create a connector for it; return its name and its topic."""
    name = a_name("outage")
    place.database.ask(
        f"CREATE TABLE {table} (id int PRIMARY KEY, name text);"  # noqa: S608
        f"INSERT INTO {table} SELECT n, 'row ' || n FROM generate_series(1, {ROWS}) n"
    )
    config = source(place.database, name, table) | {
        "snapshot.fetch.size": "100",
        "max.batch.size": "100",
        "slot.drop.on.stop": "false",
        "errors.max.retries": "-1",
        "retriable.restart.connector.wait.ms": "500",
    }
    if exactly_once == "enabled":
        config["exactly.once.support"] = "required"
    place.cluster.create(name, config)
    return name, f"{name}.public.{table}"


def wait_for(place: Place, name: str, topic: str, total: int) -> Counter[int]:
    """Wait until all rows are in the topic; a task that failed is restarted, as its user would do."""
    worker, wanted = place.cluster.alive[0], set(range(1, total + 1))

    def is_there() -> bool:
        if "FAILED" in worker.states(name):
            place.cluster.restart(name, only_failed=True)
        try:
            return set(ids(place.cluster.bootstrap, topic)) == wanted
        except KafkaException:  # the broker is not ready yet
            return False

    worker.wait_until(f"{total} rows were there", is_there)
    return ids(place.cluster.bootstrap, topic)


def during_the_snapshot(place: Place, outage: Callable[[Place], None], exactly_once: str) -> None:
    """A snapshot that is interrupted is made again by Debezium, so its rows may come twice."""
    name, topic = create(place, outage.__name__, exactly_once)
    place.cluster.alive[0].wait_until("the snapshot had begun", lambda: bool(place.cluster.records(topic)))
    outage(place)
    wait_for(place, name, topic, ROWS)
    place.cluster.delete(name)
    slot = f"s_{name.replace('-', '_')}"
    place.cluster.alive[0].wait_until("the slot was free", lambda: free(place.database, slot))
    place.database.ask(f"SELECT pg_drop_replication_slot('{slot}')")


def free(database: PostgreSQL, slot: str) -> bool:
    query = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{slot}'"  # noqa: S608
    return database.is_up() and database.ask(query) == ["f"]


def while_changes_are_followed(place: Place, exactly_once: str) -> None:
    """Insert rows before and after each outage."""
    name, topic = create(place, "followed", exactly_once)
    worker, database, total = place.cluster.alive[0], place.database, ROWS
    wait_for(place, name, topic, total)
    before = slot_position(database, name)
    for outage in OUTAGES:
        for interrupted in (True, False):
            worker.wait_until("the database answered", database.is_up)
            database.ask(
                f"INSERT INTO followed SELECT n, 'row ' || n "  # noqa: S608
                f"FROM generate_series({total + 1}, {total + MORE}) n"
            )
            total += MORE
            if interrupted:
                outage(place)
        found = wait_for(place, name, topic, total)
        if exactly_once == "enabled":
            assert {each: count for each, count in found.items() if count > 1 and each > ROWS} == {}
    worker.wait_until("the slot moved on", lambda: slot_position(database, name) > before)
    worker.wait_for_states(name, RUNNING)
