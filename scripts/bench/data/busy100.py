"""`busy100`: 100 file connectors, ten lines a second for each; how soon they are in Kafka, and where the time goes.

One worker at a time, Java's first. Each of its FileStreamSources has a file and a topic of one partition of its own. A
writer appends a line with its time to each file every 100 ms, to ten files at a moment, 10 ms apart; a consumer that is
assigned and polls says when a line is in Kafka. After 30 s of that, all lines of the next 60 s count.

A record's own time, CreateTime, divides its way: Java's source sets it when it polls, with Kraal it is the producer's,
inside the lane. A task does one thing at a time, so Kraal's figures also say what one round of a task is made of, from
poll to poll, by `/metrics`: the rest of a round is waiting for the next poll and for the acknowledgement. A line waits
half a round on average until its batch starts.
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
from scripts.bench.report import Case, Wanted, percentile
from scripts.harness.lines import LINE_BYTES
from scripts.harness.processes import wait_until
from scripts.harness.rest import all_running
from scripts.harness.workers import START_TIMEOUT_S, Worker

CONNECTORS = 100
EVERY_S = 0.1
GROUPS = 10
WARM_S, MEASURED_S = 30, 60
QUICK_S = 10
DRAIN_TIMEOUT_S = 120.0
LINGER_MS = 500
"""Of a second measurement of Kraal."""
_TASK = "kafka_connect_connector_task_metrics_"
_SOURCE = "kafka_connect_source_task_metrics_"


@dataclass(frozen=True, slots=True)
class Line:
    """One line that came. Nanoseconds since the epoch."""

    written: int
    created: int
    """The record's own time, in whole milliseconds."""
    arrived: int


@dataclass(frozen=True, slots=True)
class Window:
    """Some seconds of the flow."""

    begun: int
    """As in `Line`."""
    ended: int
    cores: float

    def of(self, lines: Sequence[Line]) -> list[Line]:
        """Return what was written in these seconds."""
        return [line for line in lines if self.begun <= line.written < self.ended]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a task of Kraal's does from poll to poll: means, milliseconds."""

    round_ms: float
    poll_ms: float
    store_ms: float

    @property
    def rest_ms(self) -> float:
        """What is left: no part of it is measured by itself."""
        return self.round_ms - self.poll_ms - self.store_ms


@dataclass(frozen=True, slots=True)
class Came:
    """What a consumer got of a whole flow, from the first line to the last."""

    lines: Sequence[Line]
    """Repeated ones as they came first."""
    repeated: int
    ends: Mapping[str, int]
    """Topic -> offset after its last record."""

    @property
    def transactions(self) -> int:
        """How many transactions wrote these lines; each left a marker at its end, also after the last record."""
        return sum(self.ends.values()) + len(self.ends) - len(self.lines) - self.repeated


Row = tuple[str, str, Wanted]
"""Name, unit and what is wanted."""


def run(lab: Lab) -> list[Case]:
    """Let lines flow through one worker after another."""
    rows: dict[str, list[float]] = {}
    each: list[Round] = []
    lingering: list[Case] = []
    for kind in lab.options.sides:
        rows[kind], one = _flowed(lab, kind)
        if one is not None:
            each.append(one)
            lingering = _lingering(lab)
    return cases(ROWS, rows) + lingering + [case for one in each for case in _explained(one)]


def _lingering(lab: Lab) -> list[Case]:
    """Return figures of Kraal with a long `batch.linger.ms`."""
    values, _ = _flowed(lab, "kraal", {"batch.linger.ms": str(LINGER_MS)})
    wanted = ((0, Wanted()), (len(ROWS) - 1, Wanted(limit=0.2)))
    before = f"batch.linger.ms={LINGER_MS}: "
    return [
        Case(before + ROWS[place][0].strip(), ROWS[place][1], [], [values[place]], wanted=each)
        for place, each in wanted
    ]


def _flowed(lab: Lab, kind: str, more: Mapping[str, str] | None = None) -> tuple[list[float], Round | None]:
    """Return the figures of one worker with `more` settings and, of Kraal, what a round is made of."""
    # `/metrics` speaks of the measured seconds alone
    extra = {"metrics.sample.window.ms": str(lab.options.times(MEASURED_S, QUICK_S) * 500)}
    worker = lab.started((kind,), extra | dict(more or {}))[kind]
    flow = Flow(lab, worker)
    window = measured(lab, worker)
    each = _round(worker) if kind == "kraal" else None
    values = figures(window.of(flow.close().lines), window.cores)
    worker.stop()
    say(f"{kind}: " + ", ".join(f"{figure:,.4g}" for figure in values))
    return values, each


def cases(names: Sequence[Row], rows: Mapping[str, Sequence[float]]) -> list[Case]:
    """Return a case for each row; shape of `rows`: kind -> a figure for each."""
    java, kraal = rows.get("java", []), rows.get("kraal", [])
    return [
        Case(name, unit, java=java[place:][:1], kraal=kraal[place:][:1], wanted=wanted)
        for place, (name, unit, wanted) in enumerate(names)
    ]


ROWS: tuple[Row, ...] = (
    ("95 % of lines in Kafka within", "s", Wanted(limit=0.05)),
    ("  half of them within", "s", Wanted()),
    ("  99 % within", "s", Wanted(limit=0.15)),
    ("  all within", "s", Wanted()),
    ("  to the record's own time (Java: polled; Kraal: sent), median", "ms", Wanted()),
    ("  from there to the consumer, median", "ms", Wanted()),
    ("  processor, the worker and all below it", "cores", Wanted(limit=0.35)),
)


def figures(lines: Sequence[Line], cores: float) -> list[float]:
    """Return a figure for each of `ROWS`."""
    delays = [(line.arrived - line.written) / 1e9 for line in lines]
    return [
        percentile(delays, 95),
        statistics.median(delays),
        percentile(delays, 99),
        max(delays),
        statistics.median((line.created - line.written) / 1e6 for line in lines),
        statistics.median((line.arrived - line.created) / 1e6 for line in lines),
        cores,
    ]


def measured(lab: Lab, worker: Worker) -> Window:
    """Let the worker's flow get warm, and return the seconds after that."""
    time.sleep(lab.options.times(WARM_S, 5))
    begun, before = time.time_ns(), worker.process.usage().cpu_s
    time.sleep(lab.options.times(MEASURED_S, QUICK_S))
    ended, after = time.time_ns(), worker.process.usage().cpu_s
    return Window(begun, ended, (after - before) / ((ended - begun) / 1e9))


class Flow:
    """Files that grow, the connectors that read them, and a consumer of their topics. Two threads of its own."""

    def __init__(
        self,
        lab: Lab,
        worker: Worker,
        extra: Mapping[str, str] | None = None,
        isolation: str = "read_uncommitted",
    ) -> None:
        """Create the connectors, with `extra` in their configs, and begin when all run."""
        count = 20 if lab.options.quick else CONNECTORS
        self._worker = worker
        self._lines: list[Line] = []
        self._sent = self._repeated = 0
        self._ends: dict[str, int] = {}
        self._writing, self._reading = threading.Event(), threading.Event()
        files = [lab.directory / lab.fresh("busy") for _ in range(count)]
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
            self._all_run,
            timeout_s=START_TIMEOUT_S,
            every_s=0.2,
            program=worker.process,
        )
        self._threads = [
            threading.Thread(target=self._read, name="reads", daemon=True),
            threading.Thread(target=self._write, args=(files,), name="writes", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> Came:
        """Write no more, wait until each line has come, and return them all."""
        self._writing.set()
        self._threads[1].join(DRAIN_TIMEOUT_S)
        wait_until(
            f"{self._worker.name} had sent all {self._sent} lines",
            lambda: len(self._lines) >= self._sent,
            timeout_s=DRAIN_TIMEOUT_S,
            program=self._worker.process,
        )
        self._reading.set()
        self._threads[0].join(DRAIN_TIMEOUT_S)
        self._consumer.close()
        return Came(self._lines, self._repeated, self._ends)

    def _all_run(self) -> bool:
        statuses = self._worker.rest.statuses()
        mine = [status for name, status in statuses.items() if name.startswith("busy-")]
        return bool(mine) and all(map(all_running, mine))

    def _write(self, files: Sequence[Path]) -> None:
        opened = [os.open(file, os.O_WRONLY | os.O_APPEND) for file in files]
        begun, number = time.monotonic(), 0
        while not self._writing.wait(max(0.0, begun + number * EVERY_S / GROUPS - time.monotonic())):
            for file in opened[number % GROUPS :: GROUPS]:
                os.write(file, stamped(self._sent, time.time_ns()))
                self._sent += 1
            number += 1
        for file in opened:
            os.close(file)

    def _read(self) -> None:
        seen = set[int]()
        while not self._reading.is_set():
            message: Any = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            arrived = time.time_ns()
            number, written = read_stamp(message.value())
            self._ends[message.topic()] = message.offset() + 1
            if number in seen:
                self._repeated += 1
            else:
                seen.add(number)
                self._lines.append(Line(written, message.timestamp()[1] * 1_000_000, arrived))


def stamped(number: int, now_ns: int) -> bytes:
    """Return a line of the usual length, with its end."""
    return (b"%d %d " % (number, now_ns)).ljust(LINE_BYTES, b".") + b"\n"


def read_stamp(value: bytes) -> tuple[int, int]:
    """Return number and time of what `stamped` made."""
    number, written, _ = value.split(b" ", 2)
    return int(number), int(written)


def _explained(each: Round) -> list[Case]:
    """Say what a task's round is made of."""
    return [
        Case(name, "ms", [], [value])
        for name, value in (
            ("  a task's round, from poll to poll", each.round_ms),
            ("    its poll", each.poll_ms),
            ("    offsets are stored", each.store_ms),
            ("    waiting for the next poll, and for the acknowledgement", each.rest_ms),
        )
    ]


def _round(worker: Worker) -> Round:
    """Put together what `/metrics` says of the seconds that just ended."""
    lines_each = statistics.fmean(worker.rest.metrics(f"{_TASK}batch_size_avg"))
    poll_ms = statistics.fmean(worker.rest.metrics(f"{_SOURCE}poll_batch_avg_time_ms"))
    store_ms = statistics.fmean(worker.rest.metrics(f"{_TASK}offset_commit_avg_time_ms"))
    return Round(round_ms=lines_each * EVERY_S * 1000, poll_ms=poll_ms, store_ms=store_ms)
