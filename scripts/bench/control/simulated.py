"""A simulated cluster for benchmarks: all workers in this process, by `kraal.testing`, and what they compute.

Actors, group protocol, assignment and internal topics are real; Kafka and the engine are in memory, time is virtual.
Times of the machine are processor times of this process.
"""

from __future__ import annotations

import gc
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psutil

from kraal.core.errors import RetryableConflict
from kraal.core.ids import ConnectorName
from kraal.core.records import Entry
from kraal.protocol.records import ConnectorConfigRecord, encode
from kraal.testing import FAKE_SOURCE, Cluster
from scripts.harness.processes import ScriptFailed

if TYPE_CHECKING:
    from actors.runtime.mailbox import Address, Ask
    from kraal.testing._simulation.cluster import EmbeddedCluster

READ_S: Final = 2.0
"""After this virtual time all workers have read what was written."""
POLL_S: Final = 0.5
"""Longest virtual time between two looks of a worker into the internal topics."""
LIMIT_S: Final = 120.0
STEP_S: Final = 0.1
_KEPT: Final = 10_000
"""Messages that the scheduler remembers at most; only the latest is looked at."""
_OF_THE_SIMULATION: Final = frozenset({"FollowOn", "_HeartbeatDue"})
"""Messages by which a worker in memory looks for records and times its heartbeats; they count for no worker."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Turn off the garbage collector, because all workers share one heap here, and the log of followers that wait."""
    gc.collect()
    gc.disable()
    actors = logging.getLogger("actors")
    actors.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        actors.setLevel(logging.NOTSET)
        gc.enable()


class SimulatedCluster:
    """A cluster that runs connectors of one task each. One thread."""

    def __init__(self) -> None:
        """Start one worker."""
        self.connectors = 0
        """How many connectors run when all run."""
        self.longest = (0.0, "")
        """Seconds of the message that took longest since `watch`, and its description."""
        self.spent: defaultdict[str, float] = defaultdict(float)
        """Seconds of each worker since `watch`, by name."""
        self._resident = psutil.Process().memory_info().rss
        self._cluster = Cluster(workers=1)
        self.embedded.read_s = POLL_S
        self._scheduler = self.embedded.scheduler
        self._owners: dict[Address, str] | None = None
        """Workers by the addresses of their actors; None: times are not divided by workers."""

    def write_configs(self, connectors: int) -> None:
        """Write configs into the config topic, all at once."""
        self.connectors += connectors
        self.embedded.config_log.append([_entry(make_name(number)) for number in range(connectors)])

    def add_workers(self, count: int, *, over_s: float = 0.0) -> None:
        """Start workers one after another within a virtual time; their heartbeats keep the distance."""
        for _ in range(count):
            self.advance(over_s / count)
            self._cluster.add_worker()

    @property
    def embedded(self) -> EmbeddedCluster:
        """The workers and what they share."""
        return self._cluster.embedded

    @property
    def now_s(self) -> float:
        """Virtual seconds since the cluster was created."""
        return self._cluster.now_s

    def watch(self, *, by_worker: bool = False) -> None:
        """Start a new measurement; with `by_worker`, also the time of each worker, which makes it slower."""
        self.longest = (0.0, "")
        self.spent.clear()
        self._owners = {} if by_worker else None

    def until_all_run(self, step_s: float = STEP_S) -> float:
        """Advance until all connectors and tasks run and all workers are members; return the virtual time.

        Raises ScriptFailed after `LIMIT_S` virtual seconds.
        """
        until_s = self.now_s + LIMIT_S
        while not self._all_run():
            if self.now_s > until_s:
                running = sum(len(worker.running) for worker in self.embedded.awake)
                raise ScriptFailed(f"{running} of {2 * self.connectors} connectors and tasks run.")
            self.advance(step_s)
        return self.now_s

    def until_rebalance(self) -> None:
        """Advance until the coordinator begins a rebalance. Raises ScriptFailed after `LIMIT_S` virtual seconds."""
        broker = self.embedded.broker
        self.advance(LIMIT_S, until=lambda: not broker.stable)
        if broker.stable:
            raise ScriptFailed("No rebalance began.")

    def ask(self, message: Ask[Any]) -> None:
        """Have the leader's herder answer, again while the group rebalances."""
        until_s = self.now_s + LIMIT_S
        while True:
            answer = self.embedded.leader.assembly.herder.question(message)
            while not answer.done():
                self.advance(0.02)
            try:
                answer.result()
            except RetryableConflict:
                if self.now_s > until_s:
                    raise
            else:
                return

    def advance(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """Advance the virtual time, without the checks of `EmbeddedCluster.advance`.

        `until` is asked after each message; once it holds, this returns and later messages wait.
        """
        clock, end = self._scheduler.clock, self.now_s + seconds
        while not self._handle_all(until):
            due = clock.next_due()
            if due is None or due > end:
                clock.advance_to(end)
                return
            clock.advance_to(due)

    def resident_mb(self) -> float:
        """Return how much resident memory this process has got since the cluster was created."""
        return (psutil.Process().memory_info().rss - self._resident) / 1e6

    def _all_run(self) -> bool:
        workers, broker, total = self.embedded.awake, self.embedded.broker, 2 * self.connectors
        if not broker.stable or len(broker.members) != len(workers):
            return False
        plans = [w.snapshot.plan for w in workers if w.snapshot.generation == broker.generation]
        moved = any(plan is not None and len(plan.owners) == total and not plan.waiting for plan in plans)
        return moved and sum(len(worker.running) for worker in workers) == total

    def _handle_all(self, until: Callable[[], bool] | None) -> bool:
        """Handle what is due now; return whether `until` ended it."""
        trace = self._scheduler.trace
        while True:
            begun = time.process_time()
            if not self._scheduler.step():
                return False
            took = time.process_time() - begun
            actor, message = trace[-1]
            if took > self.longest[0]:
                self.longest = (took, f"{message} of {actor}, {took * 1000:.1f} ms")
            if self._owners is not None and message not in _OF_THE_SIMULATION:
                self.spent[self._owner(self._owners)] += took
            if len(trace) > _KEPT:
                trace.clear()
            if until is not None and until():
                return True

    def _owner(self, owners: dict[Address, str]) -> str:
        """Return the worker of the latest message; empty for what all workers share."""
        address = self._scheduler.latest
        if address is None:
            return ""
        if address not in owners:
            owners.update({each: w.name for w in self.embedded.workers for each in w.addresses})
        return owners.setdefault(address, "")


def make_name(number: int) -> ConnectorName:
    """Return the name of one of the connectors."""
    return ConnectorName(f"connector-{number:05d}")


def _entry(name: ConnectorName) -> Entry:
    config = {"name": name, "connector.class": FAKE_SOURCE, "tasks.max": "1"}
    return Entry(*encode(ConnectorConfigRecord(name, config)))
