"""`java-plugins-debezium`: Debezium's PostgreSQL source as a Java plugin, on a Java worker and on Kraal.

The Java worker and the Kraal worker are clusters of one worker each, with the same `plugin.path`. Both are warm and
idle before a measurement. One PostgreSQL server has the tables. The snapshot reads a table of 1,000,000 rows, with
JsonConverter, with and without schemas. Records/s is rows divided by the time from the last check that finds the topic
empty to the first check that finds it full. The first 1,000 records of both sides must be equal except for times,
positions and names. Then rows are inserted one at a time over a persistent connection, with `poll.interval.ms=10`; the
latency is the time from the statement until a polling consumer has the record. The cost of an idle connector is the CPU
time of a worker's process tree with one idle connector with default settings, minus the CPU time without the connector.
"""

from __future__ import annotations

import json
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from kraal.jars.jars import ensure
from scripts.bench.control.restart import INVERSE_GOLDEN_RATIO
from scripts.bench.data.java_plugins import PROCESS, wait_until_idle, wait_until_ready
from scripts.bench.data.source import POLL_INTERVAL_S
from scripts.bench.lab import TRANSFER_TIMEOUT_S, Lab, measure_alternately, say
from scripts.bench.report import Case, Target
from scripts.harness.postgresql import PASSWORD, USER, PostgreSQL, postgresql
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.topics import Reader, create_topic
from scripts.harness.workers import START_TIMEOUT_S, Worker

JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
ROWS: Final = 1_000_000
WARM_UP_ROWS: Final = 50_000
WARM_UPS: Final = 20
MIN_INTERVAL_S: Final = 0.02
IDLE_S: Final = 30.0
COMPARED_RECORDS: Final = 1000
POLL_INTERVAL_MS: Final = 10
"""Debezium's poll interval in milliseconds. The default of half a second would hide the latency of the worker."""
NO_DATA: Final = {"snapshot.mode": "no_data"}
SERVER_SETTINGS: Final = ("wal_level=logical", "shared_buffers=256MB", "max_wal_size=8GB")
CREATE_TABLE: Final = """
    CREATE TABLE {name} (
        id bigint PRIMARY KEY, customer text, amount numeric(12, 2), quantity int, paid boolean, rate double precision,
        at timestamptz, day date, note text
    );
    INSERT INTO {name} SELECT n, 'customer ' || n % 1000, n * 0.01, n % 100, n % 2 = 0, n / 7.0,
        timestamptz '2026-01-01 00:00Z' + n * interval '1 second', date '2026-01-01' + n % 365, 'order ' || n
        FROM generate_series(1, {rows}) AS n;
"""


def run(lab: Lab) -> list[Case]:
    """Measure snapshots, single rows, and an idle connector on both sides."""
    rows = lab.options.times(ROWS, ROWS // 50)
    with postgresql(*SERVER_SETTINGS) as database:
        database.ask(
            CREATE_TABLE.format(name="orders", rows=rows)
            + CREATE_TABLE.format(name="warm", rows=WARM_UP_ROWS)
        )
        workers = _start_workers(lab, database)
        cases = [
            _measure_snapshot(lab, database, workers, rows, schemas=True),
            _measure_snapshot(lab, database, workers, rows, schemas=False),
        ]
        with ExitStack() as stack:
            latencies = _measure_latencies(
                lab, {kind: _Rows(lab, worker, database, kind, stack) for kind, worker in workers.items()}
            )
        idle_cores = _measure_cores(lab, workers)
        with ExitStack() as stack:
            for worker in workers.values():
                topic = stack.enter_context(_run_connector(lab, worker, database, "warm", NO_DATA))
                _wait_until_streaming(database, worker, topic)
            busy_cores = _measure_cores(lab, workers)
    return [
        *cases,
        Case(
            "latency of a row, insert to consumer, median",
            "ms",
            latencies.get("java", []),
            latencies.get("kraal", []),
            wanted=Target(ratio=0.83),
        ),
        Case(
            "one idle connector: additional CPU",
            "cores",
            [max(busy_cores["java"] - idle_cores["java"], 0.0)] if "java" in busy_cores else [],
            [max(busy_cores["kraal"] - idle_cores["kraal"], 0.0)] if "kraal" in busy_cores else [],
            wanted=Target(limit=0.03),
        ),
    ]


def _start_workers(lab: Lab, database: PostgreSQL) -> dict[str, Worker]:
    """Start both workers, one after another; warm up each with snapshots of a table, with and without schemas."""
    plugins = lab.directory / "plugins"
    plugins.mkdir()
    archive = next(path for path in ensure("debezium") if "postgres" in path.name)
    with tarfile.open(archive) as archive_file:
        archive_file.extractall(plugins, filter="data")
    workers = {}
    for kind in lab.options.sides:
        cluster = lab.cluster(kind, {"plugin.path": str(plugins)})
        cluster.start(1)
        worker = workers[kind] = cluster.workers[0]
        wait_until_ready(kind, worker)
        say(f"warming up: {kind}")
        for schemas in (True, False):
            with _run_connector(lab, worker, database, "warm", _make_schema_settings(schemas)) as topic:
                _measure_filling(worker, lab.reader(topic).end, WARM_UP_ROWS)
        if kind == "kraal" and not any(PROCESS in process.cmdline() for process in worker.process.tree()):
            raise ScriptFailed(f"{worker.name} has no JVM of Java plugins.")
    for worker in workers.values():
        wait_until_idle(worker)
    return workers


@contextmanager
def _run_connector(
    lab: Lab, worker: Worker, database: PostgreSQL, table: str, extra: Mapping[str, str]
) -> Iterator[str]:
    """Run a connector with its own replication slot for a table; yield its topic."""
    name = lab.new_name("debezium")
    suffix = name.replace("-", "_")
    topic = f"{name}.public.{table}"
    create_topic(lab.bootstrap, topic)
    worker.rest.create(
        name,
        {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": str(database.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.dbname": database.database,
            "plugin.name": "pgoutput",
            "publication.name": f"p_{suffix}",
            "publication.autocreate.mode": "filtered",
            "slot.name": f"s_{suffix}",
            "slot.drop.on.stop": "true",
            "topic.prefix": name,
            "table.include.list": f"public.{table}",
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            **extra,
        },
    )
    yield topic
    worker.rest.delete(name)


def _make_schema_settings(enabled: bool) -> dict[str, str]:  # noqa: FBT001 - the value of two keys
    return {f"{part}.converter.schemas.enable": str(enabled).lower() for part in ("key", "value")}


def _wait_until_streaming(database: PostgreSQL, worker: Worker, topic: str) -> None:
    slot = f"s_{topic.partition('.')[0].replace('-', '_')}"
    sql = f"SELECT 1 FROM pg_replication_slots WHERE active AND slot_name = '{slot}'"  # noqa: S608
    wait_until(
        f"{worker.name} streamed from {slot}",
        lambda: bool(database.ask(sql)),
        timeout_s=START_TIMEOUT_S,
        program=worker.process,
    )


def _measure_filling(worker: Worker, count: Callable[[], int], rows: int) -> float:
    """Return the seconds from the last check that finds the topic empty to the first check that finds it full."""
    start_s = empty_s = now_s = time.monotonic()
    while (end := count()) < rows:
        now_s = time.monotonic()
        if end == 0:
            empty_s = now_s
        if now_s - start_s > TRANSFER_TIMEOUT_S or not worker.process.alive:
            raise ScriptFailed(f"{worker.name} sent {end} of {rows} rows; see {worker.process.log}.")
        time.sleep(POLL_INTERVAL_S)
    return time.monotonic() - empty_s


def _measure_snapshot(
    lab: Lab, database: PostgreSQL, workers: dict[str, Worker], rows: int, *, schemas: bool
) -> Case:
    """Measure the snapshot of a table."""
    name = f"snapshot, JsonConverter {'with' if schemas else 'without'} schemas"
    say(name)
    first_records: dict[str, list[Any]] = {}

    def measure(kind: str, worker: Worker) -> list[float]:
        lab.settle()
        with _run_connector(lab, worker, database, "orders", _make_schema_settings(schemas)) as topic:
            reader = lab.reader(topic)
            seconds = _measure_filling(worker, reader.end, rows)
            if kind not in first_records:
                first_records[kind] = _read_records(reader, topic)
                if any(records != first_records[kind] for records in first_records.values()):
                    raise ScriptFailed("Java's and Kraal's topics differ.")
        return [rows / seconds]

    results = measure_alternately(workers, lab.options.times(2, 1), measure)
    java, kraal = ([row[0] for row in results.get(kind, [])] for kind in ("java", "kraal"))
    return Case(name, "records/s", java, kraal, more_is_better=True, wanted=Target(ratio=1.2))


def _read_records(reader: Reader, topic: str) -> list[Any]:
    """Return the first records without the fields that differ between runs."""
    reader.seek(0)
    prefix = topic.partition(".")[0]
    values = [reader.next(START_TIMEOUT_S) or b"" for _ in range(COMPARED_RECORDS)]
    return [_remove_volatile_fields(json.loads(value.replace(prefix.encode(), b"NAME"))) for value in values]


def _remove_volatile_fields(value: Any) -> Any:
    if isinstance(value, dict):
        volatile_fields = ("ts_ms", "ts_us", "ts_ns", "lsn", "txId", "sequence", "snapshot")
        return {
            key: _remove_volatile_fields(field) for key, field in value.items() if key not in volatile_fields
        }
    return [_remove_volatile_fields(item) for item in value] if isinstance(value, list) else value


class _Rows:
    """A connector that captures its own table, a connection that inserts rows, and a consumer at the topic's end."""

    def __init__(self, lab: Lab, worker: Worker, database: PostgreSQL, kind: str, stack: ExitStack) -> None:
        """Start the connector, the connection and the consumer; `stack` stops them."""
        self._worker, self._table, self._number = worker, f"rows_{kind}", 0
        database.ask(f"CREATE TABLE {self._table} (id bigint PRIMARY KEY, name text)")
        self._send = stack.enter_context(database.session())
        settings = NO_DATA | {"poll.interval.ms": str(POLL_INTERVAL_MS)}
        topic = stack.enter_context(_run_connector(lab, worker, database, self._table, settings))
        _wait_until_streaming(database, worker, topic)
        self._reader = lab.reader(topic)
        self._reader.seek(0)

    def delay(self) -> float:
        """Insert a row; return the seconds until its record has arrived."""
        self._number += 1
        while self._reader.next(0.0):  # no record is due; the poll makes the consumer fetch now
            pass
        start_s = time.monotonic()
        self._send(f"INSERT INTO {self._table} VALUES ({self._number}, 'a name');")  # noqa: S608
        value = self._reader.next(START_TIMEOUT_S)
        if value is None or json.loads(value)["payload"]["after"]["id"] != self._number:
            raise ScriptFailed(f"{self._worker.name} sent {value!r} instead of row {self._number}.")
        return time.monotonic() - start_s


def _measure_latencies(lab: Lab, rows_by_kind: dict[str, _Rows]) -> dict[str, list[float]]:
    latencies: dict[str, list[float]] = {kind: [] for kind in rows_by_kind}
    for number in range(WARM_UPS + lab.options.times(200, 20)):
        for kind, rows in rows_by_kind.items():
            time.sleep(MIN_INTERVAL_S + number * INVERSE_GOLDEN_RATIO % 0.1)
            milliseconds = rows.delay() * 1000
            if number >= WARM_UPS:
                latencies[kind].append(milliseconds)
    say("measured the latencies")
    return latencies


def _measure_cores(lab: Lab, workers: dict[str, Worker]) -> dict[str, float]:
    """Return the number of cores that each idle worker uses, measured on both at once."""
    for worker in workers.values():
        wait_until_idle(worker)
    time.sleep(lab.options.times(5, 2))
    before = {kind: worker.process.usage().cpu_s for kind, worker in workers.items()}
    start_s = time.monotonic()
    time.sleep(lab.options.times(int(IDLE_S), 5))
    after = {kind: worker.process.usage().cpu_s for kind, worker in workers.items()}
    elapsed_s = time.monotonic() - start_s
    return {kind: (after[kind] - before[kind]) / elapsed_s for kind in workers}
