"""A simulated cluster for benchmarks, with all workers in this process, and measurements of their CPU time.

Actors, group protocol, assignment and internal topics are real; Kafka and the engine are in memory, and time is
virtual. Measured times are CPU times of this process.
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
"""Virtual time within which all workers read the records that were written earlier."""
POLL_INTERVAL_S: Final = 0.5
"""Maximum virtual time between two polls of the internal topics by a worker."""
TIMEOUT_S: Final = 120.0
STEP_S: Final = 0.1
_MAX_TRACE: Final = 10_000
"""Maximum number of messages in the scheduler's trace; only the latest is used."""
_SIMULATION_MESSAGES: Final = frozenset({"PollNext", "_HeartbeatDue"})
"""Messages with which an in-memory worker polls for records and times its heartbeats; not attributed to a worker."""


@contextmanager
def disable_interference() -> Iterator[None]:
    """Disable the logs of the actors, and the garbage collector, because all workers share one heap."""
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
    """A cluster that runs connectors of one task each. Not thread-safe."""

    def __init__(self) -> None:
        """Start one worker."""
        self.connectors = 0
        """Number of connectors in the cluster."""
        self.longest = (0.0, "")
        """Seconds and description of the message that took longest since `start_measurement`."""
        self.cpu_s: defaultdict[str, float] = defaultdict(float)
        """CPU seconds of each worker since `start_measurement`, by name."""
        self._resident = psutil.Process().memory_info().rss
        self._cluster = Cluster(workers=1)
        self.embedded.read_s = POLL_INTERVAL_S
        self._scheduler = self.embedded.scheduler
        self._owners: dict[Address, str] | None = None
        """Workers by the addresses of their actors; None if times are not measured by worker."""

    def write_configs(self, connectors: int) -> None:
        """Write the configs of all connectors to the config topic at once."""
        self.connectors += connectors
        self.embedded.config_log.append(
            [_make_config_entry(make_name(number)) for number in range(connectors)]
        )

    def add_workers(self, count: int, *, over_s: float = 0.0) -> None:
        """Start workers at even intervals within a virtual time, so that their heartbeats are also spread."""
        for _ in range(count):
            self.advance(over_s / count)
            self._cluster.add_worker()

    @property
    def embedded(self) -> EmbeddedCluster:
        """The underlying cluster."""
        return self._cluster.embedded

    @property
    def now_s(self) -> float:
        """Virtual seconds since the cluster was created."""
        return self._cluster.now_s

    def start_measurement(self, *, by_worker: bool = False) -> None:
        """Start a new measurement; `by_worker` also measures the time of each worker, which is slower."""
        self.longest = (0.0, "")
        self.cpu_s.clear()
        self._owners = {} if by_worker else None

    def advance_until_all_run(self, step_s: float = STEP_S) -> float:
        """Advance until all connectors and tasks run and all workers are members; return the virtual time.

        Raises ScriptFailed after `TIMEOUT_S` virtual seconds.
        """
        deadline_s = self.now_s + TIMEOUT_S
        while not self._are_all_running():
            if self.now_s > deadline_s:
                running = sum(len(worker.running) for worker in self.embedded.awake)
                raise ScriptFailed(
                    f"Timed out after {TIMEOUT_S:g} virtual seconds: only {running} of {2 * self.connectors}"
                    " connectors and tasks are running."
                )
            self.advance(step_s)
        return self.now_s

    def advance_until_rebalance(self) -> None:
        """Advance until the coordinator begins a rebalance. Raises ScriptFailed after `TIMEOUT_S` (virtual)."""
        broker = self.embedded.broker
        self.advance(TIMEOUT_S, until=lambda: not broker.stable)
        if broker.stable:
            raise ScriptFailed("Timed out: the coordinator began no rebalance.")

    def ask(self, message: Ask[Any]) -> None:
        """Send a request to the leader's herder; retry it while the group rebalances."""
        deadline_s = self.now_s + TIMEOUT_S
        while True:
            reply = self.embedded.leader.assembly.herder.question(message)
            while not reply.done():
                self.advance(0.02)
            try:
                reply.result()
            except RetryableConflict:
                if self.now_s > deadline_s:
                    raise
            else:
                return

    def advance(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """Advance the virtual time, without the checks of `EmbeddedCluster.advance`.

        `until` is called after each message. Once it returns True, `advance` returns, and later messages stay queued.
        """
        clock, end = self._scheduler.clock, self.now_s + seconds
        while not self._handle_all(until):
            due = clock.next_due()
            if due is None or due > end:
                clock.advance_to(end)
                return
            clock.advance_to(due)

    def resident_mb(self) -> float:
        """Return the growth of this process's resident memory since the cluster was created."""
        return (psutil.Process().memory_info().rss - self._resident) / 1e6

    def _are_all_running(self) -> bool:
        workers, broker, total = self.embedded.awake, self.embedded.broker, 2 * self.connectors
        if not broker.stable or len(broker.members) != len(workers):
            return False
        plans = [w.snapshot.plan for w in workers if w.snapshot.generation == broker.generation]
        is_assigned = any(
            plan is not None and len(plan.owners) == total and not plan.waiting for plan in plans
        )
        return is_assigned and sum(len(worker.running) for worker in workers) == total

    def _handle_all(self, until: Callable[[], bool] | None) -> bool:
        """Handle all messages that are due; return whether `until` returned True."""
        trace = self._scheduler.trace
        while True:
            start_s = time.process_time()
            if not self._scheduler.step():
                return False
            duration_s = time.process_time() - start_s
            actor, message = trace[-1]
            if duration_s > self.longest[0]:
                self.longest = (duration_s, f"{message} of {actor}, {duration_s * 1000:.1f} ms")
            if self._owners is not None and message not in _SIMULATION_MESSAGES:
                self.cpu_s[self._find_owner(self._owners)] += duration_s
            if len(trace) > _MAX_TRACE:
                trace.clear()
            if until is not None and until():
                return True

    def _find_owner(self, owners: dict[Address, str]) -> str:
        """Return the worker that handled the latest message; empty for actors that all workers share."""
        address = self._scheduler.latest
        if address is None:
            return ""
        if address not in owners:
            owners.update(
                {address: worker.name for worker in self.embedded.workers for address in worker.addresses}
            )
        return owners.setdefault(address, "")


def make_name(number: int) -> ConnectorName:
    """Return the name of one of the connectors."""
    return ConnectorName(f"connector-{number:05d}")


def _make_config_entry(name: ConnectorName) -> Entry:
    config = {"name": name, "connector.class": FAKE_SOURCE, "tasks.max": "1"}
    return Entry(*encode(ConnectorConfigRecord(name, config)))
