"""`rolling`: three workers are ended and started again, one after another, while lines flow through each connector.

scheduled.rebalance.max.delay.ms=0 for both, so that work moves at once. Every 100 ms a line is appended to the file of
each connector. Each worker is ended by SIGTERM, started again on its port, and is in the group and all is RUNNING
before the next one ends. A connector stands still from the last line in Kafka before its task moves to the first one
after it, added up for all moves; by its statuses, from UNASSIGNED to RUNNING. What else is slow, since a JVM starts
next to it, is told apart: gaps that are longer than a second, and than any in the ten seconds before the first restart.
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
from scripts.bench.report import Case, Wanted
from scripts.harness.clusters import Cluster
from scripts.harness.group import RUNNING, Following
from scripts.harness.processes import ScriptFailed, wait_until

if TYPE_CHECKING:
    from confluent_kafka import Message

EXTRA = {"scheduled.rebalance.max.delay.ms": "0"}
CONNECTORS = 6
EVERY_S = 0.100
BEFORE_S = 10.0
Move = tuple[float, float]
"""When a task stopped and when it ran again, by its statuses; wall-clock seconds."""
SLOW_S = 1.0
"""Gaps up to here are slowness of a machine on which a JVM starts; Java's idle task sleeps as long, too."""
PARTS = (
    ("standstill in total, worst connector", "s", Wanted(limit=3.0)),
    ("  the same by its statuses", "s", Wanted(limit=3.0)),
    ("  all gaps over a second in total", "s", Wanted()),
    ("  a line's longest way into Kafka", "s", Wanted()),
    ("lines lost", "lines", Wanted(limit=0)),
    ("lines twice", "lines", Wanted(limit=0)),
)


def run(lab: Lab) -> list[Case]:
    """Restart each worker of a cluster of each kind."""
    rows: dict[str, list[tuple[float, ...]]] = {"java": [], "kraal": []}
    for kind in lab.options.sides:
        cluster = lab.cluster(kind, EXTRA)
        cluster.start(3)
        rows[kind].append(_rolled(lab, cluster))
        say(f"{kind}: " + ", ".join(f"{figure:.3g}" for figure in rows[kind][-1]))
        cluster.stop()
    return [
        Case(
            part,
            unit,
            java=[row[place] for row in rows["java"]],
            kraal=[row[place] for row in rows["kraal"]],
            wanted=wanted,
        )
        for place, (part, unit, wanted) in enumerate(PARTS)
    ]


@dataclass(slots=True)
class Stream:
    """A connector's file, and what of it came into its topic; times are wall-clock seconds."""

    name: str
    path: Path
    topic: str
    appended: list[float] = field(default_factory=list)
    """When each line was."""
    arrived: list[tuple[float, int]] = field(default_factory=list)
    """When, and the number of the line."""

    def append(self) -> None:
        """Append one line in one write."""
        with self.path.open("ab", buffering=0) as file:
            self.appended.append(time.time())
            file.write(f"{len(self.appended) - 1:010d}\n".encode())

    def gaps(self, begin: float, end: float) -> list[float]:
        """Return how long it was from each arrival to the next between two times."""
        times = [at for at, _ in self.arrived if begin <= at <= end]
        return [later - earlier for earlier, later in pairwise(times)]

    def standstill(self, moves: Sequence[Move]) -> float:
        """Add up the gaps in which the connector moved."""
        times = sorted(at for at, _ in self.arrived)
        middles = [(stopped + ran) / 2 for stopped, ran in moves]
        return sum(times[after] - times[after - 1] for after in (bisect(times, each) for each in middles))

    def gaps_over_a_second(self, restarts: float) -> float:
        """Add up the gaps after `restarts` that are longer than a second and than any before."""
        usual = max(self.gaps(restarts - BEFORE_S, restarts), default=EVERY_S)
        return sum(gap for gap in self.gaps(restarts - usual, time.time()) if gap > max(usual, SLOW_S))

    def longest_way(self, since: float) -> float:
        """Return the longest time from a line's end in the file to its first arrival."""
        first: dict[int, float] = {}
        for at, number in self.arrived:
            first.setdefault(number, at)
        ways = (at - self.appended[number] for number, at in first.items())
        return max(way for way, at in zip(ways, first.values(), strict=True) if at >= since)

    def faults(self) -> tuple[int, int]:
        """Return how many lines are lost, and how many came again."""
        counts = Counter(number for _, number in self.arrived)
        return len(self.appended) - len(counts), counts.total() - len(counts)


def _rolled(lab: Lab, cluster: Cluster) -> tuple[float, ...]:
    streams = _streams(lab, cluster)
    names = [stream.name for stream in streams]
    cluster.settle(names)
    ended = threading.Event()
    appender = threading.Thread(target=_append, args=(streams, ended), daemon=True)
    following = Following(lab.bootstrap, [stream.topic for stream in streams], _taker(streams))
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
    lost, twice = (sum(column) for column in zip(*(stream.faults() for stream in streams), strict=True))
    moves = {name: _moves(cluster, name, begun) for name in names}
    return (
        max(stream.standstill(moves[stream.name]) for stream in streams),
        max(sum(ran - stopped for stopped, ran in each) for each in moves.values()),
        max(stream.gaps_over_a_second(begun) for stream in streams),
        max(stream.longest_way(begun) for stream in streams),
        float(lost),
        float(twice),
    )


def _streams(lab: Lab, cluster: Cluster) -> list[Stream]:
    streams = []
    for number in range(CONNECTORS):
        stream = Stream(f"rolled-{number}", lab.directory / lab.fresh("flow"), lab.topic("rolled"))
        stream.path.touch()
        cluster.workers[0].rest.create(stream.name, source_config(stream.path, stream.topic))
        streams.append(stream)
    return streams


def _append(streams: Sequence[Stream], ended: threading.Event) -> None:
    due = time.monotonic()
    while not ended.wait(max(0.0, due - time.monotonic())):
        for stream in streams:
            stream.append()
        due += EVERY_S


def _taker(streams: Sequence[Stream]) -> Callable[[float, Message], None]:
    by_topic = {stream.topic: stream for stream in streams}

    def take(at: float, message: Message) -> None:
        by_topic[str(message.topic())].arrived.append((at, int(message.value() or b"-1")))

    return take


def _wait_for_last(streams: Sequence[Stream]) -> None:
    def all_came() -> bool:
        return all(any(n == len(s.appended) - 1 for _, n in s.arrived[-50:]) for s in streams)

    wait_until("the last lines were in Kafka", all_came, timeout_s=60)
    time.sleep(1.0)


def _moves(cluster: Cluster, name: str, since: float) -> list[Move]:
    """Return when the task stopped, and ran again elsewhere or here, by the status topic."""
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
