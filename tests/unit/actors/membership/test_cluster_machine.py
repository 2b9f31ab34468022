"""Stateful Hypothesis test of the herder, the log readers and the membership of a cluster.

Steps are requests, deaths of actors, replays of logs, and workers that join or leave.

After each step, no instance runs twice with a lease, and no offset decreases. In a settled cluster, every wanted
instance runs exactly once, the status log matches the running instances, every request has completed, and no
incarnation has taken effect after its successor started. Hypothesis prints the shortest failing list of steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from actors.messages.herder import (
    CreateConnector,
    DeleteConnector,
    PutConfig,
    RestartConnector,
    RestartTask,
    SetTargetState,
)
from actors.runtime.mailbox import Ask
from kraal.core.errors import KraalError
from kraal.core.ids import ConnectorName, Instance, TargetState, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.protocol.group import ConnectProtocol
from kraal.stores.memory import MemoryOffsets
from kraal.testing import FAKE_SINK, FAKE_SOURCE
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.cluster_worker import ClusterWorker

NAMES = [ConnectorName(name) for name in "ab"]
TASKS = [TaskId(name, number) for name in NAMES for number in range(2)]
CORE_ACTORS = ["herder", "herder", "membership", "config reader", "status reader"]
ACTORS = [
    *CORE_ACTORS,
    "worker",
    "config writer",
    "status writer",
    "offsets",
    "publisher",
    "validator",
    *(f"connector {name}" for name in NAMES),
    *(f"task {task}" for task in TASKS),
]
MAX_WORKERS = 4
MIN_DEATH_INTERVAL_S = 13.0
"""Minimum time between two deaths of an actor, to stay within the restart budget of the supervisor (5 in 60 s)."""

names = st.sampled_from(NAMES)
states = st.sampled_from(list(TargetState))
worker_indexes = st.integers(0, MAX_WORKERS - 1)


class MonotonicOffsets(MemoryOffsets):
    """Source offsets that report a decrease as a bug, because only a former owner can store lower offsets."""

    def __init__(self, bugs: list[str]) -> None:
        super().__init__()
        self._bugs = bugs

    @override
    def store(self, changes: Mapping[ConnectorName, Mapping[SourcePartition, Offset | None]]) -> None:
        for connector, partitions in changes.items():
            stored_offsets = self.load(connector)
            for partition, offset in partitions.items():
                previous_offset = stored_offsets.get(partition)
                if (
                    previous_offset is not None
                    and offset is not None
                    and position_of_offset(offset) < position_of_offset(previous_offset)
                ):
                    self._bugs.append(
                        f"offset of {partition} decreased from {position_of_offset(previous_offset)} "
                        f"to {position_of_offset(offset)}"
                    )
        super().store(changes)


class MonotonicPositions(dict[TaskId, int]):
    """Committed offsets of sink tasks that report a decrease as a bug."""

    def __init__(self, bugs: list[str]) -> None:
        super().__init__()
        self._bugs = bugs

    @override
    def __setitem__(self, task: TaskId, position: int) -> None:
        if position < self.get(task, 0):
            self._bugs.append(f"offset of {task} decreased from {self[task]} to {position}")
        super().__setitem__(task, position)


def position_of_offset(offset: Offset) -> int:
    return int(str(offset["position"]))


class ClusterMachine(RuleBasedStateMachine):
    """State machine of a cluster with requests and faults."""

    @initialize(
        seed=st.integers(0, 2**16),
        workers=st.integers(2, 3),
        protocol=st.sampled_from(list(ConnectProtocol)),
        stop_s=st.sampled_from([0.0, 0.3, 4.0]),
    )
    def begin(self, seed: int, workers: int, protocol: ConnectProtocol, stop_s: float) -> None:
        self.cluster = EmbeddedCluster(0, seed=seed, protocol=protocol, stop_s=stop_s)
        self.cluster.offsets = MonotonicOffsets(self.cluster.bugs)
        self.cluster.outside.committed = MonotonicPositions(self.cluster.bugs)
        self.requests: list[tuple[ClusterWorker, Ask[Any], Future[Any]]] = []
        self.deaths: dict[tuple[str, str], float] = {}
        for _ in range(workers):
            self.cluster.add()
        for name, plugin in zip(NAMES, (FAKE_SOURCE, FAKE_SINK), strict=True):
            self.cluster.create(name, {"connector.class": plugin, "tasks.max": "2", "topics": "lines"})
        self.cluster.settle()

    # -- requests ------------------------------------------------------------------------------------------

    @rule(
        name=names,
        plugin=st.sampled_from([FAKE_SOURCE, FAKE_SINK]),
        tasks=st.integers(1, 2),
        index=worker_indexes,
    )
    def create(self, name: ConnectorName, plugin: str, tasks: int, index: int) -> None:
        config = {"connector.class": plugin, "tasks.max": str(tasks), "topics": "lines"}
        self.ask(CreateConnector(name=name, config=config), index)

    @rule(
        name=names,
        plugin=st.sampled_from([FAKE_SOURCE, FAKE_SINK]),
        tasks=st.integers(1, 2),
        index=worker_indexes,
    )
    def configure(self, name: ConnectorName, plugin: str, tasks: int, index: int) -> None:
        config = {"connector.class": plugin, "tasks.max": str(tasks), "topics": "lines"}
        self.ask(PutConfig(name=name, config=config), index)

    @rule(name=names, state=states, index=worker_indexes)
    def write_target_state(self, name: ConnectorName, state: TargetState, index: int) -> None:
        self.ask(SetTargetState(name=name, target=state), index)

    @rule(name=names, only_failed=st.booleans(), index=worker_indexes)
    def restart(self, name: ConnectorName, only_failed: bool, index: int) -> None:  # noqa: FBT001 - named by Hypothesis
        self.ask(RestartConnector(name=name, include_tasks=True, only_failed=only_failed), index)

    @rule(task=st.sampled_from(TASKS), index=worker_indexes)
    def restart_task(self, task: TaskId, index: int) -> None:
        self.ask(RestartTask(task=task), index)

    @rule(name=names, index=worker_indexes)
    def delete(self, name: ConnectorName, index: int) -> None:
        self.ask(DeleteConnector(name=name), index)

    @rule(task=st.sampled_from(TASKS), records=st.integers(1, 30))
    def feed(self, task: TaskId, records: int) -> None:
        self.cluster.feed(task, records)

    # -- events --------------------------------------------------------------------------------------------

    @rule(messages=st.integers(0, 30))
    def run_messages(self, messages: int) -> None:
        """Deliver a limited number of messages, so that the next step may interrupt an exchange."""
        for _ in range(messages):
            self.cluster.scheduler.step()

    @rule(seconds=st.sampled_from([0.0, 0.05, 0.3, 2.0, 8.0]))
    def wait(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    @rule(actor=st.sampled_from(ACTORS), index=worker_indexes)
    def end_actor(self, actor: str, index: int) -> None:
        worker = self.pick_worker(index)
        last_death_s = self.deaths.get((worker.name, actor), -MIN_DEATH_INTERVAL_S)
        if self.cluster.clock.now() - last_death_s >= MIN_DEATH_INTERVAL_S:
            with suppress(KeyError):
                worker.crash(actor)
                self.deaths[worker.name, actor] = self.cluster.clock.now()

    @rule(
        actor=st.sampled_from(CORE_ACTORS),
        messages=st.integers(0, 12),
        index=worker_indexes,
        name=names,
        state=states,
    )
    def end_actor_during_request(
        self, actor: str, messages: int, index: int, name: ConnectorName, state: TargetState
    ) -> None:
        """Kill the herder, a reader (which replays its log) or membership during a request."""
        self.write_target_state(name, state, index)
        self.run_messages(messages)
        self.end_actor(actor, index)

    @precondition(lambda self: len(self.cluster.awake) > 1)
    @rule(index=worker_indexes)
    def kill(self, index: int) -> None:
        self.cluster.kill(self.pick_worker(index))

    @precondition(lambda self: len(self.cluster.awake) > 1)
    @rule(index=worker_indexes)
    def freeze(self, index: int) -> None:
        self.cluster.freeze(self.pick_worker(index))

    @precondition(lambda self: len(self.cluster.awake) > 1)
    @rule(task=st.sampled_from(TASKS), records=st.integers(1, 30), seconds=st.sampled_from([4.0, 7.0, 12.0]))
    def cause_lease_expiry(self, task: TaskId, records: int, seconds: float) -> None:
        """Freeze the owner of a task between records, and thaw this worker after the task may have been reassigned."""
        if self.cluster.broker.down:
            self.cluster.broker.start()
        for owner in self.cluster.owners(task):
            if owner in self.cluster.awake and len(self.cluster.awake) > 1:
                self.cluster.feed(task, records)
                self.run_messages(records % 5)
                self.cluster.freeze(owner)
                self.cluster.advance(seconds)
                self.cluster.feed(task, records)
                self.cluster.thaw(owner)

    @rule()
    def thaw(self) -> None:
        for worker in self.cluster.alive:
            if worker.frozen:
                self.cluster.thaw(worker)

    @precondition(lambda self: len(self.cluster.alive) < MAX_WORKERS)
    @rule()
    def add(self) -> None:
        self.cluster.add()

    @rule()
    def crash_or_start_coordinator(self) -> None:
        broker = self.cluster.broker
        (broker.start if broker.down else broker.stop)()

    # -- invariants ----------------------------------------------------------------------------------------

    @invariant()
    def check_cluster(self) -> None:
        self.cluster.check()

    @rule()
    def end_faults_and_settle(self) -> None:
        """End all faults; the cluster must settle, and all requests must complete."""
        if self.cluster.broker.down:
            self.cluster.broker.start()
        self.thaw()
        self.complete_requests()  # pending requests may change the wanted state
        self.cluster.settle(120)
        self.check_status_log()

    @override
    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.end_faults_and_settle()

    def complete_requests(self) -> None:
        self.cluster.advance(0)
        deadline = self.cluster.clock.now() + 100  # slightly longer than Connect's request timeout
        while pending := [m for worker, m, future in self.requests if worker.alive and not future.done()]:
            assert self.cluster.clock.now() < deadline, f"incomplete requests: {pending}"
            self.cluster.advance(1)
        for _, message, future in self.requests:
            error = future.exception() if future.done() else None
            assert error is None or isinstance(error, KraalError), f"{message}: {error!r}"
        self.requests.clear()

    def check_status_log(self) -> None:
        log = self.cluster.status_log
        latest_values = {record.key: record.value for record in log.read(0, log.end())}
        statuses = {
            key.partition("-")[2].partition("-")[2]: (status["state"], status["worker_id"])
            for key, value in latest_values.items()
            if value is not None and not key.startswith("status-topic-")
            for status in [json.loads(value)]
        }
        for entry in self.cluster.awake[0].snapshot.config.connectors.values():
            if entry.target is TargetState.STARTED:
                expected: list[Instance] = [
                    entry.name,
                    *(TaskId(entry.name, n) for n in range(len(entry.tasks))),
                ]
                for instance in expected:
                    [owner] = self.cluster.owners(instance)
                    assert statuses[str(instance)] == ("RUNNING", owner.worker_id)

    # -- internals -----------------------------------------------------------------------------------------

    def pick_worker(self, index: int) -> ClusterWorker:
        return self.cluster.awake[index % len(self.cluster.awake)]

    def ask(self, message: Ask[Any], index: int) -> None:
        """Send a request without waiting, so that the next step runs concurrently."""
        worker = self.pick_worker(index)
        self.requests.append((worker, message, worker.assembly.herder.question(message)))


SETTINGS = settings(
    max_examples=30,
    stateful_step_count=25,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


@pytest.mark.parametrize("seed", range(40))
def test_random_history_ends_in_the_wanted_state(seed: int) -> None:
    """The seeds depend on the date; `--seeds all` selects all of them."""

    @hypothesis.seed(seed)
    class SeededMachine(ClusterMachine):
        pass

    run_state_machine_as_test(SeededMachine, settings=SETTINGS)
