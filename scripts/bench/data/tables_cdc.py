"""`tables-cdc`: 1,000,000 change events of 100,000 keys are applied to a table of 1,000,000 rows.

The other side is not a Java worker but a plain Spark job that merges the changes into a copy of the Delta table, since
Apache Iceberg's connector only appends. Both commit up to 100,000 records at a time, without pauses between commits.
Kraal's time is measured from the POST that creates the connector until the consumer group has committed all offsets,
which follows the last commit of the table. The plain job measures its own time. Afterwards, the tables must equal the
result of the changes.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Producer

from kraal.jars.jars import ensure
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Target
from scripts.harness.processes import Running, ScriptFailed, wait_until
from scripts.harness.workers import Worker

if TYPE_CHECKING:
    import pyarrow as pa

ROWS: Final = 1_000_000
CHANGES: Final = 1_000_000
KEYS: Final = 100_000
COMMIT_RECORDS: Final = 100_000
TIMEOUT_S: Final = 900.0
_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
_QUICK_DIVISOR: Final = 10
_QUEUE_RECORDS: Final = 200_000
_DELETED_SHARE: Final = 0.1
_ROOT: Final = Path(__file__).parents[3]
_FIELDS: Final = [
    {"field": "id", "type": "int64", "optional": False},
    {"field": "name", "type": "string", "optional": True},
    {"field": "price", "type": "double", "optional": True},
    {"field": "paid", "type": "boolean", "optional": True},
]
_ROW: Final = {"type": "struct", "optional": True, "fields": _FIELDS}
_EVENT: Final = {
    "type": "struct",
    "name": "orders.Envelope",
    "fields": [
        {**_ROW, "field": "before"},
        {**_ROW, "field": "after"},
        {"field": "op", "type": "string", "optional": False},
    ],
}
_KEY: Final = {"type": "struct", "fields": _FIELDS[:1]}

Row = tuple[str, float, bool]
"""The values of a row: name, price and paid."""


@dataclass(frozen=True, slots=True)
class _Topics:
    """The topics with the first rows and with the changes, and the rows that result from both."""

    rows: str
    row_count: int
    changes: str
    change_count: int
    result: Mapping[int, Row]


def run(lab: Lab) -> list[Case]:
    """Fill the topics, then apply the changes on both sides in turns."""
    divisor = lab.options.times(1, _QUICK_DIVISOR)
    worker = lab.start_warm(("kraal",))["kraal"]
    say("filling the topics")
    topics = _fill_topics(lab, divisor)
    requests = lab.directory / "requests"
    say("starting the plain job")
    job = _start_plain_job(lab, requests)
    figures: dict[str, list[float]] = {"java": [], "DeltaSink": [], "IcebergSink": []}
    try:
        for number in range(1 + lab.options.times(2, 1)):
            results = _measure_round(lab, worker, job, requests, topics)
            say(f"round {number}: " + ", ".join(f"{side} {rate:,.0f}" for side, rate in results.items()))
            if number:  # the first round warms up
                for side, rate in results.items():
                    figures[side].append(rate)
    finally:
        (requests / "end").touch()
        job.stop()
    return [
        Case(
            f"{sink} (Java: a plain Spark job with MERGE into Delta)",
            "changes/s",
            figures["java"],
            figures[sink],
            more_is_better=True,
            wanted=Target(ratio=3.0),
        )
        for sink in ("DeltaSink", "IcebergSink")
    ]


def _measure_round(
    lab: Lab, worker: Worker, job: Running, requests: Path, topics: _Topics
) -> dict[str, float]:
    """Return the changes per second of each side."""
    folder = lab.directory / lab.new_name("tables")
    folder.mkdir()
    plain = folder / "plain"
    results: dict[str, float] = {}
    for sink in ("DeltaSink", "IcebergSink"):
        table = table_config(sink, folder)
        _drain(lab, worker, sink, table, topics.rows, topics.row_count)
        if sink == "DeltaSink":
            shutil.copytree(table["table"], plain)
        lab.settle()
        results[sink] = topics.change_count / _drain(
            lab, worker, sink, table, topics.changes, topics.change_count
        )
        rows = _read_delta(Path(table["table"])) if sink == "DeltaSink" else _read_iceberg(table)
        _check(sink, rows, topics.result)
    lab.settle()
    results["java"] = topics.change_count / _merge(lab, job, requests, topics.changes, plain)
    _check("the plain job", _read_delta(plain), topics.result)
    shutil.rmtree(folder)
    return results


def _fill_topics(lab: Lab, divisor: int) -> _Topics:
    row_count, change_count, keys = ROWS // divisor, CHANGES // divisor, KEYS // divisor
    rows = {number: (f"name {number}", number / 4, bool(number % 2)) for number in range(row_count)}
    names = lab.topic("rows"), lab.topic("changes")
    producer = Producer(
        {
            "bootstrap.servers": lab.bootstrap,
            "linger.ms": 50,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 2 * _QUEUE_RECORDS,
        }
    )
    row_schema, event_schema, key_schema = (
        json.dumps(each, separators=(",", ":")) for each in (_ROW, _EVENT, _KEY)
    )

    def produce(topic: str, number: int, schema: str, payload: Any) -> None:
        value = f'{{"schema":{schema},"payload":{json.dumps(payload)}}}'
        producer.produce(topic, value, f'{{"schema":{key_schema},"payload":{{"id":{number}}}}}', partition=0)
        if len(producer) > _QUEUE_RECORDS:
            producer.poll(0.05)

    for number, row in rows.items():
        produce(names[0], number, row_schema, _to_object(number, row))
    numbers = random.Random(1)  # noqa: S311 - not for security
    for change in range(change_count):
        number = numbers.randrange(keys)
        before = rows.get(number)
        if before is not None and numbers.random() < _DELETED_SHARE:
            del rows[number]
            event = {"before": _to_object(number, before), "after": None, "op": "d"}
        else:
            rows[number] = (f"change {change}", change / 4, not change % 3)
            event = {
                "before": None,
                "after": _to_object(number, rows[number]),
                "op": "c" if before is None else "u",
            }
        produce(names[1], number, event_schema, event)
    if producer.flush(TIMEOUT_S):
        raise ScriptFailed("The broker has not received all records.")
    return _Topics(names[0], row_count, names[1], change_count, rows)


def _to_object(number: int, row: Row) -> dict[str, Any]:
    return {"id": number, "name": row[0], "price": row[1], "paid": row[2]}


def sink_config(sink: str, topic: str, table: Mapping[str, str]) -> dict[str, str]:
    """Return the config of a sink to a table with these settings, without a write mode."""
    return {
        "connector.class": sink,
        "topics": topic,
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        **table,
    }


def table_config(sink: str, folder: Path) -> dict[str, str]:
    """Return the settings of a new table in a folder, for a DeltaSink or an IcebergSink."""
    if sink == "DeltaSink":
        return {"table": str(folder / "delta")}
    return {
        "table": "shop.orders",
        "iceberg.catalog.type": "sql",
        "iceberg.catalog.uri": f"sqlite:///{folder}/catalog.db",
        "iceberg.catalog.warehouse": (folder / "iceberg").as_uri(),
    }


def _drain(lab: Lab, worker: Worker, sink: str, table: Mapping[str, str], topic: str, count: int) -> float:
    """Run a new sink until all offsets are committed; return the seconds since its POST."""
    name = lab.new_name("cdc")
    config = {
        **sink_config(sink, topic, table),
        "tasks.max": "1",
        "write.mode": "cdc",
        "commit.interval.ms": "0",
        "commit.records": str(COMMIT_RECORDS),
    }
    start_s = time.monotonic()
    worker.rest.create(name, config)
    wait_until(
        f"{name} had committed all offsets",
        lambda: worker.rest.committed_offsets(name) == count,
        timeout_s=TIMEOUT_S,
        program=worker.process,
    )
    seconds = time.monotonic() - start_s
    worker.rest.delete(name)
    return seconds


def _start_plain_job(lab: Lab, requests: Path) -> Running:
    requests.mkdir()
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(str(jar) for group in ("spark", "delta") for jar in ensure(group)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    file = requests.with_suffix(".settings")
    file.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "scripts.bench.data.merge_job", str(file), str(requests)]
    process = Running(command, log=lab.directory / "plain.log", cwd=_ROOT, env=os.environ)
    wait_until("the plain job was up", (requests / "up").exists, timeout_s=TIMEOUT_S, program=process)
    return process


def _merge(lab: Lab, job: Running, requests: Path, topic: str, table: Path) -> float:
    """Let the plain job apply the changes; return its seconds."""
    request = requests / f"{lab.new_name('merge')}.new"
    content = {
        "bootstrap": lab.bootstrap,
        "topic": topic,
        "table": str(table),
        "checkpoint": str(request.with_suffix(".checkpoint")),
        "records": COMMIT_RECORDS,
    }
    request.write_text(json.dumps(content))
    request.rename(request.with_suffix(".json"))
    done_file = request.with_suffix(".done")
    wait_until("the plain job had applied the changes", done_file.exists, timeout_s=TIMEOUT_S, program=job)
    return float(done_file.read_text())


def _read_delta(path: Path) -> pa.Table:
    from deltalake import DeltaTable  # noqa: PLC0415 - an extra

    return DeltaTable(path).to_pyarrow_table()


def _read_iceberg(config: Mapping[str, str]) -> pa.Table:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - an extra

    prefix = "iceberg.catalog."
    properties = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
    return load_catalog("iceberg", **properties).load_table(config["table"]).scan().to_arrow()


def _check(side: str, rows: pa.Table, expected: Mapping[int, Row]) -> None:
    """Raise ScriptFailed unless the table has exactly the expected rows."""
    values = zip(*(rows[name].to_pylist() for name in ("name", "price", "paid")), strict=True)
    stored = dict(zip(rows["id"].to_pylist(), values, strict=True))
    if rows.num_rows != len(expected) or stored != expected:
        raise ScriptFailed(f"The table of {side} differs from the result of the changes.")
