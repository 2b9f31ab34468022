"""`busy100-distributed`: as `busy100`, on a cluster of one worker that also runs a sink.

A FileStreamSink receives ten records a second, one at a time. The time of a record is measured from the call of the
producer until the file contains the record, which is checked every millisecond. Kraal is measured a second time with
`batch.linger.ms=500`. The targets are ratios to Java in the same run, because machines differ.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Producer

from scripts.bench.data import busy100
from scripts.bench.data.busy100 import INTERVAL_S, LINGER_MS, Flow, Window, make_stamped_line, measure_window
from scripts.bench.lab import Lab, say, sink_config
from scripts.bench.report import Case, Target, percentile
from scripts.harness.lines import LINE_BYTES_ON_DISK, size
from scripts.harness.processes import ScriptFailed
from scripts.harness.workers import Worker

_CHECK_INTERVAL_S: Final = 0.001
_JOIN_TIMEOUT_S: Final = 30.0
_CORES: Final = "  CPU, worker and child processes"
_CORES_RATIO: Final = 0.5
"""At most twice Java's cores."""
_LINGER_CORES_RATIO: Final = 1 / 1.2

ROWS: Final[tuple[busy100.Row, ...]] = (
    ("95 % of lines in Kafka within", "s", Target(limit=0.06)),
    ("  50 % within", "s", Target()),
    ("  99 % within", "s", Target()),
    (_CORES, "cores", Target(ratio=_CORES_RATIO)),
    ("a record of the sink in its file, median", "s", Target(limit=0.01)),
    ("  95 % within", "s", Target()),
    ("  99 % within", "s", Target(limit=0.05)),
)


def run(lab: Lab) -> list[Case]:
    """Measure one worker after another."""
    rows = {kind: _measure(lab, kind, {}) for kind in lab.options.sides}
    cases = busy100.cases(ROWS, rows)
    if "kraal" not in rows:
        return cases
    lingering = _measure(lab, "kraal", {"batch.linger.ms": str(LINGER_MS)})
    index = next(number for number, row in enumerate(ROWS) if row[0] == _CORES)
    java = rows.get("java", [])[index:][:1]
    wanted = Target(ratio=_LINGER_CORES_RATIO)
    name = f"batch.linger.ms={LINGER_MS}: {_CORES.strip()}"
    return [*cases, Case(name, "cores", java, [lingering[index]], wanted=wanted)]


def _measure(lab: Lab, kind: str, settings: Mapping[str, str]) -> list[float]:
    """Return a value for each of `ROWS`."""
    cluster = lab.cluster(kind, settings)
    cluster.start(1)
    worker = cluster.workers[0]
    lab.warm_up(worker)
    sink = _SinkBeside(lab, worker)
    flow = Flow(lab, worker)
    window = measure_window(lab, worker)
    lines = window.select(flow.close().lines)
    delays = sink.close(window)
    cluster.stop()
    line_delays = [(line.arrived_ns - line.written_ns) / 1e9 for line in lines]
    values = [
        percentile(line_delays, 95),
        statistics.median(line_delays),
        percentile(line_delays, 99),
        window.cores,
        statistics.median(delays),
        percentile(delays, 95),
        percentile(delays, 99),
    ]
    say(f"{kind}: " + ", ".join(f"{figure:,.4g}" for figure in values))
    return values


class _SinkBeside:
    """A sink of a topic to which a thread sends records; another thread observes the file."""

    def __init__(self, lab: Lab, worker: Worker) -> None:
        self._topic, self._file = lab.topic("beside"), lab.directory / lab.new_name("beside")
        self._worker, self._name = worker, lab.new_name("sink-beside")
        self._producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 0, "log_level": 2})
        worker.rest.create(self._name, sink_config(self._file, self._topic))
        worker.wait_until_running(self._name)
        self._sent_ns: list[int] = []
        self._written_ns: list[int] = []
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=target.__name__, daemon=True)
            for target in (self._send, self._observe)
        ]
        for thread in self._threads:
            thread.start()

    def close(self, window: Window) -> Sequence[float]:
        """Stop; return the seconds of the records that were sent in a window."""
        self._ended.set()
        for thread in self._threads:
            thread.join(_JOIN_TIMEOUT_S)
        self._worker.rest.delete(self._name)
        values = [int(line.split(b" ", 1)[0]) for line in self._file.read_bytes().splitlines()]
        if values != list(range(len(self._sent_ns))) or len(self._written_ns) != len(values):
            raise ScriptFailed(
                f"The sink of {self._worker.name} wrote {len(values)} of {len(self._sent_ns)} records."
            )
        return [
            (written_ns - sent_ns) / 1e9
            for sent_ns, written_ns in zip(self._sent_ns, self._written_ns, strict=True)
            if window.start_ns <= sent_ns < window.end_ns
        ]

    def _send(self) -> None:
        start_s = time.monotonic()
        while not self._ended.wait(max(0.0, start_s + len(self._sent_ns) * INTERVAL_S - time.monotonic())):
            now_ns = time.time_ns()
            self._producer.produce(self._topic, make_stamped_line(len(self._sent_ns), now_ns)[:-1])
            self._producer.poll(0)
            self._sent_ns.append(now_ns)

    def _observe(self) -> None:
        """Record when each record is in the file, until all records are."""
        deadline_s = float("inf")
        while len(self._written_ns) < len(self._sent_ns) or not self._ended.is_set():
            if time.monotonic() > deadline_s:
                return  # `close` fails
            if self._ended.is_set() and deadline_s == float("inf"):
                deadline_s = time.monotonic() + _JOIN_TIMEOUT_S / 2
            count = size(self._file) // LINE_BYTES_ON_DISK - len(self._written_ns)
            self._written_ns += [time.time_ns()] * count
            time.sleep(_CHECK_INTERVAL_S)
