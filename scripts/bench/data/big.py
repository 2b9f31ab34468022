"""`big`: 10 GB of JSON lines through SparkSource into one partition, with a Spark driver of 2 GB.

The file is in SparkSource's directory before the connector is created. Its lines are read with a schema
(`spark.schema`), and written by JsonConverter without a schema. The topic keeps 1 GiB. Its end offset is fetched four
times a second, and the memory of the worker's processes every two seconds. Rates are computed for each minute since the
last check that found the topic empty; the last minute ends with the last record. For comparison, Java's
FileStreamSource reads the same file for half a minute, as lines of text without parsing. Both producers compress with
lz4; `--gigabytes` sets the size. The last record must be the file's last line, and the numbers of records and lines
must be equal.
"""

from __future__ import annotations

import itertools
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.processes import ScriptFailed
from scripts.harness.topics import Reader
from scripts.harness.workers import Worker

BROKER_SETTINGS = {"log.retention.check.interval.ms": "5000"}
"""Broker settings with which the topic's retention is enforced within seconds."""
TOPIC_CONFIG = {"retention.bytes": str(2**30), "segment.bytes": str(2**28), "file.delete.delay.ms": "1000"}
SPARK_PROPERTIES = {"spark.driver.memory": "2g"}
"""Worker properties for Spark, which Java ignores."""
COMPRESSION_CONFIG = {"producer.override.compression.type": "lz4"}
SCHEMA = "id BIGINT NOT NULL, name STRING, amount DOUBLE, flag BOOLEAN, card STRING, note STRING"
POLL_INTERVAL_S, MEMORY_INTERVAL_S = 0.25, 2.0
STALL_TIMEOUT_S = 120.0
SPARE_BYTES = 5_000_000_000
_LINES_PER_BLOCK = 10_000

Sample = tuple[float, int]
"""A time in monotonic seconds, and the topic's end offset at that time."""


@dataclass(slots=True)
class Transfer:
    """The measurements of a transfer."""

    samples: list[Sample]
    """Samples in order; the first one is the last sample of the empty topic."""
    peaks: dict[str, int] = field(default_factory=dict)
    """Maximum resident bytes of `java` and of `other` processes."""
    cores: float = 0.0

    @property
    def rate(self) -> float:
        """Records per second over the whole transfer."""
        (start_s, first_count), (end_s, last_count) = self.samples[0], self.samples[-1]
        return (last_count - first_count) / (end_s - start_s)


def run(lab: Lab) -> list[Case]:
    """Send the file through Kraal and a part of it through Java."""
    total = round(lab.options.gigabytes * 1e9 / lab.options.times(1, 10))
    folder = lab.directory / "big"
    folder.mkdir()
    if shutil.disk_usage(folder).free < total + SPARE_BYTES:
        raise ScriptFailed(
            f"Not enough disk space for {total / 1e9:g} GB and a reserve of {SPARE_BYTES / 1e9:g} GB."
        )
    say(f"writing {total / 1e9:g} GB")
    count, last = write_records(folder / "records.json", total)
    minute_s, slice_s = lab.options.times(60, 6), lab.options.times(30, 6)
    transfers = {}
    for kind in lab.options.sides:
        worker = lab.start_warm((kind,), SPARK_PROPERTIES)[kind]
        topic = lab.topic("big", TOPIC_CONFIG)
        config = _make_config(kind, folder, topic)
        transfers[kind] = _measure_transfer(
            lab, worker, config, topic, count, slice_s if kind == "java" else None
        )
        if kind == "kraal":
            _check(lab.reader(topic), count, last)
        worker.stop()
    return _cases(transfers, minute_s, total / count)


def _make_config(kind: str, folder: Path, topic: str) -> dict[str, str]:
    if kind == "java":
        return source_config(folder / "records.json", topic) | COMPRESSION_CONFIG
    return COMPRESSION_CONFIG | {
        "connector.class": "SparkSource",
        "tasks.max": "1",
        "spark.format": "json",
        "spark.schema": SCHEMA,
        "path": str(folder),
        "topic": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }


def _measure_transfer(
    lab: Lab, worker: Worker, config: Mapping[str, str], topic: str, count: int, seconds: float | None
) -> Transfer:
    """Measure a new connector until all records have arrived, or for the given number of seconds."""
    connector, reader = lab.new_name("big"), lab.reader(topic)
    reader.end()  # connects the consumer
    lab.settle()
    before, start_s = worker.process.usage().cpu_s, time.monotonic()
    worker.rest.create(connector, config)

    def is_over(transfer: Transfer) -> bool:
        (first, _), (now, end) = transfer.samples[0], transfer.samples[-1]
        return end >= count or (seconds is not None and end > 0 and now - first >= seconds)

    transfer = _take_samples(worker, reader, is_over)
    transfer.cores = (worker.process.usage().cpu_s - before) / (time.monotonic() - start_s)
    worker.rest.delete(connector)
    say(f"{worker.name}: {transfer.rate:,.0f} records/s, {transfer.samples[-1][1]:,} records")
    return transfer


def _take_samples(worker: Worker, reader: Reader, is_over: Callable[[Transfer], bool]) -> Transfer:
    last_progress_s = last_memory_sample_s = time.monotonic()
    transfer = Transfer([(last_progress_s, 0)])
    while True:
        end, now = reader.end(), time.monotonic()
        if end == 0:
            transfer.samples = [(now, 0)]
        else:
            last_progress_s = now if end > transfer.samples[-1][1] else last_progress_s
            transfer.samples.append((now, end))
        if now - last_memory_sample_s >= MEMORY_INTERVAL_S:
            last_memory_sample_s = now
            for kind, resident in worker.process.resident().items():
                transfer.peaks[kind] = max(resident, transfer.peaks.get(kind, 0))
        if is_over(transfer):
            return transfer
        if now - last_progress_s > STALL_TIMEOUT_S or not worker.process.alive:
            raise ScriptFailed(f"{worker.name} stopped at {end} records: {worker.process.last_log_error()}")
        time.sleep(POLL_INTERVAL_S)


def _check(reader: Reader, count: int, last: bytes) -> None:
    """Check the number of records in the topic and its last record. Raises ScriptFailed."""
    if (end := reader.end()) != count:
        raise ScriptFailed(f"The topic received {end} records for {count} lines.")
    reader.seek(count - 1)
    if (value := reader.next(30.0)) != last:
        raise ScriptFailed(f"The last record is {value!r}, but the last line is {last!r}.")


def _cases(transfers: Mapping[str, Transfer], minute_s: float, line_bytes: float) -> list[Case]:
    java, kraal = transfers.get("java"), transfers.get("kraal")

    def case(
        name: str, unit: str, get_value: Callable[[Transfer], float], *, more_is_better: bool = False
    ) -> Case:
        java_values, kraal_values = ([get_value(transfer)] if transfer else [] for transfer in (java, kraal))
        return Case(name, unit, java_values, kraal_values, more_is_better=more_is_better)

    rates = compute_minute_rates(kraal.samples, minute_s) if kraal else []
    relative_rate = [rates[-1] / rates[0]] if rates else []
    return [
        case("JSON lines to Kafka", "records/s", lambda transfer: transfer.rate, more_is_better=True),
        case(
            "  file throughput",
            "MB/s",
            lambda transfer: transfer.rate * line_bytes / 1e6,
            more_is_better=True,
        ),
        Case(f"  in each {minute_s:g} s", "records/s", [], rates),
        Case(
            f"  last {minute_s:g} s relative to the first", "x", [], relative_rate, wanted=Target(least=0.9)
        ),
        case("  peak resident memory, JVM", "GB", lambda transfer: transfer.peaks.get("java", 0) / 1e9),
        case("  peak resident memory, Python", "GB", lambda transfer: transfer.peaks.get("other", 0) / 1e9),
        case("  CPU", "cores", lambda transfer: transfer.cores),
    ]


def compute_minute_rates(samples: Sequence[Sample], minute_s: float) -> list[float]:
    """Return the records per second of each minute since the first sample; the last minute ends with the last sample.

    The last two minutes may overlap. A transfer of less than two minutes is divided into halves.
    """
    start_s, end_s = samples[0][0], samples[-1][0]
    length = min(minute_s, (end_s - start_s) / 2)
    starts = [start_s + length * number for number in range(math.ceil((end_s - start_s) / length - 1e-9) - 1)]
    spans = [(start, start + length) for start in starts] + [(end_s - length, end_s)]
    return [(count_at(samples, stop) - count_at(samples, start)) / (stop - start) for start, stop in spans]


def count_at(samples: Sequence[Sample], moment: float) -> float:
    """Return the number of records at a point in time, by linear interpolation between samples."""
    for (before, count_before), (after, count_after) in itertools.pairwise(samples):
        if moment <= after:
            return count_before + (count_after - count_before) * max(0.0, moment - before) / (after - before)
    return samples[-1][1]


def write_records(path: Path, total: int) -> tuple[int, bytes]:
    """Write at least `total` bytes of JSON lines; return the number of lines and the last line."""
    notes = [
        f"{number * 7919 % 1009:04d} left at gate {number % 13}, behind the baobab" for number in range(1009)
    ]
    count = size = 0
    block = [""]
    with path.open("w", encoding="ascii", newline="\n") as file:
        while size < total:
            block = [
                _make_line(number, notes[number % 1009]) for number in range(count, count + _LINES_PER_BLOCK)
            ]
            size += file.write("".join(block))
            count += _LINES_PER_BLOCK
    return count, block[-1].rstrip("\n").encode()


def _make_line(n: int, note: str) -> str:
    flag = "true" if n % 2 else "false"
    return (
        f'{{"id":{n},"name":"item {n % 1009}","amount":{n % 1000}.5,"flag":{flag},'
        f'"card":"4111-{n * 7919 % 10**12:012d}","note":"{note}"}}\n'
    )
