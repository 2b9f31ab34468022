"""`big`: 10 GB of JSON lines through SparkSource into one partition, with 2 GB for Spark's driver.

The file lies in SparkSource's directory before the connector is created; its lines are read with a schema
(`spark.schema`), and written by JsonConverter without one. The topic keeps 1 GiB. Its end offset is asked for four
times a second, and memory of the worker's processes every two seconds. Rates are by minute, from the last look at the
empty topic; the last minute is the one that ends with the last record. Half a minute of Java's FileStreamSource on the
same file follows: it reads the lines as text, and parses none. Both producers compress by lz4; `--gigabytes` is
the size. The last record must be the file's last line, and there must be as many records as lines.
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
from scripts.bench.report import Case, Wanted
from scripts.harness.processes import ScriptFailed
from scripts.harness.topics import Reader
from scripts.harness.workers import Worker

BROKER = {"log.retention.check.interval.ms": "5000"}
"""So that a topic is soon no larger than its retention says."""
KEPT = {"retention.bytes": str(2**30), "segment.bytes": str(2**28), "file.delete.delay.ms": "1000"}
SPARK = {"spark.driver.memory": "2g"}
"""Java passes over it."""
PACKED = {"producer.override.compression.type": "lz4"}
SCHEMA = "id BIGINT NOT NULL, name STRING, amount DOUBLE, flag BOOLEAN, card STRING, note STRING"
POLL_INTERVAL_S, MEMORY_EVERY_S = 0.25, 2.0
STUCK_S = 120.0
SPARE_BYTES = 5_000_000_000
_BLOCK = 10_000

Sample = tuple[float, int]
"""A moment, monotonic seconds, and the topic's end offset then."""


@dataclass(slots=True)
class Passage:
    """What was seen while records passed."""

    samples: list[Sample]
    """The first has the last look at the empty topic."""
    peaks: dict[str, int] = field(default_factory=dict)
    """Resident bytes, by `java` and `other`."""
    cores: float = 0.0

    @property
    def rate(self) -> float:
        """Records a second, over all of it."""
        (begun, none), (ended, count) = self.samples[0], self.samples[-1]
        return (count - none) / (ended - begun)


def run(lab: Lab) -> list[Case]:
    """Send the file through Kraal, and a part of it through Java."""
    total = round(lab.options.gigabytes * 1e9 / lab.options.times(1, 10))
    folder = lab.directory / "big"
    folder.mkdir()
    if shutil.disk_usage(folder).free < total + SPARE_BYTES:
        raise ScriptFailed(f"There is no room for {total / 1e9:g} GB and {SPARE_BYTES / 1e9:g} GB besides.")
    say(f"writing {total / 1e9:g} GB")
    count, last = write_records(folder / "records.json", total)
    minute_s, slice_s = lab.options.times(60, 6), lab.options.times(30, 6)
    passed = {}
    for kind in lab.options.sides:
        worker = lab.started((kind,), SPARK)[kind]
        topic = lab.topic("big", KEPT)
        config = _config(kind, folder, topic)
        passed[kind] = _passed(lab, worker, config, topic, count, slice_s if kind == "java" else None)
        if kind == "kraal":
            _check(lab.reader(topic), count, last)
        worker.stop()
    return _cases(passed, minute_s, total / count)


def _config(kind: str, folder: Path, topic: str) -> dict[str, str]:
    if kind == "java":
        return source_config(folder / "records.json", topic) | PACKED
    return PACKED | {
        "connector.class": "SparkSource",
        "tasks.max": "1",
        "spark.format": "json",
        "spark.schema": SCHEMA,
        "path": str(folder),
        "topic": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }


def _passed(
    lab: Lab, worker: Worker, config: Mapping[str, str], topic: str, count: int, seconds: float | None
) -> Passage:
    """Follow a fresh connector until all records have come, or for the given number of seconds of them."""
    connector, reader = lab.fresh("big"), lab.reader(topic)
    reader.end()  # connects
    lab.settle()
    before, begun = worker.process.usage().cpu_s, time.monotonic()
    worker.rest.create(connector, config)

    def over(passage: Passage) -> bool:
        (first, _), (now, end) = passage.samples[0], passage.samples[-1]
        return end >= count or (seconds is not None and end > 0 and now - first >= seconds)

    passage = _followed(worker, reader, over)
    passage.cores = (worker.process.usage().cpu_s - before) / (time.monotonic() - begun)
    worker.rest.delete(connector)
    say(f"{worker.name}: {passage.rate:,.0f} records/s, {passage.samples[-1][1]:,} records")
    return passage


def _followed(worker: Worker, reader: Reader, over: Callable[[Passage], bool]) -> Passage:
    moved = looked = time.monotonic()
    passage = Passage([(moved, 0)])
    while True:
        end, now = reader.end(), time.monotonic()
        if end == 0:
            passage.samples = [(now, 0)]
        else:
            moved = now if end > passage.samples[-1][1] else moved
            passage.samples.append((now, end))
        if now - looked >= MEMORY_EVERY_S:
            looked = now
            for what, resident in worker.process.resident().items():
                passage.peaks[what] = max(resident, passage.peaks.get(what, 0))
        if over(passage):
            return passage
        if now - moved > STUCK_S or not worker.process.alive:
            raise ScriptFailed(f"{worker.name} stopped at {end} records: {worker.process.last_words()}")
        time.sleep(POLL_INTERVAL_S)


def _check(reader: Reader, count: int, last: bytes) -> None:
    """See that the topic has had as many records as there are lines, and the last one is theirs."""
    if (end := reader.end()) != count:
        raise ScriptFailed(f"The topic has had {end} records for {count} lines.")
    reader.seek(count - 1)
    if (value := reader.next(30.0)) != last:
        raise ScriptFailed(f"The last record is {value!r}, and the last line {last!r}.")


def _cases(passed: Mapping[str, Passage], minute_s: float, line_bytes: float) -> list[Case]:
    java, kraal = passed.get("java"), passed.get("kraal")

    def case(name: str, unit: str, of: Callable[[Passage], float], *, more_is_better: bool = False) -> Case:
        first, second = ([of(each)] if each else [] for each in (java, kraal))
        return Case(name, unit, first, second, more_is_better=more_is_better)

    rates = minutes(kraal.samples, minute_s) if kraal else []
    flat = [rates[-1] / rates[0]] if rates else []
    return [
        case("JSON lines to Kafka", "records/s", lambda each: each.rate, more_is_better=True),
        case("  of the file", "MB/s", lambda each: each.rate * line_bytes / 1e6, more_is_better=True),
        Case(f"  each {minute_s:g} s", "records/s", [], rates),
        Case("  the last of them by the first", "x", [], flat, wanted=Wanted(least=0.9)),
        case("  peak resident memory, JVM", "GB", lambda each: each.peaks.get("java", 0) / 1e9),
        case("  peak resident memory, Python", "GB", lambda each: each.peaks.get("other", 0) / 1e9),
        case("  processor", "cores", lambda each: each.cores),
    ]


def minutes(samples: Sequence[Sample], minute_s: float) -> list[float]:
    """Return records a second, minute by minute from the first sample; the last one ends with the last sample.

    The last two overlap where the whole is no number of minutes. What is shorter than two minutes is cut in halves.
    """
    begun, ended = samples[0][0], samples[-1][0]
    length = min(minute_s, (ended - begun) / 2)
    starts = [begun + length * number for number in range(math.ceil((ended - begun) / length - 1e-9) - 1)]
    spans = [(start, start + length) for start in starts] + [(ended - length, ended)]
    return [(count_at(samples, stop) - count_at(samples, start)) / (stop - start) for start, stop in spans]


def count_at(samples: Sequence[Sample], moment: float) -> float:
    """Return how many records there were at a moment, on the line between the samples around it."""
    for (before, less), (after, more) in itertools.pairwise(samples):
        if moment <= after:
            return less + (more - less) * max(0.0, moment - before) / (after - before)
    return samples[-1][1]


def write_records(path: Path, total: int) -> tuple[int, bytes]:
    """Write lines of JSON until there are `total` bytes or a little more; return how many lines, and the last one."""
    notes = [
        f"{number * 7919 % 1009:04d} left at gate {number % 13}, behind the baobab" for number in range(1009)
    ]
    count = written = 0
    block = [""]
    with path.open("w", encoding="ascii", newline="\n") as file:
        while written < total:
            block = [_line(number, notes[number % 1009]) for number in range(count, count + _BLOCK)]
            written += file.write("".join(block))
            count += _BLOCK
    return count, block[-1].rstrip("\n").encode()


def _line(n: int, note: str) -> str:
    flag = "true" if n % 2 else "false"
    return (
        f'{{"id":{n},"name":"item {n % 1009}","amount":{n % 1000}.5,"flag":{flag},'
        f'"card":"4111-{n * 7919 % 10**12:012d}","note":"{note}"}}\n'
    )
