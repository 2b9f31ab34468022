"""A cluster of real worker processes with a real broker, for tests of connectors on Spark and of failures.

    with ProcessCluster(workers=2) as c:
        c.create("lines", {"connector.class": "FileStreamSource", "file": "/tmp/lines", "topic": "lines"})
        c.wait_until("two lines", lambda: len(c.values("lines")) == 2)
        c.kill_worker(0)
        c.wait_for_states("lines", ["RUNNING", "RUNNING"])

Each worker is a `kraal distributed` process with its own Spark; your connectors must be installed in the environment of
the test (entry point `kraal.connectors`). Every wait has a timeout in real seconds. The error of a wait that times out
contains the ends of all logs.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kraal.broker.broker import Broker, free_port
from kraal.broker.records import read_topic, write_topic
from kraal.testing._simulation.topics import TopicRecord
from kraal.testing.process import TIMEOUT_S, Answer, WorkerProcess

_POLL_INTERVAL_S = 0.05
_KAFKA_TIMEOUT_S = 30.0

QUICK_PROPERTIES = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.storage.partitions": "5",
    "status.storage.partitions": "2",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "1000",
    "spark.driver.memory": "512m",
}
"""Default worker properties, with which lost workers are detected within seconds."""


class ProcessCluster:
    """A group of worker processes with a unique group id. Context manager; not thread-safe."""

    def __init__(
        self,
        workers: int = 3,
        *,
        directory: Path | None = None,
        bootstrap: str | None = None,
        broker: Broker | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Define the cluster without starting it; entering the context calls `start`.

        Args:
            workers: number of workers that entering the context starts.
            directory: directory of the files of workers and broker; by default a temporary directory.
            bootstrap: address of a running broker; by default the value of the environment variable
                `KRAAL_TESTING_BOOTSTRAP`, if set; otherwise a broker is started on loopback and stopped by `close`.
            broker: a broker that entering the context starts and `close` stops, instead of `bootstrap`.
            properties: worker properties that override `QUICK_PROPERTIES`.
        """
        self.group = f"cluster-{uuid.uuid4().hex[:8]}"
        """`group.id`, also the prefix of the internal topics' names."""
        self.workers: list[WorkerProcess] = []
        """All workers ever created, including dead ones, in the order of their numbers."""
        self.broker: Broker | None = broker
        """The broker that this cluster starts and stops, if any."""
        self._count = workers
        self._temporary = tempfile.TemporaryDirectory(prefix="kraal-") if directory is None else None
        self._directory = Path(self._temporary.name) if self._temporary else directory or Path()
        running_bootstrap = bootstrap or os.environ.get("KRAAL_TESTING_BOOTSTRAP") or None
        self._bootstrap = running_bootstrap if broker is None else broker.bootstrap
        self._properties = {**QUICK_PROPERTIES, **(properties or {})}

    def __enter__(self) -> Self:
        """Start the broker, unless `bootstrap` was set, and the workers. On failure, stop them."""
        try:
            if self.broker is not None:
                self.broker.start()
            self.start(self._count)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all started processes."""
        del kind, error, trace
        self.close()

    def add(self, properties: Mapping[str, str] | None = None) -> WorkerProcess:
        """Define another worker without starting it."""
        worker = WorkerProcess(
            self._directory / f"worker-{len(self.workers)}",
            self.bootstrap,
            properties={**self._properties, **(properties or {})},
            group=self.group,
        )
        self.workers.append(worker)
        return worker

    def start(self, count: int) -> None:
        """Start more workers in parallel and wait until each has its first assignment."""
        self.start_all([self.add() for _ in range(count)])

    def start_dead(self) -> None:
        """Start all stopped workers in parallel and wait until each has its first assignment."""
        self.start_all([worker for worker in self.workers if not worker.alive])

    def start_all(self, workers: Sequence[WorkerProcess]) -> None:
        """Start these workers in parallel and wait until each has its first assignment."""
        with ThreadPoolExecutor() as executor:
            list(executor.map(lambda worker: worker.start(), workers))
        for worker in workers:
            worker.wait_until("it was in the group", partial(_is_ready, worker))

    def close(self) -> None:
        """Kill the remaining workers, then stop the broker if this cluster started it."""
        for worker in self.workers:
            worker.close()
        if self.broker is not None:
            self.broker.stop()
            self.broker = None
        if self._temporary is not None:
            self._temporary.cleanup()

    # -- requests -------------------------------------------------------------------------------------------

    def create(self, name: str, config: Mapping[str, str | None], *, state: str | None = None) -> Answer:
        """Create a connector; `state` is its `initial_state`. Raises AssertionError if the request is rejected."""
        return self.alive[0].create(name, config, **({} if state is None else {"initial_state": state}))

    def configure(self, name: str, config: Mapping[str, str | None]) -> Answer:
        """Create a connector or replace its config. Raises AssertionError if the request is rejected."""
        return self._request("PUT", f"/connectors/{name}/config", dict(config))

    def pause(self, name: str) -> None:
        """Pause a connector. Like the methods below, raises AssertionError if the request is rejected."""
        self._request("PUT", f"/connectors/{name}/pause")

    def resume(self, name: str) -> None:
        """Resume a connector after `pause` or `stop`."""
        self._request("PUT", f"/connectors/{name}/resume")

    def stop(self, name: str) -> None:
        """Stop a connector and shut down its tasks (KIP-875)."""
        self._request("PUT", f"/connectors/{name}/stop")

    def restart(self, name: str, *, tasks: bool = True, only_failed: bool = False) -> None:
        """Restart a connector and, by default, its tasks (KIP-745)."""
        query = f"includeTasks={str(tasks).lower()}&onlyFailed={str(only_failed).lower()}"
        self._request("POST", f"/connectors/{name}/restart?{query}")

    def delete(self, name: str) -> None:
        """Delete a connector."""
        self._request("DELETE", f"/connectors/{name}")

    # -- faults --------------------------------------------------------------------------------------------

    def kill_worker(self, number: int) -> None:
        """Kill a worker with SIGKILL; its JVM then exits. The group detects the loss after `session.timeout.ms`."""
        self._worker_by_number(number).kill()

    def stop_worker(self, number: int) -> int:
        """Stop a worker with SIGTERM; return its exit code."""
        return self._worker_by_number(number).end()

    def start_worker(self, number: int) -> None:
        """Restart a dead worker with its files and wait until it has its first assignment."""
        self.start_all([self._worker_by_number(number)])

    def freeze_worker(self, number: int) -> None:
        """Suspend a worker with SIGSTOP until `thaw_worker`; its JVM keeps running."""
        self._worker_by_number(number).signal(signal.SIGSTOP)

    def thaw_worker(self, number: int) -> None:
        """Resume a frozen worker with SIGCONT."""
        self._worker_by_number(number).signal(signal.SIGCONT)

    def kill_spark(self, number: int) -> None:
        """Kill a worker's JVM with SIGKILL; the worker starts another one. Raises KeyError if there is no JVM."""
        jvm = self._worker_by_number(number).jvm()
        if jvm is None:
            raise KeyError(f"worker {number} has no JVM")
        jvm.kill()

    def stop_broker(self) -> None:
        """Stop the broker. Raises RuntimeError if this cluster did not start it."""
        self._own_broker().stop()

    def kill_broker(self) -> None:
        """Kill the broker with SIGKILL. Raises RuntimeError if this cluster did not start it."""
        self._own_broker().kill()

    def start_broker(self) -> None:
        """Restart the broker at the same address with the same data."""
        self._own_broker().start()

    # -- records -------------------------------------------------------------------------------------------

    def write(self, topic: str, *values: str | bytes | None, key: str | bytes | None = None) -> None:
        """Write one record per value to a topic, strings as UTF-8. Raises BrokerError."""
        write_topic(self.bootstrap, topic, map(_bytes, values), key=_bytes(key), timeout_s=_KAFKA_TIMEOUT_S)

    def records(self, topic: str) -> list[TopicRecord]:
        """Return the current records of a topic; empty if it does not exist. Raises BrokerError."""
        return [
            TopicRecord(
                topic=topic,
                partition=record.partition,
                offset=record.offset,
                key=record.key,
                value=record.value,
                headers=record.headers,
                timestamp_ms=record.timestamp_ms,
            )
            for record in read_topic(self.bootstrap, topic, timeout_s=_KAFKA_TIMEOUT_S)
        ]

    def values(self, topic: str) -> list[str | None]:
        """Return the values of all records of a topic as strings. Raises BrokerError, UnicodeDecodeError."""
        return [None if record.value is None else record.value.decode() for record in self.records(topic)]

    # -- state ----------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers`; the first access starts a broker unless an address or a broker is configured."""
        if self._bootstrap is None:
            self.broker = Broker(self._directory / "kafka", free_port())
            self._bootstrap = self.broker.start()
        return self._bootstrap

    @property
    def alive(self) -> list[WorkerProcess]:
        """The running workers."""
        return [worker for worker in self.workers if worker.alive]

    def worker(self, worker_id: str) -> WorkerProcess:
        """Return the worker with this worker id."""
        return next(worker for worker in self.alive if worker.url.endswith(f"//{worker_id}"))

    def states(self, name: str) -> list[str]:
        """Return the states of a connector and its tasks, in order; empty if it has no status."""
        return self.alive[0].states(name)

    def owners(self, name: str, by: WorkerProcess | None = None) -> dict[str, str]:
        """Return the worker id of each running instance of a connector, with the keys `connector`, `0`, `1` and so on.

        `by` is the worker that is queried, by default the first running one.
        """
        body = (by or self.alive[0]).get(f"/connectors/{name}/status").body
        statuses = {"connector": body["connector"]} | {str(task["id"]): task for task in body["tasks"]}
        return {key: status["worker_id"] for key, status in statuses.items() if status["state"] == "RUNNING"}

    def owner(self, task: str) -> int:
        """Return the number of the worker that runs the task `name-0`. Raises KeyError if no worker runs it."""
        name, _, number = task.rpartition("-")
        worker_id = self.owners(name).get(number)
        if worker_id is None:
            raise KeyError(f"{task} is not running")
        return self.workers.index(self.worker(worker_id))

    def work(self) -> Counter[str]:
        """Return the number of running instances by worker id, without workers that run none."""
        statuses: dict[str, Any] = self.alive[0].get("/connectors?expand=status").body
        return Counter(
            status["worker_id"]
            for body in (entry["status"] for entry in statuses.values())
            for status in (body["connector"], *body["tasks"])
            if status["state"] == "RUNNING"
        )

    # -- waiting -------------------------------------------------------------------------------------------

    def wait_until(self, what: str, done: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
        """Wait until `done()` returns True. After `timeout_s`, raises AssertionError with the end of each log."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"--- {worker.directory.name}\n{worker.evidence()}" for worker in self.workers
                )
                raise AssertionError(f"timed out after {timeout_s:g} s waiting until {what}\n{logs}")
            time.sleep(_POLL_INTERVAL_S)

    def wait_for_states(self, name: str, states: Iterable[str], timeout_s: float = TIMEOUT_S) -> None:
        """Wait until every running worker reports these states of a connector and its tasks."""
        expected_states = list(states)
        self.wait_until(
            f"{name} was {expected_states} everywhere",
            lambda: all(worker.states(name) == expected_states for worker in self.alive),
            timeout_s,
        )

    # -- internals -----------------------------------------------------------------------------------------

    def _request(self, method: str, path: str, body: object = None) -> Answer:
        response = self.alive[0].ask(method, path, body)
        if not response.status < 400:  # noqa: PLR2004 - HTTP error statuses
            raise AssertionError(f"{method} {path} returned {response}")
        return response

    def _worker_by_number(self, number: int) -> WorkerProcess:
        if not 0 <= number < len(self.workers):
            raise KeyError(f"no worker {number}; there are 0 to {len(self.workers) - 1}")
        return self.workers[number]

    def _own_broker(self) -> Broker:
        if self.broker is None:
            raise RuntimeError("the cluster did not start the broker, because `bootstrap` was set")
        return self.broker


def _is_ready(worker: WorkerProcess) -> bool:
    return bool(worker.get("/health").status == 200)  # noqa: PLR2004 - HTTP status


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
