"""Debezium while broker and database are killed and frozen, in the snapshot and afterwards: nothing is lost."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kraal.broker.broker import Broker, free_port
from kraal.jars.jars import ensure
from kraal.testing import ProcessCluster
from scripts.harness.postgresql import PostgreSQL, postgresql
from scripts.harness.processes import freeze
from tests.integration.java_plugins.debezium.test_postgresql import (
    restart_failed,
    slot_position,
    source,
    wait_for_offset,
)
from tests.integration.java_plugins.flows import RUNNING, a_name, plugin_jvm, wait_for_plugins

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROWS = 50_000
MORE = 500
SNAPSHOT_S = 20.0
"""How long a snapshot takes at least: the database sleeps a little with each `PART` of the rows."""
PART = 100
FROZEN_S = 8.0
"""Longer than the session of a worker in its group."""


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
        freeze([psutil.Process(self.broker.pid)], FROZEN_S)

    def crash_database(self) -> None:
        """Kill a process of the server, which ends all others and recovers."""
        self.database.crash()

    def freeze_database(self) -> None:
        """Suspend all processes of the server for some seconds."""
        self.database.freeze(FROZEN_S)

    def kill_jvm(self) -> None:
        """Kill the JVM of Java plugins."""
        plugin_jvm(self.cluster.alive[0]).kill()

    def kill_worker(self) -> None:
        """Kill the worker and start it again."""
        worker = self.cluster.alive[0]
        worker.kill()
        self.cluster.start_all([worker])


OUTAGES: tuple[Callable[[Place], None], ...] = (
    Place.kill_broker,
    Place.freeze_broker,
    Place.crash_database,
    Place.freeze_database,
    Place.kill_jvm,
    Place.kill_worker,
)


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


def reader(bootstrap: str) -> Consumer:
    """Return a consumer of committed records."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )


def end_of(bootstrap: str, topic: str) -> int:
    """Return the end of the only partition of a topic, which counts ends of transactions too; 0 if it is not known yet.

    A broker that has just started may not know its partitions' leaders.
    """
    with closing(reader(bootstrap)) as consumer, suppress(KafkaException):
        if topic in consumer.list_topics(timeout=30).topics:
            end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
            return end
    return 0


def ids(bootstrap: str, topic: str) -> Counter[int]:
    """Return how often a consumer of committed records reads the row of each id."""
    end, found, place = end_of(bootstrap, topic), Counter[int](), TopicPartition(topic, 0, 0)
    with closing(reader(bootstrap)) as consumer:
        consumer.assign([place])
        while consumer.position([place])[0].offset < end and (messages := consumer.consume(1000, timeout=5)):
            assert not [each for each in messages if each.error() is not None]
            found.update(json.loads(each.key() or b"")["id"] for each in messages)
    return found


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_interrupted_snapshot_loses_no_rows(tmp_path: Path, exactly_once: str) -> None:
    """Debezium makes an interrupted snapshot again, so its rows may come twice."""
    with opened(tmp_path, exactly_once) as place:
        for outage in OUTAGES:
            name, topic = create(place, outage.__name__, ROWS, exactly_once, SNAPSHOT_S)
            worker = place.cluster.alive[0]
            worker.wait_until("the snapshot had begun", partial(has_begun, place, topic))
            assert 0 < end_of(place.cluster.bootstrap, topic) < ROWS, "the snapshot is over too soon"
            outage(place)
            wait_for(place, name, topic, ROWS)
            worker.wait_for_states(name, RUNNING)
            place.cluster.delete(name)
            slot = f"s_{name.replace('-', '_')}"
            worker.wait_until("the slot was free", partial(is_free, place.database, slot))
            place.database.ask(f"SELECT pg_drop_replication_slot('{slot}')")


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_outages_while_streaming_lose_no_changes(tmp_path: Path, exactly_once: str) -> None:
    """Rows are inserted before and after each outage; with exactly-once support each comes once."""
    with opened(tmp_path, exactly_once) as place:
        name, topic = create(place, "followed", MORE, exactly_once)
        worker, database, total = place.cluster.alive[0], place.database, MORE
        wait_for(place, name, topic, total)
        wait_for_offset(place.cluster, name)
        for outage in OUTAGES:
            before = slot_position(database, name)
            for interrupted in (True, False):
                database.ask(
                    f"INSERT INTO followed SELECT n, 'row ' || n "  # noqa: S608
                    f"FROM generate_series({total + 1}, {total + MORE}) n"
                )
                total += MORE
                if interrupted:
                    outage(place)
            found = wait_for(place, name, topic, total)
            if exactly_once == "enabled":
                assert {each: count for each, count in found.items() if count > 1} == {}
            worker.wait_until("the slot moved on", lambda: slot_position(database, name) > before)  # noqa: B023
            worker.wait_for_states(name, RUNNING)


def create(
    place: Place, table: str, rows: int, exactly_once: str, snapshot_s: float = 0.0
) -> tuple[str, str]:
    """Fill a table, and create a connector for it; return its name and its topic.

    The snapshot takes at least `snapshot_s`.
    """
    name = a_name("outage")
    place.database.ask(
        f"CREATE TABLE {table} (id int PRIMARY KEY, name text);"  # noqa: S608
        f"INSERT INTO {table} SELECT n, 'row ' || n FROM generate_series(1, {rows}) n"
    )
    config = source(place.database, name, table) | {
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "snapshot.fetch.size": "100",
        "max.batch.size": "100",
        "max.queue.size": "200",  # so a snapshot needs the database until its end
        "slot.drop.on.stop": "false",
        "errors.max.retries": "-1",
        "retriable.restart.connector.wait.ms": "500",
    }
    if snapshot_s:
        key, pause = "snapshot.select.statement.overrides", snapshot_s * PART / rows
        config[key] = f"public.{table}"
        config[f"{key}.public.{table}"] = (
            f"SELECT * FROM public.{table} "  # noqa: S608
            f"WHERE CASE WHEN id % {PART} = 0 THEN pg_sleep({pause}) IS NOT NULL ELSE true END"
        )
    if exactly_once == "enabled":
        config["exactly.once.support"] = "required"
    place.cluster.create(name, config)
    return name, f"{name}.public.{table}"


def has_begun(place: Place, topic: str) -> bool:
    return end_of(place.cluster.bootstrap, topic) > 0


def wait_for(place: Place, name: str, topic: str, total: int) -> Counter[int]:
    """Wait until all rows are in the topic; a task that failed is restarted, as its user would do."""
    worker, wanted, found = place.cluster.alive[0], set(range(1, total + 1)), Counter[int]()

    def is_there() -> bool:
        restart_failed(place.cluster, name)
        if end_of(place.cluster.bootstrap, topic) < total:
            return False
        found.clear()
        found.update(ids(place.cluster.bootstrap, topic))
        return set(found) == wanted

    worker.wait_until(f"{total} rows were there", is_there)
    return found


def is_free(database: PostgreSQL, slot: str) -> bool:
    query = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{slot}'"  # noqa: S608
    return database.is_up() and database.ask(query) == ["f"]
