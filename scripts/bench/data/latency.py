"""`latency`: latency of single records through an idle source and an idle sink, and the cost of 100 idle tasks.

All measurements use one Java and one Kraal worker with default settings. The latency of a source is the time from
appending a line to an idle file until a polling consumer receives the line. The latency of a sink is the time from
sending a record to the topic of an idle FileStreamSink until the file, checked every millisecond, has the record. The
records are spread evenly over the phases of the poll loops, one worker at a time. Then 100 idle FileStreamSource
connectors are created on each worker. After a pause, the CPU time of each process tree (worker and Spark together) is
measured for 30 s on both workers at once, and the resident memory at the end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Protocol

from confluent_kafka import Producer

from scripts.bench.control.restart import INVERSE_GOLDEN_RATIO
from scripts.bench.lab import Lab, say, sink_config, source_config
from scripts.bench.report import Case, Target
from scripts.harness.lines import size
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.rest import is_fully_running
from scripts.harness.topics import Reader
from scripts.harness.workers import START_TIMEOUT_S, Worker

WARM_UPS = 5
IDLE_S = 1.2
"""Minimum time between two records. After this time, Kraal polls an idle source at its lowest rate."""
IDLE_CONNECTORS = 100


def run(lab: Lab) -> list[Case]:
    """Measure the latency of single records, then the cost of idle tasks."""
    workers = lab.start_warm(lab.options.sides)
    lines = _measure_latencies(lab, {kind: _Tail(lab, worker) for kind, worker in workers.items()})
    records = _measure_latencies(lab, {kind: _Sink(lab, worker) for kind, worker in workers.items()})
    cores, memory = _measure_idle(lab, workers)
    return [
        Case(
            "source latency, append to consumer, median",
            "ms",
            lines.get("java", []),
            lines.get("kraal", []),
            wanted=Target(limit=30),
        ),
        Case(
            "sink latency, send to file, median",
            "ms",
            records.get("java", []),
            records.get("kraal", []),
            wanted=Target(limit=10),
        ),
        Case(
            "100 idle tasks: CPU",
            "cores",
            cores.get("java", []),
            cores.get("kraal", []),
            wanted=Target(limit=0.03),
        ),
        Case(
            "100 idle tasks: resident memory",
            "GB",
            memory.get("java", []),
            memory.get("kraal", []),
            wanted=Target(limit=0.9),
        ),
    ]


class _Probe(Protocol):
    def delay(self) -> float:
        """Send one record; return the seconds until it has arrived."""

    def close(self) -> None:
        """Delete the connector."""


def _measure_latencies(lab: Lab, probes: Mapping[str, _Probe]) -> dict[str, list[float]]:
    latencies: dict[str, list[float]] = {kind: [] for kind in probes}
    for number in range(WARM_UPS + lab.options.times(50, 10)):
        for kind, probe in probes.items():
            time.sleep(IDLE_S + number * INVERSE_GOLDEN_RATIO % 1.0)
            milliseconds = probe.delay() * 1000
            if number >= WARM_UPS:
                latencies[kind].append(milliseconds)
    for probe in probes.values():
        probe.close()
    say("measured the latencies")
    return latencies


class _Tail:
    """A source of an idle file, and a consumer at the end of its topic."""

    def __init__(self, lab: Lab, worker: Worker) -> None:
        path = lab.file(1)
        topic = lab.topic("latency")
        self._worker = worker
        self._reader: Reader = lab.reader(topic)
        self._reader.seek(0)
        worker.rest.create("tail", source_config(path, topic))
        worker.wait_until_running("tail")
        self._number = 0
        self._expect(30.0)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def close(self) -> None:
        os.close(self._file)
        self._worker.rest.delete("tail")

    def delay(self) -> float:
        """Append a line; return the seconds until its record has arrived."""
        self._number += 1
        line = f"line {self._number}".encode()
        while self._reader.next(0.0):  # no record is due; the poll makes the consumer fetch now
            pass
        start_s = time.monotonic()
        os.write(self._file, line + b"\n")
        if (value := self._expect(20.0)) != line:
            raise ScriptFailed(f"{self._worker.name} sent {value!r} instead of {line!r}.")
        return time.monotonic() - start_s

    def _expect(self, timeout_s: float) -> bytes:
        value = self._reader.next(timeout_s)
        if value is None:
            raise ScriptFailed(f"{self._worker.name} did not send a line within {timeout_s:.0f} s.")
        return value


class _Sink:
    """A sink of an idle topic."""

    def __init__(self, lab: Lab, worker: Worker) -> None:
        topic = lab.topic("idle-sink")
        self._worker = worker
        self._topic = topic
        self._file = lab.directory / lab.new_name("idle-sink")
        self._written = b""
        self._producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 0, "log_level": 2})
        worker.rest.create("idle-sink", sink_config(self._file, topic))
        worker.wait_until_running("idle-sink")
        self.delay()

    def close(self) -> None:
        self._worker.rest.delete("idle-sink")
        if self._file.read_bytes() != self._written:
            raise ScriptFailed(
                f"The file of the idle sink of {self._worker.name} differs from the sent records."
            )

    def delay(self) -> float:
        """Send a record; return the seconds until the file has it."""
        line = b"record %d" % len(self._written)
        self._written += line + b"\n"
        start_s = time.monotonic()
        self._producer.produce(self._topic, line)
        wait_until(
            f"{self._worker.name} had written a record",
            lambda: size(self._file) >= len(self._written),
            timeout_s=30.0,
            every_s=0.001,
            program=self._worker.process,
        )
        delay = time.monotonic() - start_s
        self._producer.flush(10)
        return delay


def _measure_idle(
    lab: Lab, workers: dict[str, Worker]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the CPU cores and the memory in GB that each worker uses with `IDLE_CONNECTORS` idle tasks."""
    count = 20 if lab.options.quick else IDLE_CONNECTORS
    topic = lab.topic("idle")
    for worker in workers.values():
        create_idle(lab, worker, topic, count)
    time.sleep(lab.options.times(15, 5))
    seconds = lab.options.times(30, 10)
    before = {kind: worker.process.usage() for kind, worker in workers.items()}
    start_s = time.monotonic()
    time.sleep(seconds)
    after = {kind: worker.process.usage() for kind, worker in workers.items()}
    elapsed_s = time.monotonic() - start_s
    cores = {kind: [(after[kind].cpu_s - before[kind].cpu_s) / elapsed_s] for kind in workers}
    memory = {kind: [after[kind].resident_bytes / 1e9] for kind in workers}
    say(f"{count} idle tasks on each for {elapsed_s:.0f} s")
    return cores, memory


def create_idle(lab: Lab, worker: Worker, topic: str, count: int) -> None:
    """Create idle FileStreamSource connectors, and wait until they run."""
    names = [f"idle-{number}" for number in range(count)]
    for name in names:
        worker.rest.create(name, source_config(lab.file(1), topic))

    def are_all_running() -> bool:
        statuses = worker.rest.statuses()
        return all(name in statuses and is_fully_running(statuses[name]) for name in names)

    wait_until(
        "all idle connectors were RUNNING",
        are_all_running,
        timeout_s=START_TIMEOUT_S,
        every_s=0.2,
        program=worker.process,
    )
