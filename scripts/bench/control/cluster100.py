"""`cluster100`: 10,000 connectors in a simulated cluster of 100 workers; what each worker computes for one change.

All workers run in this process, by `kraal.testing`: actors, group protocol, assignment and internal topics are real,
Kafka and the engine are in memory, time is virtual. The configs are in the config topic when the workers start. Times
are processor times of all workers, divided by their number, with two virtual seconds of heartbeats; the longest message
is the one that held up its actor for longest, on whatever worker. Both are medians. A tenth of the connectors shows the
growth: ten times as much is linear.
"""

from __future__ import annotations

import gc
import logging
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psutil

from actors.messages.herder import CreateConnector, RestartConnector
from kraal.cluster.views import rest as view
from kraal.core.errors import Momentary
from kraal.core.ids import ConnectorName
from kraal.core.records import Entry
from kraal.protocol.records import ConnectorConfigRecord, encode
from kraal.testing import FAKE_SOURCE, Cluster
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Wanted
from scripts.harness.processes import ScriptFailed

if TYPE_CHECKING:
    from actors.runtime.mailbox import Ask

WORKERS = 100
SIZES = (1_000, 10_000)
EACH = 10
"""Number of connectors that are created, then restarted, and of workers that are killed, one after another."""
SESSION_S = 7.0
"""After this virtual time the others know that a worker is dead."""
READ_S = 2.0
"""After this virtual time all workers have read what was written."""
LIMIT_S = 120.0
LONGEST = "the longest message"
TOLERATED = 20.0
"""Times the figure of a tenth of the connectors; quadratic growth gives 100."""


def run(lab: Lab) -> list[Case]:
    """Measure both sizes, in workers of Kraal only."""
    sizes = [size // 10 for size in SIZES] if lab.options.quick else list(SIZES)
    small, large = (_measured(size) for size in sizes)
    cases = []
    for (name, unit), figure in large.items():
        cases.append(Case(f"{name}: {sizes[1]:,} connectors", unit, [], [figure]))
        if LONGEST not in name:
            grown = figure / small[name, unit]
            cases.append(
                Case(f"  in relation to {sizes[0]:,}", "x", [], [grown], wanted=Wanted(limit=TOLERATED))
            )
    return cases


def _measured(connectors: int) -> dict[tuple[str, str], float]:
    """Return each figure by its name and unit, without collections of garbage: 100 workers' heaps are one here."""
    gc.collect()
    gc.disable()
    actors = logging.getLogger("actors")
    actors.setLevel(
        logging.CRITICAL
    )  # followers log each connector whose task configs wait for the session key
    try:
        return _Simulated(connectors).measured()
    finally:
        actors.setLevel(logging.NOTSET)
        gc.enable()


class _Simulated:
    """A cluster, and what its workers compute."""

    def __init__(self, connectors: int) -> None:
        self._resident = psutil.Process().memory_info().rss
        self._count = connectors
        self._cluster = Cluster(workers=1)
        self._scheduler = self._cluster.embedded.scheduler
        self._longest = (0.0, "")
        self._cluster.embedded.config_log.append([_entry(_name(number)) for number in range(connectors)])
        for _ in range(WORKERS - 1):
            self._cluster.add_worker()

    def measured(self) -> dict[tuple[str, str], float]:
        """Return each figure by its name and unit."""
        found: dict[tuple[str, str], float] = {}
        embedded = self._cluster.embedded

        def create(number: int) -> None:
            name = ConnectorName(f"new-{number}")
            self._ask(CreateConnector(name=name, config={"connector.class": FAKE_SOURCE}))
            self._count += 1

        def restart(number: int) -> None:
            self._ask(RestartConnector(name=_name(number), include_tasks=True, only_failed=False))

        def lose(number: int) -> None:
            self._cluster.kill_worker(WORKERS - 1 - number)
            self._advance(SESSION_S)

        steps: tuple[tuple[str, Callable[[int], None], int], ...] = (
            ("start of all workers", lambda _: None, 1),
            ("create one", create, EACH),
            ("restart one", restart, EACH),
            ("a worker is lost", lose, EACH),
        )
        for name, step, times in steps:
            took, longest = [], []
            for number in range(times):
                self._longest = (0.0, "")
                begun = time.process_time()
                step(number)
                self._until_all_run()
                took.append((time.process_time() - begun) * 1000 / WORKERS)
                longest.append(self._longest)
            found[f"{name}, each worker", "ms"] = statistics.median(took)
            longest.sort()
            if step is not steps[0][1]:
                found[f"{name}, {LONGEST}", "ms"] = longest[len(longest) // 2][0] * 1000
            say(f"{self._count:,}: {name}: {statistics.median(took):.2f} ms; {longest[len(longest) // 2][1]}")
        begun = time.process_time()
        view.connectors_expanded(embedded.awake[0].snapshot, ["status"])
        found["statuses of all in one answer", "ms"] = (time.process_time() - begun) * 1000
        resident = psutil.Process().memory_info().rss - self._resident
        found["resident memory, each worker", "MB"] = resident / WORKERS / 1e6
        return found

    def _until_all_run(self) -> None:
        embedded = self._cluster.embedded
        until = self._cluster.now_s + LIMIT_S
        while True:
            self._advance(0.1)
            running = sum(len(worker.running) for worker in embedded.awake)
            if running == 2 * self._count and embedded.broker.stable:
                self._advance(READ_S)
                return
            if self._cluster.now_s > until:
                raise ScriptFailed(f"{running} of {2 * self._count} connectors and tasks run.")

    def _ask(self, message: Ask[Any]) -> None:
        """Have the leader's herder answer, again while the group rebalances."""
        until = self._cluster.now_s + LIMIT_S
        while True:
            answer = self._cluster.embedded.leader.assembly.herder.question(message)
            while not answer.done():
                self._advance(0.02)
            try:
                answer.result()
            except Momentary:
                if self._cluster.now_s > until:
                    raise
            else:
                return

    def _advance(self, seconds: float) -> None:
        clock, end = self._scheduler.clock, self._cluster.now_s + seconds
        self._handle_all()
        while (due := clock.next_due()) is not None and due <= end:
            clock.advance_to(due)
            self._handle_all()
        clock.advance_to(end)

    def _handle_all(self) -> None:
        while True:
            begun = time.process_time()
            if not self._scheduler.step():
                return
            took = time.process_time() - begun
            if took > self._longest[0]:
                actor, message = self._scheduler.trace[-1]
                self._longest = (took, f"{message} of {actor}, {took * 1000:.1f} ms")


def _name(number: int) -> ConnectorName:
    return ConnectorName(f"connector-{number:05d}")


def _entry(name: ConnectorName) -> Entry:
    config = {"name": name, "connector.class": FAKE_SOURCE, "tasks.max": "1"}
    return Entry(*encode(ConnectorConfigRecord(name, config)))
