"""The demo with lakehouse tables, which follow a PostgreSQL table whose changes Debezium publishes.

IcebergSink and DeltaSink read one topic. Rows and primary keys of the table change all the time, and it gets another
column. Meanwhile, the worker that runs Debezium is killed. At the end, all three tables must have the same rows.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from scripts import demo_cdc
from scripts.demo_workers import (
    instances_table,
    kill_owner,
    moves_table,
    say_after,
    say_detected,
    wait_until_detected,
    wait_while_running,
    workers_table,
)
from scripts.harness.clusters import Cluster
from scripts.harness.postgresql import PostgreSQL
from scripts.harness.processes import ScriptFailed
from scripts.harness.show import POLL_INTERVAL_S, Progress, format_table, say

SOURCE, ICEBERG, DELTA = "shop-source", "orders-iceberg", "orders-delta"
TOPIC: Final = "shop.public.orders"
ICEBERG_TABLE: Final = "shop.orders"
INITIAL_ROWS: Final = 2000
CREATE_TABLE: Final = """
    CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(10, 2), placed timestamptz);
    INSERT INTO orders SELECT n, 'customer ' || n % 100, n * 0.25, now() FROM generate_series(1, {rows}) n;
"""
TRANSACTION: Final = """
    INSERT INTO orders VALUES ({new}, 'customer {customer}', {new} * 0.25, now());
    UPDATE orders SET amount = amount + 0.75 WHERE id % 50 = {number} % 50;
    UPDATE orders SET id = id + 1000000 WHERE id = {number} * 3 % {rows} + 1;
    DELETE FROM orders WHERE id % 997 = {number} % 997;
"""
ALTER_TABLE: Final = "ALTER TABLE orders ADD COLUMN note text"
NOTE: Final = "UPDATE orders SET note = 'changed by transaction {number}' WHERE id % 20 = {number} % 20;"
SELECT_ROWS: Final = """
    SELECT id, customer, amount, to_char(placed AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), note
    FROM orders ORDER BY id
"""
FLOW_S: Final = 5.0
TRANSACTION_INTERVAL_S: Final = 0.1


def sink_configs(directory: Path) -> dict[str, dict[str, str]]:
    """Return the configs of both sinks by name."""
    common = {
        "topics": TOPIC,
        "write.mode": "cdc",
        "commit.interval.ms": "1000",
        "key.converter": demo_cdc.JSON_CONVERTER,
        "value.converter": demo_cdc.JSON_CONVERTER,
    }
    catalog = {f"iceberg.catalog.{name}": value for name, value in _catalog_properties(directory).items()}
    return {
        ICEBERG: common | catalog | {"connector.class": "IcebergSink", "table": ICEBERG_TABLE},
        DELTA: common | {"connector.class": "DeltaSink", "table": str(directory / "orders")},
    }


class LakeDemo:
    """The running cluster, the database, and both tables."""

    def __init__(self, cluster: Cluster, shop: PostgreSQL, directory: Path) -> None:
        """Create the demo on a running cluster; the tables are in `directory`."""
        self.cluster, self.names = cluster, [SOURCE, ICEBERG, DELTA]
        self._shop, self._directory = shop, directory
        self._transactions = 0
        self._has_note = False

    def create(self) -> None:
        """Create the connectors over REST; wait until all run and the tables have the first rows."""
        rest = self.cluster.workers[0].rest
        configs = {SOURCE: demo_cdc.source_config(self._shop, "orders"), **sink_configs(self._directory)}
        for name, config in configs.items():
            rest.create(name, config)
            say(f"POST {rest.url}/connectors: {name} is a {config['connector.class'].rpartition('.')[2]}")
        self.cluster.settle(self.names)
        wait_while_running(self.cluster, "the first rows were in both tables", self._are_equal)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Make transactions in a thread until the end of the block. Raises ScriptFailed."""
        has_ended, errors = threading.Event(), list[Exception]()

        def run() -> None:
            while not has_ended.wait(TRANSACTION_INTERVAL_S):
                try:
                    self._change()
                except ScriptFailed as error:
                    errors.append(error)
                    return

        thread = threading.Thread(target=run, name="changes", daemon=True)
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join()
        for error in errors:
            raise error

    def show_flow(self) -> None:
        """Show the number of transactions for some seconds."""
        end = time.monotonic() + FLOW_S
        with Progress() as display:
            while time.monotonic() < end:
                display.line(
                    f"{self._transactions:,} transactions of inserts, updates, changed keys and deletes"
                )
                time.sleep(POLL_INTERVAL_S)

    def alter(self) -> None:
        """Add a column, which the following transactions fill."""
        self._shop.ask(ALTER_TABLE)
        self._has_note = True
        say(f"{ALTER_TABLE}: after {self._transactions:,} transactions")

    def kill(self) -> None:
        """Send SIGKILL to the worker that runs the source task, and show where its work moves."""
        loss = kill_owner(self.cluster, self.names, SOURCE)
        rebalance = wait_until_detected(
            self.cluster, loss.last_generation, lambda: time.sleep(POLL_INTERVAL_S)
        )
        wait_while_running(
            self.cluster,
            "all connectors and tasks of the killed worker ran elsewhere",
            lambda: loss.has_moved(self.cluster.statuses.now()),
        )
        now = self.cluster.statuses.now()
        moved_at = max(now[key].at for key in loss.moving)
        say("")
        say(moves_table(self.cluster, self.names, loss.before, loss.moving))
        say("")
        say_after(0.0, "killed; changes wait in the log of the database and in Kafka")
        say_detected(rebalance, loss.killed_at)
        say_after(moved_at - loss.killed_at, "all of its connectors and tasks run on the other worker")
        say("")
        say(workers_table(self.cluster, self.names, loss.victim))

    def check(self) -> str:
        """Wait until all tables are equal; return their numbers of rows and checksums. Raises ScriptFailed."""
        wait_while_running(self.cluster, "all changes were in both tables", self._are_equal)
        rows = [("TABLE", "ROWS", "SHA-256")]
        for name, read in self._readers().items():
            lines = read()
            rows.append((name, f"{len(lines):,}", hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]))
        if len({row[1:] for row in rows[1:]}) != 1:
            raise ScriptFailed(f"The tables differ:\n{format_table(rows)}")
        return format_table(rows)

    def _change(self) -> None:
        self._transactions += 1
        number = self._transactions
        statements = TRANSACTION + (NOTE if self._has_note else "")
        new = INITIAL_ROWS + number
        self._shop.ask(statements.format(number=number, new=new, customer=number % 100, rows=INITIAL_ROWS))

    def _are_equal(self) -> bool:
        first, *others = self._readers().values()
        return all(read() == first() for read in others)

    def _readers(self) -> dict[str, Callable[[], list[str]]]:
        return {
            "orders in PostgreSQL": lambda: self._shop.ask(
                SELECT_ROWS if self._has_note else SELECT_ROWS.replace(", note", "")
            ),
            "Iceberg table": lambda: read_iceberg(self._directory),
            "Delta table": lambda: read_delta(self._directory),
        }


def read_iceberg(directory: Path) -> list[str]:
    """Return the rows of the Iceberg table like psql does; none if the table does not exist yet."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - heavy
    from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415 - heavy

    catalog = load_catalog("iceberg", **_catalog_properties(directory))
    try:
        return format_rows(catalog.load_table(ICEBERG_TABLE).scan().to_arrow())
    except NoSuchTableError:
        return []


def read_delta(directory: Path) -> list[str]:
    """Return the rows of the Delta table like psql does; none if the table does not exist yet."""
    from deltalake import DeltaTable  # noqa: PLC0415 - heavy
    from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415 - heavy

    try:
        return format_rows(DeltaTable(str(directory / "orders")).to_pyarrow_table())
    except TableNotFoundError:
        return []


def format_rows(table: Any) -> list[str]:
    """Return the rows of a pyarrow table by their ids, as psql prints them."""
    lines = []
    for row in table.sort_by("id").to_pylist():
        values = [row["id"], row["customer"], row["amount"], f"{row['placed']:%Y-%m-%d %H:%M:%S.%f}"]
        if "note" in row:
            values.append(row["note"])
        lines.append("|".join("" if value is None else str(value) for value in values))
    return lines


def _catalog_properties(directory: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}"}


def run(port: int, directory: Path, stack: ExitStack) -> None:
    """Run the demo, with the first worker's REST API on `port`; `stack` stops everything that it starts.

    Raises ScriptFailed, JarsUnavailable, JavaMissing.
    """
    cluster, server = demo_cdc.start(port, directory, stack)
    shop = server.create_database("shop")
    shop.ask(CREATE_TABLE.format(rows=INITIAL_ROWS))
    lake = directory / "lake"
    lake.mkdir()
    say("Both workers are in one group and have Debezium's plugins; creating connectors ...")
    demo = LakeDemo(cluster, shop, lake)
    demo.create()
    say("")
    say(instances_table(cluster, demo.names))
    say("")
    say(f"The first rows are in both tables:\n{demo.check()}")
    say("")
    with demo.changing():
        demo.show_flow()
        demo.alter()
        demo.kill()
        demo.show_flow()
    say("")
    say("The table does not change any more; waiting for the last changes ...")
    say(f"All tables are equal:\n{demo.check()}")
