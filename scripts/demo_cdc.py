"""The demo with Debezium, which replicates the changes of a PostgreSQL table through Kafka into another database.

Two distributed workers run Debezium's Java plugins, and the one that runs the source task is killed. Changes made
meanwhile remain in the write-ahead log; the other worker takes over and resumes from the committed offset.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from kraal.jars.jars import ensure
from kraal.jars.java_module import java_class_path
from scripts.demo_workers import (
    WORKER_PROPERTIES,
    instances_table,
    kill_owner,
    moves_table,
    say_after,
    say_detected,
    start_broker,
    start_workers,
    wait_until_detected,
    wait_while_running,
    workers_table,
)
from scripts.harness.clusters import Cluster
from scripts.harness.postgresql import PASSWORD, USER, PostgreSQL, postgresql
from scripts.harness.processes import ScriptFailed
from scripts.harness.show import POLL_INTERVAL_S, format_table, say
from scripts.harness.workers import Worker

WORKERS: Final = 2
SOURCE, SINK = "shop-source", "copy-sink"
TOPIC: Final = "shop.public.customers"
CREATE_TABLE: Final = """
    CREATE TABLE customers (id int PRIMARY KEY, name text, city text);
    INSERT INTO customers VALUES (1, 'Anna', 'Oslo'), (2, 'Ben', 'Rome');
"""
INSERT: Final = "INSERT INTO customers VALUES (3, 'Cleo', 'Cairo')"
UPDATE: Final = "UPDATE customers SET city = 'Bergen' WHERE id = 1"
UPDATE_AFTER_KILL: Final = "UPDATE customers SET city = 'Milan' WHERE id = 2"
SELECT_ROWS: Final = "SELECT id, name, city FROM customers ORDER BY id"
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"


def source_config(shop: PostgreSQL, table: str) -> dict[str, str]:
    """Return the config of Debezium's PostgreSQL source for a table."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(shop.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": shop.database,
        "table.include.list": f"public.{table}",
        "topic.prefix": "shop",
        "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered",
        "key.converter": JSON_CONVERTER,
        "value.converter": JSON_CONVERTER,
    }


def sink_config(copy: PostgreSQL) -> dict[str, str]:
    """Return the config of Debezium's JDBC sink, which also creates the table."""
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": TOPIC,
        "connection.url": copy.url,
        "connection.username": USER,
        "connection.password": PASSWORD,
        "collection.name.format": "customers",
        "primary.key.mode": "record_key",
        "insert.mode": "upsert",
        "schema.evolution": "basic",
        "key.converter": JSON_CONVERTER,
        "value.converter": JSON_CONVERTER,
    }


class CdcDemo:
    """The running cluster and the two databases."""

    def __init__(self, cluster: Cluster, shop: PostgreSQL, copy: PostgreSQL) -> None:
        """Create the demo on a running cluster."""
        self.cluster = cluster
        self.names = [SOURCE, SINK]
        self._shop = shop
        self._copy = copy

    def create(self) -> None:
        """Create the connectors over REST; wait until both connectors run and the first rows are copied."""
        rest = self.cluster.workers[0].rest
        for name, config in (
            (SOURCE, source_config(self._shop, "customers")),
            (SINK, sink_config(self._copy)),
        ):
            rest.create(name, config)
            say(f"POST {rest.url}/connectors: {name} is a {config['connector.class'].rpartition('.')[2]}")
        self.cluster.settle(self.names)
        wait_while_running(self.cluster, "the first rows were copied", self._are_tables_equal)

    def change(self, sql: str) -> None:
        """Change the first database, and wait until the second one has the change. Raises ScriptFailed."""
        self._shop.ask(sql)
        start_s = time.monotonic()
        wait_while_running(self.cluster, "the change was copied", self._are_tables_equal)
        say(f"{sql}: copied after {time.monotonic() - start_s:.1f} s")

    def kill(self) -> Worker:
        """Send SIGKILL to the worker that runs the source task, change a row, and show how the change arrives."""
        loss = kill_owner(self.cluster, self.names, SOURCE)
        self._shop.ask(UPDATE_AFTER_KILL)
        changed_at = time.time()
        rebalance = wait_until_detected(
            self.cluster, loss.last_generation, lambda: time.sleep(POLL_INTERVAL_S)
        )
        wait_while_running(
            self.cluster,
            "all connectors and tasks of the killed worker ran elsewhere",
            lambda: loss.has_moved(self.cluster.statuses.now()),
        )
        wait_while_running(self.cluster, "the change was copied", self._are_tables_equal)
        copied_at = time.time()
        now = self.cluster.statuses.now()
        say("")
        say(moves_table(self.cluster, self.names, loss.before, loss.moving))
        say("")
        say_after(0.0, "killed; changes wait in the log of the first database")
        say_after(changed_at - loss.killed_at, UPDATE_AFTER_KILL)
        say_detected(rebalance, loss.killed_at)
        say_after(
            max(now[key].at for key in loss.moving) - loss.killed_at,
            "all connectors and tasks of the killed worker run on other workers",
        )
        say_after(copied_at - loss.killed_at, "the change is in the second database")
        return loss.victim

    def check(self) -> str:
        """Compare both tables; return their rows, formatted for output. Raises ScriptFailed if they differ."""
        rows = self._shop.ask(SELECT_ROWS)
        copied_rows = self._copy.ask(SELECT_ROWS)
        if rows != copied_rows:
            raise ScriptFailed(f"The first database has {rows}, but the second one has {copied_rows}.")
        return format_table([("ID", "NAME", "CITY"), *(tuple(row.split("|")) for row in copied_rows)])

    def _are_tables_equal(self) -> bool:
        exists = self._copy.ask("SELECT to_regclass('customers') IS NOT NULL") == ["t"]
        return exists and self._copy.ask(SELECT_ROWS) == self._shop.ask(SELECT_ROWS)


def run(port: int, directory: Path, stack: ExitStack) -> None:
    """Run the demo, with the first worker's REST API on `port`; `stack` stops everything that it starts.

    Raises ScriptFailed, JarsUnavailable, JavaMissing.
    """
    cluster, server = start(port, directory, stack)
    shop, copy = server.create_database("shop"), server.create_database("copy")
    shop.ask(CREATE_TABLE)
    say("Both workers are in one group and have Debezium's plugins; creating connectors ...")
    _show(CdcDemo(cluster, shop, copy))


def start(port: int, directory: Path, stack: ExitStack) -> tuple[Cluster, PostgreSQL]:
    """Start two workers with Debezium's plugins, and PostgreSQL; `stack` stops them.

    Raises ScriptFailed, JarsUnavailable, JavaMissing.
    """
    plugins = directory / "plugins"
    archives = ensure("debezium")
    java_class_path()  # compiles once instead of in each worker
    say(f"Unpacking Debezium's PostgreSQL source and JDBC sink to {plugins} ...")
    for archive in archives:
        shutil.unpack_archive(archive, plugins, "gztar")  # its checksum was verified against the lock
    say("Starting PostgreSQL ...")
    server = stack.enter_context(postgresql("wal_level=logical"))
    broker = start_broker(directory, stack)
    extra = (
        WORKER_PROPERTIES
        | {
            "plugin.path": str(plugins),
            "plugin.discovery": "service_load",  # Debezium lists its classes in manifests
            "offset.flush.interval.ms": "1000",  # Debezium repeats its snapshot if it is killed before its first offset
        }
    )
    cluster = Cluster("kraal", broker, directory / "workers", "demo", extra)
    stack.callback(cluster.stop)
    stack.callback(say, "Stopping the workers, Kafka and PostgreSQL ...")
    start_workers(cluster, broker, WORKERS, port)
    return cluster, server


def _show(demo: CdcDemo) -> None:
    demo.create()
    say("")
    say(workers_table(demo.cluster, demo.names))
    say("")
    say(instances_table(demo.cluster, demo.names))
    say("")
    say("The initial rows of shop are in copy:")
    say(demo.check())
    say("")
    demo.change(INSERT)
    demo.change(UPDATE)
    say("")
    victim = demo.kill()
    say("")
    say(workers_table(demo.cluster, demo.names, victim))
    say("")
    say("Every change of shop is in copy:")
    say(demo.check())
