"""`sink`: one partition into one file.

Java's FileStreamSource fills the topics once, with its producer's defaults and with lz4. Both workers are up and
warm. Records/s is records divided by the time from the POST that creates the connector until the file has its full
size, looked at every 10 ms; then the file must equal the source file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from scripts.bench.lab import TRANSFER_S, Lab, alternated, say, sink_config
from scripts.bench.report import Case, Wanted
from scripts.bench.source import transfer
from scripts.harness.lines import ON_DISK, sha256, size
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.workers import Worker


def run(lab: Lab) -> list[Case]:
    """Fill two topics, then measure each on both."""
    lines = lab.options.lines()
    file = lab.file(lines)
    expected = sha256(file)
    filler = lab.started(("java",))["java"]
    topics = {}
    for name, extra in (
        ("topic as Java's producer leaves it", {}),
        ("topic in lz4", {"producer.override.compression.type": "lz4"}),
    ):
        say(f"filling: {name}")
        topics[name] = lab.topic("sink")
        transfer(lab, filler, file, topics[name], lines, extra)
    workers = {"java": filler} if "java" in lab.options.sides else {}
    if "kraal" in lab.options.sides:
        workers |= lab.started(("kraal",))
    cases = []
    for name, topic in topics.items():
        say(name)

        def measure(_kind: str, worker: Worker, topic: str = topic) -> list[float]:
            return [lines / _drained(lab, worker, topic, lines, expected)]

        rows = alternated(workers, lab.options.times(3, 1), measure)
        java, kraal = ([row[0] for row in rows.get(kind, [])] for kind in ("java", "kraal"))
        wanted = Wanted(ratio=1.2) if topic == next(iter(topics.values())) else Wanted()
        cases.append(Case(name, "records/s", java, kraal, more_is_better=True, wanted=wanted))
    return cases


def _drained(lab: Lab, worker: Worker, topic: str, lines: int, expected: str) -> float:
    """Write `topic` to a fresh file and return the seconds that took."""
    file = lab.directory / lab.fresh("out")
    seconds = drained(lab, worker, sink_config(file, topic), lambda: size(file), lines * ON_DISK)
    if sha256(file) != expected:
        raise ScriptFailed(f"What {worker.name} wrote is not what is in the topic, in order.")
    file.unlink()
    return seconds


def drained(
    lab: Lab, worker: Worker, config: Mapping[str, str], written: Callable[[], int], wanted: int
) -> float:
    """Run a fresh sink until `written` says that so many bytes are there; return the seconds since its POST."""
    connector = lab.fresh("sink")
    lab.settle()
    begun = time.monotonic()
    worker.rest.create(connector, config)
    wait_until(
        f"{worker.name} had written {wanted} bytes",
        lambda: written() >= wanted,
        timeout_s=TRANSFER_S,
        every_s=0.010,
        program=worker.process,
    )
    seconds = time.monotonic() - begun
    worker.rest.delete(connector)
    return seconds
