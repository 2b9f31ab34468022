"""`source`: a file into one partition.

The Java and the Kraal worker are both up and warm. The end offset of the topic is fetched every 20 ms. Records/s is
lines divided by the time from the last check that finds the topic empty to the first check that finds it full. "From
creation" starts with the POST. With the same settings, Kraal's rate is also compared with that of Kafka's own
`kafka-producer-perf-test`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.bench.data.limits import PRODUCER_TOOL, compare_with_tool, measure_producer
from scripts.bench.lab import TRANSFER_TIMEOUT_S, Lab, measure_alternately, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.lines import sha256
from scripts.harness.processes import ScriptFailed
from scripts.harness.workers import Worker

POLL_INTERVAL_S = 0.020
TUNED_SETTINGS = {"linger.ms": "5", "batch.size": "262144", "compression.type": "lz4"}


def run(lab: Lab) -> list[Case]:
    """Measure with the default settings of each side, then with the same producer settings on both."""
    file = lab.file(lab.options.lines())
    cases = []
    for name, settings, wanted in (
        ("default settings", {}, Target(ratio=4.0)),
        ("same settings (linger 5 ms, batch 256 KiB, lz4)", TUNED_SETTINGS, Target(ratio=1.1)),
    ):
        say(name)
        cases += _measure(lab, file, name, settings, wanted)
    return cases


def _measure(lab: Lab, file: Path, name: str, settings: dict[str, str], wanted: Target) -> list[Case]:
    lines, checked_kinds, expected = lab.options.lines(), set[str](), sha256(file)
    workers = lab.start_warm(lab.options.sides, {f"producer.{key}": value for key, value in settings.items()})

    def measure(kind: str, worker: Worker) -> list[float]:
        topic = lab.topic("source")
        seconds, from_create = transfer(lab, worker, file, topic, lines)
        if kind not in checked_kinds:
            checked_kinds.add(kind)
            check(lab, kind, topic, lines, expected)
        return [lines / seconds, from_create]

    rounds = lab.options.times(2, 1)
    rows = measure_alternately(workers, rounds, measure)
    limits = [measure_producer(lab, settings) for _ in range(rounds if settings else 0)]
    for worker in workers.values():
        worker.stop()

    def column(kind: str, index: int) -> list[float]:
        return [row[index] for row in rows.get(kind, [])]

    rates, creates = ((column("java", index), column("kraal", index)) for index in (0, 1))
    cases = [
        Case(name, "records/s", *rates, more_is_better=True, wanted=wanted),
        Case("  from creation until all records are in Kafka", "s", *creates),
    ]
    return [*cases, compare_with_tool(PRODUCER_TOOL, limits, rates[1])] if limits else cases


def transfer(
    lab: Lab,
    worker: Worker,
    file: Path,
    topic: str,
    lines: int,
    extra: Mapping[str, str] | None = None,
    count: Callable[[], int] | None = None,
) -> tuple[float, float]:
    """Send `file` to `topic`; return the seconds from the first record to the last, and from the POST to the last.

    `count` must return the number of lines in the topic; by default, it returns the end offset.
    """
    connector, count = lab.new_name("file-source"), count or lab.reader(topic).end
    count()  # connects
    lab.settle()
    with ThreadPoolExecutor(1) as pool:
        start_s = empty_s = now_s = time.monotonic()
        creation = pool.submit(worker.rest.create, connector, source_config(file, topic) | dict(extra or {}))
        while (end := count()) < lines:
            now_s = time.monotonic()
            if end == 0:
                empty_s = now_s
            if (
                now_s - start_s > TRANSFER_TIMEOUT_S
                or not worker.process.alive
                or (creation.done() and creation.exception())
            ):
                creation.result()
                raise ScriptFailed(f"{worker.name} stopped at {end} of {lines} records in {topic}.")
            time.sleep(POLL_INTERVAL_S)
        now_s = time.monotonic()
        creation.result()
    worker.rest.delete(connector)
    if end > lines:
        raise ScriptFailed(f"{worker.name} wrote {end} records for {lines} lines.")
    return now_s - empty_s, now_s - start_s


def check(lab: Lab, kind: str, topic: str, lines: int, expected: str) -> None:
    """Check that the topic has every line of the file, in order. Raises ScriptFailed."""
    if lab.reader(topic).sha256(lines) != expected:
        raise ScriptFailed(f"The records of {kind} in {topic} differ from the lines of the file.")
    say(f"{kind}: the topic has the lines of the file in order")
