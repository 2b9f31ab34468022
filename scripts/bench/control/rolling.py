"""`rolling`: three workers are restarted, one after another, while lines flow through each connector.

scheduled.rebalance.max.delay.ms=0 for both, so that work moves immediately. Every 100 ms a line is appended to the file
of each connector. Each worker is stopped with SIGTERM and restarted on its port; it has rejoined the group and all is
RUNNING before the next one stops. The standstill of a connector is the sum, over all moves of its task, of the times
from the last line in Kafka before the move to the first one after it; by its statuses, from UNASSIGNED to RUNNING.
Other delays, as JVMs start on the machine, are reported separately: gaps longer than a second and than any in the ten
seconds before the first restart.
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

EXTRA = {"scheduled.rebalance.max.delay.ms": "0"}
CONNECTORS = 6
INTERVAL_S = 0.100
BEFORE_S = 10.0
Move = tuple[float, float]
"""The times when a task stopped and ran again, by its statuses, in wall-clock seconds."""
SLOW_S = 1.0
"""Shorter gaps may be due to a JVM that starts on the machine; Java's idle task also sleeps this long."""
PARTS = (
    ("standstill in total, worst connector", "s", Target(limit=3.0)),
    ("  the same by its statuses", "s", Target(limit=3.0)),
    ("  all gaps over a second in total", "s", Target()),
    ("  a line's longest way into Kafka", "s", Target()),
    ("lines lost", "lines", Target(limit=0)),
    ("lines twice", "lines", Target(limit=0)),
)


def run(lab: Lab) -> list[Case]:
    """Restart each worker of a cluster of each kind."""
    rows: dict[str, list[tuple[float, ...]]] = {"java": [], "kraal": []}
    for kind in lab.options.sides:
        cluster = lab.cluster(kind, EXTRA)
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
    """A connector's file, and the lines that arrived in its topic; times are wall-clock seconds."""

    name: str
    path: Path
    topic: str
    appended: list[float] = field(default_factory=list)
    """The time of each line."""
    arrived: list[tuple[float, int]] = field(default_factory=list)
    """The time and number of each line that arrived."""

    def append(self) -> None:
        """Append one line in one write."""
        with self.path.open("ab", buffering=0) as file:
            self.appended.append(time.time())
            file.write(f"{len(self.appended) - 1:010d}\n".encode())

    def gaps(self, begin: float, end: float) -> list[float]:
        """Return the seconds between consecutive arrivals in a time range."""
        times = [at for at, _ in self.arrived if begin <= at <= end]
        return [later - earlier for earlier, later in pairwise(times)]

    def standstill(self, moves: Sequence[Move]) -> float:
        """Return the sum of the gaps in which the connector moved."""
        times = sorted(at for at, _ in self.arrived)
        middles = [(stopped + ran) / 2 for stopped, ran in moves]
        return sum(times[after] - times[after - 1] for after in (bisect(times, each) for each in middles))

    def gaps_over_a_second(self, restarts: float) -> float:
        """Return the sum of the gaps after `restarts` that are longer than a second and than any before."""
        usual = max(self.gaps(restarts - BEFORE_S, restarts), default=INTERVAL_S)
        return sum(gap for gap in self.gaps(restarts - usual, time.time()) if gap > max(usual, SLOW_S))

    def max_latency(self, since: float) -> float:
        """Return the maximum time from appending a line to its first arrival."""
        first: dict[int, float] = {}
        for at, number in self.arrived:
            first.setdefault(number, at)
        ways = (at - self.appended[number] for number, at in first.items())
        return max(way for way, at in zip(ways, first.values(), strict=True) if at >= since)

    def count_faults(self) -> tuple[int, int]:
        """Return the number of lost lines and of repeated lines."""
        counts = Counter(number for _, number in self.arrived)
        return len(self.appended) - len(counts), counts.total() - len(counts)


def _restart_all(lab: Lab, cluster: Cluster) -> tuple[float, ...]:
    streams = _create_streams(lab, cluster)
    names = [stream.name for stream in streams]
    cluster.settle(names)
    ended = threading.Event()
    appender = threading.Thread(target=_append, args=(streams, ended), daemon=True)
    following = TopicFollower(lab.bootstrap, [stream.topic for stream in streams], _make_handler(streams))
    appender.start()
    try:
        time.sleep(BEFORE_S + 2.0)
        begun = time.time()
        for worker in list(cluster.workers):
            cluster.end(worker)
            cluster.wait_until_in(cluster.launch(worker.rest.port))
            cluster.settle(names, spread=len(names))
            say(f"{cluster.kind}: {worker.rest.worker_id} was restarted")
        time.sleep(2.0)
        ended.set()
        appender.join()
        _wait_for_last(streams)
    finally:
        ended.set()
        following.close()
    lost, twice = (sum(column) for column in zip(*(stream.count_faults() for stream in streams), strict=True))
    moves = {name: _find_moves(cluster, name, begun) for name in names}
    return (
        max(stream.standstill(moves[stream.name]) for stream in streams),
        max(sum(ran - stopped for stopped, ran in each) for each in moves.values()),
        max(stream.gaps_over_a_second(begun) for stream in streams),
        max(stream.max_latency(begun) for stream in streams),
        float(lost),
        float(twice),
    )


def _create_streams(lab: Lab, cluster: Cluster) -> list[Stream]:
    streams = []
    for number in range(CONNECTORS):
        stream = Stream(f"rolled-{number}", lab.directory / lab.new_name("flow"), lab.topic("rolled"))
        stream.path.touch()
        cluster.workers[0].rest.create(stream.name, source_config(stream.path, stream.topic))
        streams.append(stream)
    return streams


def _append(streams: Sequence[Stream], ended: threading.Event) -> None:
    due = time.monotonic()
    while not ended.wait(max(0.0, due - time.monotonic())):
        for stream in streams:
            stream.append()
        due += INTERVAL_S


def _make_handler(streams: Sequence[Stream]) -> Callable[[float, Message], None]:
    by_topic = {stream.topic: stream for stream in streams}

    def handle(at: float, message: Message) -> None:
        by_topic[str(message.topic())].arrived.append((at, int(message.value() or b"-1")))

    return handle


def _wait_for_last(streams: Sequence[Stream]) -> None:
    def have_all_arrived() -> bool:
        return all(any(n == len(s.appended) - 1 for _, n in s.arrived[-50:]) for s in streams)

    wait_until("the last lines were in Kafka", have_all_arrived, timeout_s=60)
    time.sleep(1.0)


def _find_moves(cluster: Cluster, name: str, since: float) -> list[Move]:
    """Return the times at which the task stopped and ran again, on any worker, by the status topic."""
    moves: list[Move] = []
    stopped = None
    for key, status in cluster.statuses.since(since):
        if key != f"task-{name}-0":
            continue
        if status.state != RUNNING:
            stopped = status.at if stopped is None else stopped
        elif stopped is not None:
            moves.append((stopped, status.at))
            stopped = None
    if stopped is not None:
        raise ScriptFailed(f"The task of {name} did not run again.")
    return moves
