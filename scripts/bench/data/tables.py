"""`tables`: from one partition of JSON records with a schema to a table, appended.

Java's sink is Apache Iceberg's connector on a Java worker, with a Hadoop catalog; Kraal's is IcebergSink with an SQL
catalog in SQLite. Both write Parquet and have the same commit interval; all other settings are the defaults. Both
workers are up and warm. Records/s is records divided by the time from the POST that creates the connector until the
metadata of the table contain all records, checked every 50 ms. The table must then contain the number of each record
once.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kraal.jars.directories import pyspark_jars
from kraal.jars.jars import ensure
from scripts.bench.data.java_plugins import wait_until_idle
from scripts.bench.data.source import transfer
from scripts.bench.lab import Lab, measure_alternately, say
from scripts.bench.report import Case, Target
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.topics import create_topic
from scripts.harness.workers import Worker

COMMIT_INTERVAL_MS: Final = 5_000
JAVA_VERSION: Final = "4.3.0"
"""The last version of Connect on which Apache Iceberg's connector 1.12 runs (KAFKA-20297)."""
TIMEOUT_S: Final = 600.0
_CHECK_INTERVAL_S: Final = 0.05
_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
_JARS: Final = (
    "hadoop-client-*.jar",
    "parquet-*.jar",
    "zstd-jni-*.jar",
    "snappy-java-*.jar",
    "commons-pool-*.jar",
)
"""Jars of Spark that Apache Iceberg's connector requires."""
_SCHEMA: Final = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "name", "type": "string", "optional": True},
        {"field": "price", "type": "double", "optional": True},
        {"field": "at", "type": "int64", "optional": True, "name": "org.apache.kafka.connect.data.Timestamp"},
        {"field": "paid", "type": "boolean", "optional": True},
    ],
}
_FIRST_MS: Final = 1_767_225_600_000
"""2026-01-01 00:00 UTC."""


def run(lab: Lab) -> list[Case]:
    """Fill a topic, then write its records to tables alternately on both sides."""
    lines = lab.options.lines()
    file = lab.directory / "records.json"
    with file.open("w", encoding="utf-8") as output:
        output.writelines(_make_lines(lines))
    kraal = lab.start_warm(("kraal",))["kraal"]
    topic = lab.topic("tables")
    say("filling a topic")
    transfer(lab, kraal, file, topic, lines)
    file.unlink()
    workers = {"java": _start_java(lab)} if "java" in lab.options.sides else {}
    if "kraal" in lab.options.sides:
        workers["kraal"] = kraal

    def to_iceberg(kind: str, worker: Worker) -> list[float]:
        warehouse = lab.directory / lab.new_name("warehouse")
        make_config = _configure_java if kind == "java" else _configure_iceberg
        seconds = _drain(lab, worker, make_config(lab, topic, warehouse), warehouse, lines)
        shutil.rmtree(warehouse)
        return [lines / seconds]

    measure_alternately(workers, lab.options.times(1, 0), to_iceberg)
    rows = measure_alternately(workers, lab.options.times(3, 1), to_iceberg)
    java, kraal_rates = ([row[0] for row in rows.get(kind, [])] for kind in ("java", "kraal"))
    return [
        Case("IcebergSink", "records/s", java, kraal_rates, more_is_better=True, wanted=Target(ratio=3.0)),
    ]


def _make_lines(count: int) -> Iterator[str]:
    schema = json.dumps(_SCHEMA, separators=(",", ":"))
    for number in range(count):
        yield (
            f'{{"schema":{schema},"payload":{{"id":{number},"name":"name {number % 1000}","price":{number % 997}.25,'
            f'"at":{_FIRST_MS + number},"paid":{"true" if number % 2 else "false"}}}}}\n'
        )


def _start_java(lab: Lab) -> Worker:
    """Start a Java worker with Apache Iceberg's connector."""
    path = lab.directory / "plugins" / "iceberg"
    path.mkdir(parents=True)
    for jar in (*ensure("iceberg"), *(jar for pattern in _JARS for jar in pyspark_jars(pattern))):
        shutil.copy(jar, path)
    settings = {"plugin.path": str(path.parent), "plugin.discovery": "service_load"}
    cluster = lab.cluster("java", settings, JAVA_VERSION)
    cluster.start(1)
    wait_until_idle(cluster.workers[0])
    return cluster.workers[0]


def _configure_java(lab: Lab, topic: str, warehouse: Path) -> dict[str, str]:
    control = lab.new_name("control")
    create_topic(lab.bootstrap, control)
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "topics": topic,
        "tasks.max": "1",
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        "iceberg.tables": "shop.orders",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": warehouse.as_uri(),
        "iceberg.control.topic": control,
        "iceberg.control.commit.interval-ms": str(COMMIT_INTERVAL_MS),
    }


def _configure_iceberg(lab: Lab, topic: str, warehouse: Path) -> dict[str, str]:
    del lab
    warehouse.mkdir()
    return {
        "connector.class": "IcebergSink",
        "topics": topic,
        "tasks.max": "1",
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        "table": "shop.orders",
        "commit.interval.ms": str(COMMIT_INTERVAL_MS),
        "iceberg.catalog.type": "sql",
        "iceberg.catalog.uri": f"sqlite:///{warehouse}/catalog.db",
        "iceberg.catalog.warehouse": warehouse.as_uri(),
    }


def _drain(lab: Lab, worker: Worker, config: Mapping[str, str], warehouse: Path, count: int) -> float:
    """Run a new sink until the table has all records; return the seconds since its POST."""
    connector = lab.new_name("table-sink")
    lab.settle()
    start_s = time.monotonic()
    worker.rest.create(connector, config)
    wait_until(
        f"the table of {worker.name} had {count} records",
        lambda: worker.rest.is_running(connector) and _count_records(warehouse) >= count,
        timeout_s=TIMEOUT_S,
        every_s=_CHECK_INTERVAL_S,
        program=worker.process,
    )
    seconds = time.monotonic() - start_s
    worker.rest.delete(connector)
    _check(worker, warehouse, count)
    return seconds


def _find_metadata(warehouse: Path) -> Path | None:
    """Return the latest metadata file of the table; None if there is none."""
    files = {
        int(match[1]): path
        for path in warehouse.glob("**/metadata/*.metadata.json")
        if (match := re.match(r"v?(\d+)", path.name))
    }
    return files[max(files)] if files else None


def _count_records(warehouse: Path) -> int:
    """Return the number of records according to the latest metadata of the table."""
    path = _find_metadata(warehouse)
    if path is None:
        return 0
    try:
        metadata: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except ValueError:  # it is being written
        return 0
    current = metadata.get("current-snapshot-id")
    summaries = [each["summary"] for each in metadata.get("snapshots", ()) if each["snapshot-id"] == current]
    return int(summaries[0].get("total-records", 0)) if summaries else 0


def _check(worker: Worker, warehouse: Path, count: int) -> None:
    """Check that the table contains the number of each record once. Raises ScriptFailed."""
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - an extra

    numbers = (
        StaticTable.from_metadata(str(_find_metadata(warehouse)))
        .scan(selected_fields=("id",))
        .to_arrow()["id"]
    )
    if (len(numbers), len(numbers.unique())) != (count, count):
        raise ScriptFailed(f"The table of {worker.name} has {len(numbers)} of {count} records.")
