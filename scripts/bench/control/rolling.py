"""`rolling`: three workers are restarted, one after another, while lines flow through each connector.

Java and Kraal workers have scheduled.rebalance.max.delay.ms=0, so that work moves immediately. Every 100 ms, a line is
appended to the file of each connector. Each worker is stopped with SIGTERM and restarted on its port. Before the next
worker stops, the restarted worker has rejoined the group, and all connectors and tasks are RUNNING. The standstill of a
connector is the sum, over all moves of its task, of the times from the last line in Kafka before the move to the first
line after it. By statuses, it is the sum of the times from UNASSIGNED to RUNNING. Gaps with other causes, such as a JVM
that starts on the same machine, are reported separately: these are gaps that are longer than a second, and longer than
any gap in the ten seconds before the first restart.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.clusters import Cluster
from scripts.harness.group import RUNNING, TopicFollower
from scripts.harness.processes import ScriptFailed, wait_until

if TYPE_CHECKING:
    from confluent_kafka import Message

WORKER_PROPERTIES = {"scheduled.rebalance.max.delay.ms": "0"}
CONNECTORS = 6
INTERVAL_S = 0.100
BASELINE_S = 10.0
Move = tuple[float, float]
"""The wall-clock times at which a task stopped and ran again, according to its statuses."""
MIN_GAP_S = 1.0
"""Minimum length of a counted gap: the poll interval of an idle Java task."""
PARTS = (
    ("total standstill, worst connector", "s", Target(limit=3.0)),
    ("  total standstill by statuses", "s", Target(limit=3.0)),
    ("  total of gaps over a second", "s", Target()),
    ("  maximum latency of a line", "s", Target()),
    ("lost lines", "lines", Target(limit=0)),
    ("duplicate lines", "lines", Target(limit=0)),
)


def run(lab: Lab) -> list[Case]:
    """Restart each worker of a cluster of each kind."""
    rows: dict[str, list[tuple[float, ...]]] = {"java": [], "kraal": []}
    for kind in lab.options.sides:
        cluster = lab.cluster(kind, WORKER_PROPERTIES)
        cluster.start(3)
        rows[kind].append(_restart_all(lab, cluster))
        say(f"{kind}: " + ", ".join(f"{figure:.3g}" for figure in rows[kind][-1]))
        cluster.stop()
    return [
        Case(
            part,
            unit,
            java=[row[index] for row in rows["java"]],
            kraal=[row[index] for row in rows["kraal"]],
            wanted=wanted,
        )
        for index, (part, unit, wanted) in enumerate(PARTS)
    ]


@dataclass(slots=True)
class Stream:
    """The file of a source connector, and the lines that arrived in its topic. Times are wall-clock seconds."""

    name: str
    path: Path
    topic: str
    append_times: list[float] = field(default_factory=list)
    """The time at which each line was appended, by line number."""
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """The arrival time and the number of each line that arrived."""

    def append(self) -> None:
        """Append one line with a single write."""
        with self.path.open("ab", buffering=0) as file:
            self.append_times.append(time.time())
            file.write(f"{len(self.append_times) - 1:010d}\n".encode())

    def gaps(self, begin: float, end: float) -> list[float]:
        """Return the seconds between consecutive arrivals in a time range."""
        times = [at for at, _ in self.arrivals if begin <= at <= end]
        return [later - earlier for earlier, later in pairwise(times)]

    def standstill(self, moves: Sequence[Move]) -> float:
        """Return the sum of the gaps between arrivals during which the connector moved."""
        times = sorted(at for at, _ in self.arrivals)
        middles = [(stopped_at + running_at) / 2 for stopped_at, running_at in moves]
        return sum(times[after] - times[after - 1] for after in (bisect(times, middle) for middle in middles))

    def gaps_over_a_second(self, restart_s: float) -> float:
        """Return the sum of the gaps since `restart_s` that exceed a second and every earlier gap."""
        max_gap_before_s = max(self.gaps(restart_s - BASELINE_S, restart_s), default=INTERVAL_S)
        min_gap_s = max(max_gap_before_s, MIN_GAP_S)
        return sum(gap for gap in self.gaps(restart_s - max_gap_before_s, time.time()) if gap > min_gap_s)

    def max_latency(self, since: float) -> float:
        """Return the maximum time from appending a line to its first arrival."""
        first_arrivals: dict[int, float] = {}
        for at, number in self.arrivals:
            first_arrivals.setdefault(number, at)
        latencies = (at - self.append_times[number] for number, at in first_arrivals.items())
        arrivals = zip(latencies, first_arrivals.values(), strict=True)
        return max(latency for latency, at in arrivals if at >= since)

    def count_faults(self) -> tuple[int, int]:
        """Return the number of lost lines and the number of duplicate lines."""
        counts = Counter(number for _, number in self.arrivals)
        return len(self.append_times) - len(counts), counts.total() - len(counts)


def _restart_all(lab: Lab, cluster: Cluster) -> tuple[float, ...]:
    streams = _create_streams(lab, cluster)
    names = [stream.name for stream in streams]
    cluster.settle(names)
    stopped_event = threading.Event()
    appender = threading.Thread(target=_append, args=(streams, stopped_event), daemon=True)
    follower = TopicFollower(lab.bootstrap, [stream.topic for stream in streams], _make_handler(streams))
    appender.start()
    try:
        time.sleep(BASELINE_S + 2.0)
        start_s = time.time()
        for worker in list(cluster.workers):
            cluster.end(worker)
            cluster.wait_until_in(cluster.launch(worker.rest.port))
            cluster.settle(names, spread=len(names))
            say(f"{cluster.kind}: {worker.rest.worker_id} was restarted")
        time.sleep(2.0)
        stopped_event.set()
        appender.join()
        _wait_for_last(streams)
    finally:
        stopped_event.set()
        follower.close()
    lost, duplicates = (
        sum(column) for column in zip(*(stream.count_faults() for stream in streams), strict=True)
    )
    moves = {name: _find_moves(cluster, name, start_s) for name in names}
    return (
        max(stream.standstill(moves[stream.name]) for stream in streams),
        max(sum(end - begin for begin, end in task_moves) for task_moves in moves.values()),
        max(stream.gaps_over_a_second(start_s) for stream in streams),
        max(stream.max_latency(start_s) for stream in streams),
        float(lost),
        float(duplicates),
    )


def _create_streams(lab: Lab, cluster: Cluster) -> list[Stream]:
    streams = []
    for number in range(CONNECTORS):
        stream = Stream(f"rolled-{number}", lab.directory / lab.new_name("flow"), lab.topic("rolled"))
        stream.path.touch()
        cluster.workers[0].rest.create(stream.name, source_config(stream.path, stream.topic))
        streams.append(stream)
    return streams


def _append(streams: Sequence[Stream], stopped_event: threading.Event) -> None:
    due = time.monotonic()
    while not stopped_event.wait(max(0.0, due - time.monotonic())):
        for stream in streams:
            stream.append()
        due += INTERVAL_S


def _make_handler(streams: Sequence[Stream]) -> Callable[[float, Message], None]:
    by_topic = {stream.topic: stream for stream in streams}

    def handle(at: float, message: Message) -> None:
        by_topic[str(message.topic())].arrivals.append((at, int(message.value() or b"-1")))

    return handle


def _wait_for_last(streams: Sequence[Stream]) -> None:
    def have_all_arrived() -> bool:
        return all(any(n == len(s.append_times) - 1 for _, n in s.arrivals[-50:]) for s in streams)

    wait_until("the last lines were in Kafka", have_all_arrived, timeout_s=60)
    time.sleep(1.0)


def _find_moves(cluster: Cluster, name: str, since: float) -> list[Move]:
    """Return the times at which the task stopped and ran again on any worker, according to the status topic."""
    moves: list[Move] = []
    stopped_at = None
    for key, status in cluster.statuses.since(since):
        if key != f"task-{name}-0":
            continue
        if status.state != RUNNING:
            stopped_at = status.at if stopped_at is None else stopped_at
        elif stopped_at is not None:
            moves.append((stopped_at, status.at))
            stopped_at = None
    if stopped_at is not None:
        raise ScriptFailed(f"The task of {name} did not run again.")
    return moves
