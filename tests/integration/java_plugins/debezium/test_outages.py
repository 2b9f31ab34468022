"""Tests that Debezium loses no changes if a server, the worker or the JVM fails during a snapshot or streaming."""

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
    source_config,
    wait_for_offset,
)
from tests.integration.java_plugins.flows import RUNNING, plugin_jvm, unique_name, wait_for_plugins

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROWS = 50_000
ROWS_PER_INSERT = 500
MIN_SNAPSHOT_S = 20.0
"""The minimum duration of a snapshot: the database sleeps after every `ROWS_PER_SLEEP` rows."""
ROWS_PER_SLEEP = 100
FREEZE_S = 8.0
"""The duration of a freeze, which is longer than a worker's session timeout."""


@dataclass(frozen=True)
class Environment:
    """A worker, its broker, and a database."""

    cluster: ProcessCluster
    broker: Broker
    database: PostgreSQL

    def kill_broker(self) -> None:
        """Kill and restart the broker."""
        self.cluster.kill_broker()
        self.cluster.start_broker()

    def freeze_broker(self) -> None:
        """Suspend the broker for several seconds, like a stalled machine."""
        assert self.broker.pid is not None
        freeze([psutil.Process(self.broker.pid)], FREEZE_S)

    def crash_database(self) -> None:
        """Kill a process of the database server, which then terminates its other processes and recovers."""
        self.database.crash()

    def freeze_database(self) -> None:
        """Suspend all processes of the database server for several seconds."""
        self.database.freeze(FREEZE_S)

    def kill_jvm(self) -> None:
        """Kill the JVM of Java plugins."""
        plugin_jvm(self.cluster.alive[0]).kill()

    def kill_worker(self) -> None:
        """Kill and restart the worker."""
        worker = self.cluster.alive[0]
        worker.kill()
        self.cluster.start_all([worker])


OUTAGES: tuple[Callable[[Environment], None], ...] = (
    Environment.kill_broker,
    Environment.freeze_broker,
    Environment.crash_database,
    Environment.freeze_database,
    Environment.kill_jvm,
    Environment.kill_worker,
)


@contextmanager
def open_environment(directory: Path, exactly_once: str) -> Iterator[Environment]:
    """Start a worker with Debezium's plugin, its own broker and its own database."""
    plugins = directory / "plugins"
    with tarfile.open(next(path for path in ensure("debezium") if "postgres" in path.name)) as archive:
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
        yield Environment(cluster, broker, database)


def committed_reader(bootstrap: str) -> Consumer:
    """Return a consumer of committed records."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )


def end_offset(bootstrap: str, topic: str) -> int:
    """Return the end offset of a topic's only partition, or 0 if the broker does not know the topic or its leader.

    The offset includes transaction markers. A broker that has just started may not know the leaders of partitions.
    """
    with closing(committed_reader(bootstrap)) as consumer, suppress(KafkaException):
        if topic in consumer.list_topics(timeout=30).topics:
            end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
            return end
    return 0


def count_ids(bootstrap: str, topic: str) -> Counter[int]:
    """Return the number of committed records by row id."""
    end, counts, partition = end_offset(bootstrap, topic), Counter[int](), TopicPartition(topic, 0, 0)
    with closing(committed_reader(bootstrap)) as consumer:
        consumer.assign([partition])
        while consumer.position([partition])[0].offset < end and (
            messages := consumer.consume(1000, timeout=5)
        ):
            assert not [message for message in messages if message.error() is not None]
            counts.update(json.loads(message.key() or b"")["id"] for message in messages)
    return counts


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_interrupted_snapshot_loses_no_rows(tmp_path: Path, exactly_once: str) -> None:
    """Debezium restarts an interrupted snapshot, so rows may be written twice."""
    with open_environment(tmp_path, exactly_once) as environment:
        for outage in OUTAGES:
            name, topic = create(environment, outage.__name__, ROWS, exactly_once, MIN_SNAPSHOT_S)
            worker = environment.cluster.alive[0]
            worker.wait_until("the snapshot had begun", partial(has_begun, environment, topic))
            assert 0 < end_offset(environment.cluster.bootstrap, topic) < ROWS, (
                "the snapshot completed too early"
            )
            outage(environment)
            wait_for_all_rows(environment, name, topic, ROWS)
            worker.wait_for_states(name, RUNNING)
            environment.cluster.delete(name)
            slot = f"s_{name.replace('-', '_')}"
            worker.wait_until("the slot was free", partial(is_slot_free, environment.database, slot))
            environment.database.ask(f"SELECT pg_drop_replication_slot('{slot}')")


@pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
def test_outages_while_streaming_lose_no_changes(tmp_path: Path, exactly_once: str) -> None:
    """Rows are inserted before and after each outage. With exactly-once support, each row is written once."""
    with open_environment(tmp_path, exactly_once) as environment:
        name, topic = create(environment, "followed", ROWS_PER_INSERT, exactly_once)
        worker, database, total = environment.cluster.alive[0], environment.database, ROWS_PER_INSERT
        wait_for_all_rows(environment, name, topic, total)
        wait_for_offset(environment.cluster, name)
        for outage in OUTAGES:
            position_before = slot_position(database, name)
            for is_before_outage in (True, False):
                database.ask(
                    f"INSERT INTO followed SELECT n, 'row ' || n "  # noqa: S608
                    f"FROM generate_series({total + 1}, {total + ROWS_PER_INSERT}) n"
                )
                total += ROWS_PER_INSERT
                if is_before_outage:
                    outage(environment)
            counts = wait_for_all_rows(environment, name, topic, total)
            if exactly_once == "enabled":
                assert {row_id: count for row_id, count in counts.items() if count > 1} == {}
            worker.wait_until("the slot advanced", lambda: slot_position(database, name) > position_before)  # noqa: B023
            worker.wait_for_states(name, RUNNING)


def create(
    environment: Environment, table: str, row_count: int, exactly_once: str, snapshot_s: float = 0.0
) -> tuple[str, str]:
    """Fill a table, and create a connector for the table. Return the names of the connector and of its topic.

    The snapshot takes at least `snapshot_s` seconds.
    """
    name = unique_name("outage")
    environment.database.ask(
        f"CREATE TABLE {table} (id int PRIMARY KEY, name text);"  # noqa: S608
        f"INSERT INTO {table} SELECT n, 'row ' || n FROM generate_series(1, {row_count}) n"
    )
    config = source_config(environment.database, name, table) | {
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "snapshot.fetch.size": "100",
        "max.batch.size": "100",
        "max.queue.size": "200",  # a small queue, so that a snapshot reads from the database until its end
        "slot.drop.on.stop": "false",
        "errors.max.retries": "-1",
        "retriable.restart.connector.wait.ms": "500",
    }
    if snapshot_s:
        key, pause = "snapshot.select.statement.overrides", snapshot_s * ROWS_PER_SLEEP / row_count
        config[key] = f"public.{table}"
        config[f"{key}.public.{table}"] = (
            f"SELECT * FROM public.{table} "  # noqa: S608
            f"WHERE CASE WHEN id % {ROWS_PER_SLEEP} = 0 THEN pg_sleep({pause}) IS NOT NULL ELSE true END"
        )
    if exactly_once == "enabled":
        config["exactly.once.support"] = "required"
    environment.cluster.create(name, config)
    return name, f"{name}.public.{table}"


def has_begun(environment: Environment, topic: str) -> bool:
    return end_offset(environment.cluster.bootstrap, topic) > 0


def wait_for_all_rows(environment: Environment, name: str, topic: str, total: int) -> Counter[int]:
    """Wait until all rows are in the topic, restarting failed tasks as a user would. Return record counts by row id."""
    worker, expected_ids, counts = environment.cluster.alive[0], set(range(1, total + 1)), Counter[int]()

    def has_all_rows() -> bool:
        restart_failed(environment.cluster, name)
        if end_offset(environment.cluster.bootstrap, topic) < total:
            return False
        counts.clear()
        counts.update(count_ids(environment.cluster.bootstrap, topic))
        return set(counts) == expected_ids

    worker.wait_until(f"{total} rows arrived", has_all_rows)
    return counts


def is_slot_free(database: PostgreSQL, slot: str) -> bool:
    query = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{slot}'"  # noqa: S608
    return database.is_up() and database.ask(query) == ["f"]
