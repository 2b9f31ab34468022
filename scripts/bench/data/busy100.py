"""`busy100`: latency of 100 file connectors with ten lines a second each, and the stages of a task's cycle.

One worker at a time is measured, Java's first. Each FileStreamSource has its own file, and its own topic with one
partition. A writer appends a line with a timestamp to each file every 100 ms, to ten files at once, 10 ms apart; a
polling consumer records when each line is in Kafka. After a warm-up of 30 s, the lines of the next 60 s are measured.

A record's CreateTime divides the record's latency into two parts. Java's source sets the CreateTime when it polls; in
Kraal, the producer in the lane sets it. Kraal's results also include the stages of a task's cycle from poll to poll,
according to `/metrics`. In the remaining time of a cycle, the task waits for the next poll and for the acknowledgement.
On average, a line waits half a cycle until its batch starts.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target, percentile
from scripts.harness.lines import LINE_BYTES
from scripts.harness.processes import wait_until
from scripts.harness.rest import is_fully_running
from scripts.harness.workers import START_TIMEOUT_S, Worker

CONNECTORS = 100
INTERVAL_S = 0.1
GROUPS = 10
WARM_UP_S, MEASUREMENT_S = 30, 60
QUICK_MEASUREMENT_S = 10
DRAIN_TIMEOUT_S = 120.0
LINGER_MS = 500
"""`batch.linger.ms` of a second measurement of Kraal."""
_TASK = "kafka_connect_connector_task_metrics_"
_SOURCE = "kafka_connect_source_task_metrics_"


@dataclass(frozen=True, slots=True)
class Line:
    """Timestamps of a received line, in nanoseconds since the epoch."""

    written_ns: int
    created_ns: int
    """The record's CreateTime, which has a resolution of milliseconds."""
    arrived_ns: int


@dataclass(frozen=True, slots=True)
class Window:
    """A measurement window of the flow."""

    start_ns: int
    end_ns: int
    cores: float

    def select(self, lines: Sequence[Line]) -> list[Line]:
        """Return the lines written in this window."""
        return [line for line in lines if self.start_ns <= line.written_ns < self.end_ns]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """Mean durations of the stages of a Kraal task's cycle, from poll to poll."""

    cycle_ms: float
    poll_ms: float
    store_ms: float

    @property
    def remaining_ms(self) -> float:
        """Duration of the remaining stages, which are not measured separately."""
        return self.cycle_ms - self.poll_ms - self.store_ms


@dataclass(frozen=True, slots=True)
class ReceivedLines:
    """The lines of a flow that a consumer received."""

    lines: Sequence[Line]
    """The lines without duplicates."""
    duplicates: int
    """Number of duplicate lines."""
    end_offsets: Mapping[str, int]
    """The offset after the last record, by topic."""

    @property
    def transactions(self) -> int:
        """Number of transactions that wrote these lines. Each transaction, including the last, ends with a marker."""
        return sum(self.end_offsets.values()) + len(self.end_offsets) - len(self.lines) - self.duplicates


Row = tuple[str, str, Target]
"""Name, unit and target."""


def run(lab: Lab) -> list[Case]:
    """Measure one worker after another."""
    rows: dict[str, list[float]] = {}
    linger_cases: list[Case] = []
    stage_cases: list[Case] = []
    for kind in lab.options.sides:
        rows[kind], cycle = _measure_flow(lab, kind)
        if cycle is not None:
            linger_cases = _measure_linger(lab)
            stage_cases = _make_stage_cases(cycle)
    return cases(ROWS, rows) + linger_cases + stage_cases


def _measure_linger(lab: Lab) -> list[Case]:
    """Return the results of Kraal with a long `batch.linger.ms`."""
    values, _ = _measure_flow(lab, "kraal", {"batch.linger.ms": str(LINGER_MS)})
    targets = ((0, Target()), (len(ROWS) - 1, Target(limit=0.2)))
    prefix = f"batch.linger.ms={LINGER_MS}: "
    return [
        Case(prefix + ROWS[index][0].strip(), ROWS[index][1], [], [values[index]], wanted=target)
        for index, target in targets
    ]


def _measure_flow(
    lab: Lab, kind: str, settings: Mapping[str, str] | None = None
) -> tuple[list[float], Cycle | None]:
    """Return the results of one worker with additional settings and, for Kraal, the stages of a cycle."""
    # With this window, `/metrics` only covers the measurement.
    extra = {"metrics.sample.window.ms": str(lab.options.times(MEASUREMENT_S, QUICK_MEASUREMENT_S) * 500)}
    worker = lab.start_warm((kind,), extra | dict(settings or {}))[kind]
    flow = Flow(lab, worker)
    window = measure_window(lab, worker)
    cycle = _read_cycle(worker) if kind == "kraal" else None
    values = figures(window.select(flow.close().lines), window.cores)
    worker.stop()
    say(f"{kind}: " + ", ".join(f"{figure:,.4g}" for figure in values))
    return values, cycle


def cases(rows: Sequence[Row], values: Mapping[str, Sequence[float]]) -> list[Case]:
    """Return a case for each row; `values` contains the values of all rows by kind."""
    java, kraal = values.get("java", []), values.get("kraal", [])
    return [
        Case(name, unit, java=java[index:][:1], kraal=kraal[index:][:1], wanted=wanted)
        for index, (name, unit, wanted) in enumerate(rows)
    ]


ROWS: tuple[Row, ...] = (
    ("95 % of lines in Kafka within", "s", Target(limit=0.05)),
    ("  50 % within", "s", Target()),
    ("  99 % within", "s", Target(limit=0.15)),
    ("  all within", "s", Target()),
    ("  from append to the record's timestamp (Java: poll; Kraal: send), median", "ms", Target()),
    ("  from the record's timestamp to the consumer, median", "ms", Target()),
    ("  CPU, worker and child processes", "cores", Target(limit=0.35)),
)


def figures(lines: Sequence[Line], cores: float) -> list[float]:
    """Return a value for each of `ROWS`."""
    delays = [(line.arrived_ns - line.written_ns) / 1e9 for line in lines]
    return [
        percentile(delays, 95),
        statistics.median(delays),
        percentile(delays, 99),
        max(delays),
        statistics.median((line.created_ns - line.written_ns) / 1e6 for line in lines),
        statistics.median((line.arrived_ns - line.created_ns) / 1e6 for line in lines),
        cores,
    ]


def measure_window(lab: Lab, worker: Worker) -> Window:
    """Wait for the warm-up and the measurement; return the measurement window."""
    time.sleep(lab.options.times(WARM_UP_S, 5))
    start_ns, before = time.time_ns(), worker.process.usage().cpu_s
    time.sleep(lab.options.times(MEASUREMENT_S, QUICK_MEASUREMENT_S))
    end_ns, after = time.time_ns(), worker.process.usage().cpu_s
    return Window(start_ns, end_ns, (after - before) / ((end_ns - start_ns) / 1e9))


class Flow:
    """Growing files, the connectors that read them, and a consumer of their topics. Has two threads."""

    def __init__(
        self,
        lab: Lab,
        worker: Worker,
        extra: Mapping[str, str] | None = None,
        isolation: str = "read_uncommitted",
    ) -> None:
        """Create the connectors, with `extra` in their configs, and start the flow when all connectors run."""
        count = 20 if lab.options.quick else CONNECTORS
        self._worker = worker
        self._lines: list[Line] = []
        self._sent_count = self._duplicate_count = 0
        self._end_offsets: dict[str, int] = {}
        self._writer_stopped, self._reader_stopped = threading.Event(), threading.Event()
        files = [lab.directory / lab.new_name("busy") for _ in range(count)]
        topics = [lab.topic("busy") for _ in files]
        for file in files:
            file.touch()
        self._consumer = Consumer(
            {
                "bootstrap.servers": lab.bootstrap,
                "group.id": "scripts",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "log_level": 2,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
        for number, (file, topic) in enumerate(zip(files, topics, strict=True)):
            worker.rest.create(f"busy-{number}", source_config(file, topic) | dict(extra or {}))
        wait_until(
            f"{count} connectors ran",
            self._are_all_running,
            timeout_s=START_TIMEOUT_S,
            every_s=0.2,
            program=worker.process,
        )
        self._threads = [
            threading.Thread(target=self._read, name="reader", daemon=True),
            threading.Thread(target=self._write, args=(files,), name="writer", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> ReceivedLines:
        """Stop writing, wait until every line has arrived, and return all lines."""
        self._writer_stopped.set()
        self._threads[1].join(DRAIN_TIMEOUT_S)
        wait_until(
            f"{self._worker.name} had sent all {self._sent_count} lines",
            lambda: len(self._lines) >= self._sent_count,
            timeout_s=DRAIN_TIMEOUT_S,
            program=self._worker.process,
        )
        self._reader_stopped.set()
        self._threads[0].join(DRAIN_TIMEOUT_S)
        self._consumer.close()
        return ReceivedLines(self._lines, self._duplicate_count, self._end_offsets)

    def _are_all_running(self) -> bool:
        statuses = self._worker.rest.statuses()
        busy_statuses = [status for name, status in statuses.items() if name.startswith("busy-")]
        return bool(busy_statuses) and all(map(is_fully_running, busy_statuses))

    def _write(self, files: Sequence[Path]) -> None:
        descriptors = [os.open(file, os.O_WRONLY | os.O_APPEND) for file in files]
        start_s, number = time.monotonic(), 0
        while not self._writer_stopped.wait(
            max(0.0, start_s + number * INTERVAL_S / GROUPS - time.monotonic())
        ):
            for file in descriptors[number % GROUPS :: GROUPS]:
                os.write(file, make_stamped_line(self._sent_count, time.time_ns()))
                self._sent_count += 1
            number += 1
        for file in descriptors:
            os.close(file)

    def _read(self) -> None:
        received_numbers = set[int]()
        while not self._reader_stopped.is_set():
            message: Any = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            arrived_ns = time.time_ns()
            number, written_ns = read_stamp(message.value())
            self._end_offsets[message.topic()] = message.offset() + 1
            if number in received_numbers:
                self._duplicate_count += 1
            else:
                received_numbers.add(number)
                self._lines.append(Line(written_ns, message.timestamp()[1] * 1_000_000, arrived_ns))


def make_stamped_line(number: int, now_ns: int) -> bytes:
    """Return a line of the usual length with a number and a timestamp."""
    return (b"%d %d " % (number, now_ns)).ljust(LINE_BYTES, b".") + b"\n"


def read_stamp(value: bytes) -> tuple[int, int]:
    """Return the number and the timestamp of a stamped line."""
    number, written_ns, _ = value.split(b" ", 2)
    return int(number), int(written_ns)


def _make_stage_cases(cycle: Cycle) -> list[Case]:
    """Return a case for each stage of a task's cycle."""
    return [
        Case(name, "ms", [], [value])
        for name, value in (
            ("  cycle of a task, from poll to poll", cycle.cycle_ms),
            ("    poll", cycle.poll_ms),
            ("    offset commit", cycle.store_ms),
            ("    wait for the next poll and the acknowledgement", cycle.remaining_ms),
        )
    ]


def _read_cycle(worker: Worker) -> Cycle:
    """Read the stages of a cycle in the last window from `/metrics`."""
    lines_per_batch = statistics.fmean(worker.rest.metrics(f"{_TASK}batch_size_avg"))
    poll_ms = statistics.fmean(worker.rest.metrics(f"{_SOURCE}poll_batch_avg_time_ms"))
    store_ms = statistics.fmean(worker.rest.metrics(f"{_TASK}offset_commit_avg_time_ms"))
    return Cycle(cycle_ms=lines_per_batch * INTERVAL_S * 1000, poll_ms=poll_ms, store_ms=store_ms)
