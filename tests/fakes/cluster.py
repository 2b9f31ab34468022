"""Distributed workers of one group, as processes."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from kraal.testing.process import PATIENCE_S, WorkerProcess

_EVERY_S = 0.05

QUICK = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.storage.partitions": "5",
    "status.storage.partitions": "2",
    "spark.driver.memory": "512m",
}
"""What tests set so that a lost worker is noticed in seconds."""


class Cluster:
    """Some workers of a group of its own name. Not thread-safe."""

    def __init__(self, directory: Path, bootstrap: str, properties: Mapping[str, str] | None = None) -> None:
        """Describe the cluster; nothing is started. `properties` win over `QUICK`."""
        self.group = f"cluster-{uuid.uuid4().hex[:8]}"
        self.workers: list[WorkerProcess] = []
        self._directory = directory
        self._bootstrap = bootstrap
        self._properties = {**QUICK, **(properties or {})}

    def add(self, properties: Mapping[str, str] | None = None) -> WorkerProcess:
        """Describe one more worker; it is not started."""
        worker = WorkerProcess(
            self._directory / f"worker-{len(self.workers)}",
            self._bootstrap,
            properties={**self._properties, **(properties or {})},
            group=self.group,
        )
        self.workers.append(worker)
        return worker

    def start(self, count: int) -> None:
        """Start so many more workers, side by side, and wait until each has its first assignment."""
        self.start_all([self.add() for _ in range(count)])

    def start_dead(self) -> None:
        """Start those that do not run, side by side, and wait until each has its first assignment."""
        self.start_all([worker for worker in self.workers if not worker.alive])

    def start_all(self, workers: Sequence[WorkerProcess]) -> None:
        """Start these workers side by side, and wait until each has its first assignment."""
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda worker: worker.start(), workers))
        for worker in workers:
            worker.wait_until("it was in the group", partial(_is_ready, worker))

    def close(self) -> None:
        """End whatever is left of the workers."""
        for worker in self.workers:
            worker.close()

    def owners(self, name: str, by: WorkerProcess | None = None) -> dict[str, str]:
        """Return the worker of each running instance of a connector: by `connector` and `0`, `1` and so on."""
        body = (by or self.alive[0]).get(f"/connectors/{name}/status").body
        running = {"connector": body["connector"]} | {str(task["id"]): task for task in body["tasks"]}
        return {key: each["worker_id"] for key, each in running.items() if each["state"] == "RUNNING"}

    @property
    def alive(self) -> list[WorkerProcess]:
        """The workers that run."""
        return [worker for worker in self.workers if worker.alive]

    def worker(self, worker_id: str) -> WorkerProcess:
        """Return a worker by what statuses call it."""
        return next(each for each in self.alive if each.url.endswith(f"//{worker_id}"))

    def wait_until(self, what: str, done: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        """Wait until `done()`. Raises AssertionError after `timeout_s`, with the ends of all logs."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"--- {worker.directory.name}\n" + "\n".join(worker.log_text().splitlines()[-40:])
                    for worker in self.workers
                )
                raise AssertionError(f"it took more than {timeout_s:g} s until {what}\n{logs}")
            time.sleep(_EVERY_S)

    def wait_for_states(self, name: str, states: list[str], timeout_s: float = PATIENCE_S) -> None:
        """Wait until every worker shows these states of a connector and its tasks."""
        self.wait_until(
            f"{name} was {states} everywhere",
            lambda: all(worker.states(name) == states for worker in self.alive),
            timeout_s,
        )

    def work(self) -> Counter[str]:
        """Count the running instances of each worker, of all connectors."""
        statuses: dict[str, Any] = self.alive[0].get("/connectors?expand=status").body
        return Counter(
            each["worker_id"]
            for body in (entry["status"] for entry in statuses.values())
            for each in (body["connector"], *body["tasks"])
            if each["state"] == "RUNNING"
        )


def _is_ready(worker: WorkerProcess) -> bool:
    return bool(worker.get("/health").status == 200)
