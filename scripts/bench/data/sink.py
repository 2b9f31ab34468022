"""`sink`: from one partition to one file, and to a directory.

Java's FileStreamSource fills one topic with default producer settings and one with lz4. The Java and the Kraal worker
are both up and warm. Records/s is records divided by the time from the POST that creates the connector until the file
has its full size, checked every 10 ms. The file must then equal the source file. For the directory, Kraal's sink is
SparkSink with text files, whose concatenation must equal the source file. Java has no such sink, so this case is
compared with Java's FileStreamSink. Kraal's rates are also compared with Kafka's own `kafka-consumer-perf-test`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.bench.data.limits import CONSUMER_TOOL, compare_with_tool, measure_consumer
from scripts.bench.data.source import transfer
from scripts.bench.lab import TRANSFER_TIMEOUT_S, Lab, measure_alternately, say, sink_config
from scripts.bench.report import Case, Target
from scripts.harness.lines import LINE_BYTES_ON_DISK, sha256, size
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.workers import Worker


def run(lab: Lab) -> list[Case]:
    """Fill two topics, then measure each of them on both sides."""
    lines = lab.options.lines()
    file = lab.file(lines)
    expected = sha256(file)
    source_worker = lab.start_warm(("java",))["java"]
    plain_topic, compressed_topic = (
        _fill_topic(lab, source_worker, file, {}),
        _fill_topic(lab, source_worker, file, {"compression.type": "lz4"}),
    )
    workers = {"java": source_worker} if "java" in lab.options.sides else {}
    if "kraal" in lab.options.sides:
        workers |= lab.start_warm(("kraal",))

    def to_file(topic: str) -> Callable[[str, Worker], list[float]]:
        return lambda _kind, worker: [lines / _drain_to_file(lab, worker, topic, lines, expected)]

    def to_folder(kind: str, worker: Worker) -> list[float]:
        if kind == "java":
            return to_file(plain_topic)(kind, worker)
        return [lines / _drain_to_directory(lab, worker, plain_topic, lines, expected)]

    cases = []
    for name, measure, wanted in (
        ("topic with default producer settings", to_file(plain_topic), Target(ratio=1.5)),
        ("topic compressed with lz4", to_file(compressed_topic), Target()),
        ("SparkSink to a directory", to_folder, Target(ratio=1.8)),
    ):
        say(name)
        rows = measure_alternately(workers, lab.options.times(3, 1), measure)
        java, kraal = ([row[0] for row in rows.get(kind, [])] for kind in ("java", "kraal"))
        cases.append(Case(name, "records/s", java, kraal, more_is_better=True, wanted=wanted))
    for topic, case in zip((plain_topic, compressed_topic, plain_topic), cases.copy(), strict=True):
        limits = [measure_consumer(lab, topic) for _ in range(lab.options.times(2, 1))]
        cases.insert(cases.index(case) + 1, compare_with_tool(CONSUMER_TOOL, limits, case.kraal))
    return cases


def _fill_topic(lab: Lab, source_worker: Worker, file: Path, settings: Mapping[str, str]) -> str:
    """Send `file` to a new topic with these producer settings; return the topic."""
    say(f"filling a topic with {dict(settings) or 'default settings'}")
    topic = lab.topic("sink")
    overrides = {f"producer.override.{key}": value for key, value in settings.items()}
    transfer(lab, source_worker, file, topic, lab.options.lines(), overrides)
    return topic


def _drain_to_file(lab: Lab, worker: Worker, topic: str, lines: int, expected: str) -> float:
    """Write `topic` to a new file; return the duration in seconds."""
    file = lab.directory / lab.new_name("out")
    seconds = drain(lab, worker, sink_config(file, topic), lambda: size(file), lines * LINE_BYTES_ON_DISK)
    if sha256(file) != expected:
        raise ScriptFailed(f"The file of {worker.name} differs from the records of the topic.")
    file.unlink()
    return seconds


def _drain_to_directory(lab: Lab, worker: Worker, topic: str, lines: int, expected: str) -> float:
    """Write `topic` to text files in a new directory with SparkSink; return the duration in seconds."""
    folder = lab.directory / lab.new_name("out")
    config = {
        "connector.class": "SparkSink", "tasks.max": "1", "topics": topic, "spark.format": "text", "path": str(folder)
    }  # fmt: skip
    seconds = drain(
        lab, worker, config, lambda: sum(map(size, folder.glob("*.txt"))), lines * LINE_BYTES_ON_DISK
    )
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.txt")):  # sorted by name, the files are in offset order
        digest.update(path.read_bytes())
        path.unlink()
    if digest.hexdigest() != expected:
        raise ScriptFailed(
            f"The files of {worker.name} in {folder.name} differ from the records of the topic."
        )
    return seconds


def drain(
    lab: Lab, worker: Worker, config: Mapping[str, str], get_size: Callable[[], int], expected_bytes: int
) -> float:
    """Run a new sink until `get_size` returns the expected number of bytes; return the seconds since its POST."""
    connector = lab.new_name("sink")
    lab.settle()
    start_s = time.monotonic()
    worker.rest.create(connector, config)
    wait_until(
        f"{worker.name} had written {expected_bytes} bytes",
        lambda: get_size() >= expected_bytes,
        timeout_s=TRANSFER_TIMEOUT_S,
        every_s=0.010,
        program=worker.process,
    )
    seconds = time.monotonic() - start_s
    worker.rest.delete(connector)
    return seconds
