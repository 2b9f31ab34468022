"""A cluster inside a test, for tests of connectors and of failures.

    with Cluster(workers=3, plugins=[Counter], seed=7) as c:
        c.create("ticks", {"connector.class": "Counter", "topic": "ticks"})
        c.wait_until("ten ticks", lambda: len(c.values("ticks")) >= 10)
        c.kill_actor("task ticks-0")
        c.kill_worker(1)
        c.wait_for_states("ticks", ["RUNNING", "RUNNING"])

Workers, actors, group protocol, plugins, transforms and converters are real. Topics are in memory, time is virtual, and
no JVM runs: a source's batches must be tables (`SourceBatch.table`), and a sink receives a minimal substitute for a
DataFrame. All code runs in one thread, and the seed determines the order of all messages, so failures are reproducible.
All times are virtual seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from actors.messages.herder import DeleteConnector, PutConfig, RestartConnector, SetTargetState
from kraal.cluster.views import rest as view
from kraal.core.errors import KraalError, NotFound, TimedOut
from kraal.core.ids import ConnectorName, Instance, TargetState, TaskId
from kraal.testing._simulation.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from kraal.plugins.api import Connector
    from kraal.testing._simulation.cluster_worker import ClusterWorker
    from kraal.testing._simulation.topics import TopicRecord

TIMEOUT_S = 120.0
"""Default timeout of waits, in virtual seconds."""
_STEP_S = 0.05

Plugins = Mapping[str, "type[Connector]"] | Iterable["type[Connector]"]


class Cluster:
    """A cluster of workers in one thread and virtual time. Context manager; not thread-safe."""

    def __init__(
        self,
        workers: int = 3,
        *,
        plugins: Plugins = (),
        seed: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Start the workers; `with` waits until they form a group.

        Args:
            workers: number of workers, at least 1.
            plugins: your connector classes, or a mapping from the names in configs to connector classes. Without names,
                configs refer to a class by its Python name, qualified (`package.module.Class`) or not (`Class`).
            seed: determines the order of all messages and all delays.
            properties: worker properties; the default converters are StringConverter.

        Raises ValueError if `workers` is less than 1, and ConfigInvalid for invalid properties.
        """
        if workers < 1:
            raise ValueError(f"expected at least 1 worker, got {workers}")
        self.seed = seed
        self.embedded = EmbeddedCluster(
            workers, seed=seed, properties=properties, plugins=_plugins_by_name(plugins)
        )
        """The underlying cluster, with more faults, snapshots and the scheduler."""

    def __enter__(self) -> Self:
        """Wait until all workers have joined the group."""
        self.settle()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all workers gracefully, except after a failed test."""
        del error, trace
        if kind is None:
            self.close()

    def close(self) -> None:
        """Stop all workers gracefully, so that every plugin's `stop` is called; kill frozen workers.

        Raises AssertionError if an actor died unexpectedly, or if an instance ran twice at once.
        """
        for worker in self.embedded.alive:
            if worker.frozen:
                worker.kill()
        for worker in self.embedded.alive:
            self.embedded.close(worker)
        self.embedded.check()

    # -- client requests -----------------------------------------------------------------------------------

    def create(self, name: str, config: Mapping[str, str | None], *, state: str | None = None) -> None:
        """Create a connector through any worker; `state` is its `initial_state`: RUNNING, PAUSED or STOPPED.

        Raises ConfigInvalid, BadRequest, AlreadyExists. Source: `POST /connectors`.
        """
        self.embedded.create(name, config, None if state is None else _target(state))

    def configure(self, name: str, config: Mapping[str, str | None]) -> None:
        """Create a connector or replace its config. Raises ConfigInvalid, BadRequest.

        Source: `PUT /connectors/{name}/config`.
        """
        self.embedded.request(PutConfig(name=ConnectorName(name), config=config))

    def pause(self, name: str) -> None:
        """Pause a connector. Raises NotFound. Source: `PUT /connectors/{name}/pause`."""
        self._set_target(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        """Resume a connector after `pause` or `stop`. Raises NotFound. Source: `PUT /connectors/{name}/resume`."""
        self._set_target(name, TargetState.STARTED)

    def stop(self, name: str) -> None:
        """Stop a connector and its tasks. Raises NotFound. Source: `PUT /connectors/{name}/stop` (KIP-875)."""
        self._set_target(name, TargetState.STOPPED)

    def restart(self, name: str, *, tasks: bool = True, only_failed: bool = False) -> None:
        """Restart a connector, by default with its tasks. Raises NotFound. Source: KIP-745."""
        self.embedded.request(
            RestartConnector(name=ConnectorName(name), include_tasks=tasks, only_failed=only_failed)
        )

    def delete(self, name: str) -> None:
        """Delete a connector. Raises NotFound. Source: `DELETE /connectors/{name}`."""
        self.embedded.request(DeleteConnector(name=ConnectorName(name)))

    # -- faults --------------------------------------------------------------------------------------------

    def kill_actor(self, name: str, worker: int | None = None) -> None:
        """Kill an actor: `task numbers-0`, `connector numbers`, `herder`, `membership`, `config reader`, ….

        The worker's supervisor restarts the actor after a virtual delay, which elapses during waits.

        Args:
            name: name of the actor in log lines and `kraal describe`.
            worker: number of the actor's worker; by default the worker that runs this task or connector, or the leader.

        Raises KeyError with the names of all actors if there is no such actor.
        """
        target = self._find_worker(name) if worker is None else self.worker(worker)
        try:
            self.embedded.crash(target, name)
        except KeyError:
            names = ", ".join(sorted(target.actors))
            raise KeyError(f"no actor {name!r} on {target.name}; there are: {names}") from None
        self.embedded.advance(0)

    def kill_worker(self, number: int) -> None:
        """Kill a worker, like SIGKILL; the group detects the loss after the session timeout (6 s)."""
        self.embedded.kill(self._running_worker(number))

    def stop_worker(self, number: int) -> None:
        """Stop a worker gracefully, like SIGTERM."""
        self.embedded.close(self._running_worker(number))

    def freeze_worker(self, number: int) -> None:
        """Suspend a worker, like SIGSTOP, until `thaw_worker`."""
        self.embedded.freeze(self._running_worker(number))

    def thaw_worker(self, number: int) -> None:
        """Resume a frozen worker."""
        self.embedded.thaw(self._running_worker(number))

    def add_worker(self) -> int:
        """Start another worker, for example to replace a dead one; return its number."""
        self.embedded.add()
        return len(self.embedded.workers) - 1

    def fail_task(self, task: str, trace: str) -> None:
        """Fail a running task (`name-0`), like an error of its plugin. Raises KeyError if the task is not running."""
        task_id = TaskId.parse(task)
        self.worker(self.owner(task)).engine.fail(task_id, trace)
        self.embedded.advance(0)

    # -- records -------------------------------------------------------------------------------------------

    def write(self, topic: str, *values: str | bytes | None, key: str | bytes | None = None) -> None:
        """Write one record per value to a topic, for sinks. Strings are encoded as UTF-8."""
        now_ms = self.embedded.clock.wall_ms()
        for value in values:
            self.embedded.outside.topics.append(
                topic, key=_bytes(key), value=_bytes(value), timestamp_ms=now_ms
            )

    def records(self, topic: str) -> list[TopicRecord]:
        """Return all records of a topic in offset order; empty for a missing topic."""
        return self.embedded.outside.topics.read(topic)

    def values(self, topic: str) -> list[str | None]:
        """Return the values of all records of a topic as strings. Raises UnicodeDecodeError."""
        return [None if record.value is None else record.value.decode() for record in self.records(topic)]

    def feed(self, task: str, records: int) -> None:
        """Supply a task (`name-0`) of a fake connector with more records, which the fake engine counts."""
        self.embedded.feed(TaskId.parse(task), records)

    def counted(self, task: str) -> list[int]:
        """Return the numbers of all records written by a task of a fake connector, including duplicates."""
        return list(self.embedded.outside.written.get(TaskId.parse(task), []))

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def trace(self) -> list[tuple[str, str]]:
        """All handled messages: actor name and message type. The same seed produces the same trace."""
        return self.embedded.scheduler.trace

    @property
    def now_s(self) -> float:
        """Virtual seconds since the cluster was created."""
        return self.embedded.clock.now()

    @property
    def alive(self) -> list[int]:
        """The numbers of the workers that are not dead, including frozen workers."""
        return [number for number, worker in enumerate(self.embedded.workers) if worker.alive]

    @property
    def leader(self) -> int:
        """The number of the leader. Raises KeyError if there is none."""
        return self.embedded.workers.index(self.embedded.leader)

    def worker(self, number: int) -> ClusterWorker:
        """Return a worker by number, counted from 0. Raises KeyError for an unknown number."""
        if not 0 <= number < len(self.embedded.workers):
            raise KeyError(f"no worker {number}; there are 0 to {len(self.embedded.workers) - 1}")
        return self.embedded.workers[number]

    def owner(self, instance: str) -> int:
        """Return the number of the worker that runs `name` or the task `name-0`.

        Raises KeyError if no worker runs it.
        """
        for candidate in _instances(instance):
            owners = self.embedded.owners(candidate)
            if owners:
                return self.embedded.workers.index(owners[0])
        raise KeyError(f"{instance} is not running; {self.embedded.describe()}")

    def status(self, name: str) -> dict[str, Any]:
        """Return the response of `GET /connectors/{name}/status`. Raises NotFound."""
        return view.connector_status(self.embedded.awake[0].snapshot, ConnectorName(name))

    def states(self, name: str) -> list[str]:
        """Return the states of a connector and its tasks, in order; empty without a status."""
        try:
            return list(map(str, self.embedded.states(name)))
        except NotFound:
            return []

    # -- waiting -------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Advance virtual time."""
        self.embedded.advance(seconds)

    def wait_until(self, what: str, done: Callable[[], bool], *, timeout_s: float = TIMEOUT_S) -> None:
        """Advance time until `done()` returns True. Raises TimedOut with `what` and the running instances."""
        deadline = self.now_s + timeout_s
        while not done():
            if self.now_s >= deadline:
                raise TimedOut(
                    f"{timeout_s:g} virtual seconds passed before {what}; seed {self.seed}; "
                    f"{self.embedded.describe()}"
                )
            self.embedded.advance(_STEP_S)

    def wait_for_states(self, name: str, states: Iterable[str], *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until all workers that are not frozen report these states. Raises TimedOut."""
        expected_states = list(states)

        def is_reached() -> bool:
            return all(self._states_at(name, worker) == expected_states for worker in self.embedded.awake)

        try:
            self.wait_until(f"{name} was {expected_states}", is_reached, timeout_s=timeout_s)
        except TimedOut as error:
            raise TimedOut(f"{error}; it is {self.states(name)}") from None

    def settle(self, timeout_s: float = TIMEOUT_S) -> float:
        """Wait until every instance is in its target state on one worker and all workers agree.

        Returns the elapsed virtual seconds. Raises AssertionError with the differences, such as a FAILED task.
        """
        return self.embedded.settle(timeout_s)

    # -- internals -----------------------------------------------------------------------------------------

    def _set_target(self, name: str, target: TargetState) -> None:
        self.embedded.request(SetTargetState(name=ConnectorName(name), target=target))

    def _running_worker(self, number: int) -> ClusterWorker:
        worker = self.worker(number)
        if not worker.alive:
            raise KeyError(f"worker {number} is dead; running workers: {self.alive}")
        return worker

    def _find_worker(self, actor: str) -> ClusterWorker:
        kind, _, instance_name = actor.partition(" ")
        if kind in ("task", "connector") and instance_name:
            for worker in self.embedded.awake:
                if actor in worker.actors:
                    return worker
        return self.embedded.leader

    def _states_at(self, name: str, worker: ClusterWorker) -> list[str]:
        try:
            return self.embedded.states(name, worker)
        except KraalError:
            return []


def _plugins_by_name(plugins: Plugins) -> dict[str, type[Connector]]:
    if isinstance(plugins, Mapping):
        return dict(plugins)
    return {f"{plugin.__module__}.{plugin.__qualname__}": plugin for plugin in plugins}


def _target(state: str) -> TargetState:
    targets = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
    if state not in targets:
        raise ValueError(f"invalid initial state {state!r}; expected one of: {', '.join(targets)}")
    return targets[state]


def _instances(text: str) -> list[Instance]:
    instances: list[Instance] = [ConnectorName(text)]
    try:
        instances.append(TaskId.parse(text))
    except ValueError:
        return instances
    return instances


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
