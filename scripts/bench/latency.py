"""`latency`: a line appended to an idle file until a consumer that polls has it; and the cost of 100 idle tasks.

The same two workers with default settings for both. Lines are appended at moments spread evenly over the pollers'
phases, to one file at a time. Then 100 more idle FileStreamSource connectors are created on each; after a pause the
processor time of each whole process tree is taken over 30 s, both at once, and its resident memory at the end.
"""

from __future__ import annotations

import os
import time

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Wanted
from scripts.bench.restart import GOLDEN
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.rest import all_running
from scripts.harness.topics import Reader
from scripts.harness.workers import UP_S, Worker

WARM_UPS = 5
IDLE_CONNECTORS = 100


def run(lab: Lab) -> list[Case]:
    """Measure the delay of single lines, then what idle costs."""
    workers = lab.started(lab.options.sides)
    delays = _delays(lab, workers)
    cores, memory = _idle(lab, workers)
    return [
        Case(
            "line appended until consumed, median",
            "ms",
            delays.get("java", []),
            delays.get("kraal", []),
            wanted=Wanted(limit=200),
        ),
        Case(
            "100 idle tasks: processor",
            "cores",
            cores.get("java", []),
            cores.get("kraal", []),
            wanted=Wanted(limit=0.1),
        ),
        Case("100 idle tasks: resident memory", "MiB", memory.get("java", []), memory.get("kraal", [])),
    ]


def _delays(lab: Lab, workers: dict[str, Worker]) -> dict[str, list[float]]:
    tails = {kind: _Tail(lab, worker) for kind, worker in workers.items()}
    delays: dict[str, list[float]] = {kind: [] for kind in workers}
    for number in range(WARM_UPS + lab.options.times(50, 10)):
        for kind, tail in tails.items():
            time.sleep(0.05 + number * GOLDEN % 1.0)
            milliseconds = tail.delay() * 1000
            if number >= WARM_UPS:
                delays[kind].append(milliseconds)
    for tail in tails.values():
        tail.close()
    say("delays are measured")
    return delays


class _Tail:
    """A file that is tailed, and a consumer at the end of its topic."""

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
        """Append a line and return the seconds until it has come."""
        self._number += 1
        line = f"line {self._number}".encode()
        while self._reader.next(0.0):  # nothing is due; polls, so that the consumer asks the broker now
            pass
        begun = time.monotonic()
        os.write(self._file, line + b"\n")
        if (found := self._expect(20.0)) != line:
            raise ScriptFailed(f"{self._worker.name} sent {found!r} where {line!r} was due.")
        return time.monotonic() - begun

    def _expect(self, timeout_s: float) -> bytes:
        value = self._reader.next(timeout_s)
        if value is None:
            raise ScriptFailed(f"{self._worker.name} did not send a line within {timeout_s:.0f} s.")
        return value


def _idle(lab: Lab, workers: dict[str, Worker]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return cores and MiB of each worker with `IDLE_CONNECTORS` idle tasks."""
    count = 20 if lab.options.quick else IDLE_CONNECTORS
    topic = lab.topic("idle")
    for worker in workers.values():
        create_idle(lab, worker, topic, count)
    time.sleep(lab.options.times(15, 5))
    seconds = lab.options.times(30, 10)
    before = {kind: worker.process.usage() for kind, worker in workers.items()}
    begun = time.monotonic()
    time.sleep(seconds)
    after = {kind: worker.process.usage() for kind, worker in workers.items()}
    passed = time.monotonic() - begun
    cores = {kind: [(after[kind].cpu_s - before[kind].cpu_s) / passed] for kind in workers}
    memory = {kind: [after[kind].resident_bytes / 2**20] for kind in workers}
    say(f"{count} idle tasks on each for {passed:.0f} s")
    return cores, memory


def create_idle(lab: Lab, worker: Worker, topic: str, count: int) -> None:
    """Create idle FileStreamSource connectors, and wait until they run."""
    names = [f"idle-{number}" for number in range(count)]
    for name in names:
        worker.rest.create(name, source_config(lab.file(1), topic))

    def all_run() -> bool:
        statuses = worker.rest.statuses()
        return all(name in statuses and all_running(statuses[name]) for name in names)

    wait_until(
        "all idle connectors were RUNNING", all_run, timeout_s=UP_S, every_s=0.2, program=worker.process
    )
