"""Clusters of distributed workers of one kind, Java or Kraal, in one group."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kraal.broker.broker import Broker
from scripts.harness.group import RUNNING, Rebalance, Status, Statuses, read_rebalances
from scripts.harness.java_connect import CURRENT
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.workers import START_TIMEOUT_S, Worker, distributed

QUIET_PERIOD_S = 2.0
SETTLE_TIMEOUT_S = 120.0
_LEADER = re.compile(r"Joined group at generation .*leaderUrl='http://([^/']+)/?'")


class Cluster:
    """The workers of one group. Not thread-safe."""

    def __init__(
        self,
        kind: str,
        broker: Broker,
        directory: Path,
        group: str,
        extra: Mapping[str, str] | None = None,
        version: str = CURRENT,
    ) -> None:
        """Create a cluster of `java` or `kraal` workers without starting it.

        `extra` has properties of all workers, and `version` is that of Java workers.
        """
        self.kind, self._version = kind, version
        self.group = group
        self.workers: list[Worker] = []
        """Started workers that were not stopped with `end`, `kill` or `stop`."""
        self._killed: list[Worker] = []
        self._broker = broker
        self._directory = directory
        self._extra = dict(extra or {})
        self._started = 0
        self._statuses: Statuses | None = None

    @property
    def statuses(self) -> Statuses:
        """The cluster's statuses. Reading starts at the first access; a worker must then be up."""
        if self._statuses is None:
            self._statuses = Statuses(self._broker.bootstrap, self.group)
        return self._statuses

    def launch(self, port: int | None = None) -> Worker:
        """Start another worker without waiting for it."""
        directory = self._directory / f"{self.kind}-{self._started}"
        directory.mkdir(parents=True)
        self._started += 1
        worker = distributed(
            self.kind,
            self._broker.bootstrap,
            directory,
            group=self.group,
            port=port,
            extra=self._extra,
            version=self._version,
        )
        self.workers.append(worker)
        return worker

    def start(self, count: int) -> None:
        """Start `count` workers, and wait until all of them are in the group."""
        for worker in [self.launch() for _ in range(count)]:
            self.wait_until_in(worker)

    def wait_until_in(self, worker: Worker) -> None:
        """Wait until a worker is up and in the group. Raises ScriptFailed."""
        worker.wait_until_up()
        wait_until(
            f"{worker.name} was healthy",
            worker.rest.is_healthy,
            timeout_s=START_TIMEOUT_S,
            program=worker.process,
        )
        wait_until(
            f"all {len(self.workers)} workers were in the group",
            lambda: bool(generations := self.generations()) and generations[-1].members >= len(self.workers),
            timeout_s=START_TIMEOUT_S,
            program=worker.process,
        )

    def end(self, worker: Worker) -> None:
        """Stop a worker gracefully, and wait until it has exited."""
        worker.stop()
        self.workers.remove(worker)

    def kill(self, worker: Worker) -> None:
        """Kill a worker with SIGKILL; `stop` cleans up after it."""
        worker.process.kill()
        self.workers.remove(worker)
        self._killed.append(worker)

    def stop(self) -> None:
        """Stop all workers."""
        if self._statuses is not None:
            self._statuses.close()
            self._statuses = None
        for worker in self._killed + self.workers:
            worker.stop()
        self.workers.clear()
        self._killed.clear()

    def generations(self) -> list[Rebalance]:
        """Return all generations of the group so far, according to the broker's log."""
        return read_rebalances(self._broker.log, self.group)

    def leader(self) -> Worker:
        """Return the leader of the group, according to the first worker's log. Raises ScriptFailed."""
        text = self.workers[0].process.log.read_text(encoding="utf-8", errors="replace")
        leaders = _LEADER.findall(text)
        for worker in self.workers:
            if leaders and worker.rest.worker_id == leaders[-1]:
                return worker
        raise ScriptFailed(f"The log of {self.workers[0].name} does not contain the leader.")

    def settle(
        self, connectors: Sequence[str], *, spread: int = 2, timeout_s: float = SETTLE_TIMEOUT_S
    ) -> None:
        """Wait until all connectors (with one task each) run on evenly loaded workers, without recent changes.

        `spread` is the maximum difference between the numbers of instances of two workers. Raises ScriptFailed.
        """
        ids = {worker.rest.worker_id for worker in self.workers}

        def is_settled(statuses: Mapping[str, Status]) -> bool:
            workers_of_instances = list(get_owners(statuses, connectors).values())
            counts = Counter(workers_of_instances)
            loads = [counts[worker_id] for worker_id in ids]
            is_even = max(loads) - min(loads) <= spread
            return (
                len(workers_of_instances) == 2 * len(connectors)
                and is_even
                and counts.keys() <= ids
                and self._is_quiet()
            )

        self.statuses.wait_until(
            f"{len(connectors)} connectors ran on evenly loaded workers", is_settled, timeout_s
        )

    def _is_quiet(self) -> bool:
        quiet_since = time.time() - QUIET_PERIOD_S
        return not self.statuses.since(quiet_since) and self.generations()[-1].stable_at < quiet_since


def get_owners(statuses: Mapping[str, Status], connectors: Iterable[str]) -> dict[str, str]:
    """Return the worker of each RUNNING instance of these connectors, by the status keys of the instances."""
    keys = [key for name in connectors for key in (f"connector-{name}", f"task-{name}-0")]
    return {key: statuses[key].worker for key in keys if key in statuses and statuses[key].state == RUNNING}
