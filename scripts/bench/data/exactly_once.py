"""`exactly-once`: a file into one partition, through sources with exactly-once delivery.

The Java and the Kraal worker are separate, warm clusters of one worker with `exactly.once.source.support=enabled`. The
connectors have `exactly.once.support=required`. Producer settings and transaction boundaries have their default values,
so each poll is one transaction. The transfer is complete when a consumer with `isolation.level=read_committed` can read
the last line; the consumer's end offset is fetched every 20 ms. Records/s is lines divided by the time since the task's
first RUNNING in the status topic, because the first transaction may contain much of the file. "From creation" starts
with the POST. After each round, the topic must have each line of the file once, in order. Kraal's rate is also compared
with that of Kafka's own `kafka-producer-perf-test` with transactions of 100 ms.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from scripts.bench.data.limits import PRODUCER_TOOL, compare_with_tool, measure_producer
from scripts.bench.data.source import check, transfer
from scripts.bench.lab import Lab, measure_alternately, say
from scripts.bench.report import Case, Target
from scripts.harness.clusters import Cluster
from scripts.harness.group import RUNNING, Status
from scripts.harness.lines import parse_number, sha256
from scripts.harness.processes import ScriptFailed
from scripts.harness.topics import Reader
from scripts.harness.workers import Worker

WORKER_PROPERTIES = {"exactly.once.source.support": "enabled"}
CONNECTOR_CONFIG = {"exactly.once.support": "required"}
FETCH_TIMEOUT_S = 1.0


def run(lab: Lab) -> list[Case]:
    """Measure both sides with their default settings."""
    lines = lab.options.lines()
    file = lab.file(lines)
    expected = sha256(file)
    clusters = {kind: start_cluster(lab, kind) for kind in lab.options.sides}

    def measure(kind: str, worker: Worker) -> list[float]:
        topic = lab.topic("exactly-once")
        committed, start_s = CommittedLines(lab.reader(topic), lines), time.time()
        _, from_create = transfer(lab, worker, file, topic, lines, CONNECTOR_CONFIG, committed.count)
        seconds = committed.complete_at - get_first_running_time(clusters[kind].statuses.since(start_s))
        check(lab, kind, topic, lines, expected)
        return [lines / seconds, from_create, lines / committed.markers]

    workers = {kind: cluster.workers[0] for kind, cluster in clusters.items()}
    rows = measure_alternately(workers, lab.options.times(2, 1), measure)

    def column(kind: str, index: int) -> list[float]:
        return [row[index] for row in rows.get(kind, [])]

    transactions = ("--transactional-id", "limit", "--transaction-duration-ms", "100")
    limits = [measure_producer(lab, {}, *transactions) for _ in range(lab.options.times(2, 1))]
    rates, creates, sizes = ((column("java", index), column("kraal", index)) for index in range(3))
    return [
        Case("exactly once", "records/s", *rates, more_is_better=True, wanted=Target(ratio=3.0)),
        Case("  from creation until all records are committed", "s", *creates),
        Case("  lines per transaction, mean", "lines", *sizes, more_is_better=True),
        compare_with_tool(PRODUCER_TOOL, limits, rates[1]),
    ]


def start_cluster(lab: Lab, kind: str) -> Cluster:
    """Start a cluster of one worker with exactly-once sources, and warm it up."""
    cluster = lab.cluster(kind, WORKER_PROPERTIES)
    cluster.start(1)
    say(f"warming up: {kind}")
    lab.warm_up(cluster.workers[0])
    cluster.statuses.now()  # starts reading the status topic
    return cluster


class CommittedLines:
    """Counts the committed lines of a file in a topic without reading the lines before the last one."""

    def __init__(self, reader: Reader, lines: int) -> None:
        """Create the counter. `reader` must read only committed records; nothing is read before `count` is called."""
        self._reader = reader
        self._lines = lines
        self.complete_at = 0.0
        """Wall-clock start time of the check that returned all lines."""
        self.markers = 0
        """Number of offsets without a line at that time, each of which is a transaction marker."""

    def count(self) -> int:
        """Return the number of lines if all are committed, or else a lower number, which is only an estimate."""
        now, end = time.time(), self._reader.end()
        if end <= self._lines:
            return min(end, self._lines - 1)  # at least one offset is a transaction marker
        self._reader.seek(end - 2)
        last = self._reader.next(FETCH_TIMEOUT_S)
        if last is None or parse_number(last) + 1 < self._lines:
            return self._lines - 1
        self.complete_at, self.markers = now, end - self._lines
        return self._lines


def get_first_running_time(statuses: Iterable[tuple[str, Status]]) -> float:
    """Return the time of the first RUNNING of a task. Raises ScriptFailed if there is none."""
    for key, status in statuses:
        if key.startswith("task-") and status.state == RUNNING:
            return status.at
    raise ScriptFailed("The status topic has no RUNNING task.")
