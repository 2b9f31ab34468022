"""A cluster of workers inside a test, with the real actors in one thread, one seed and virtual time.

    cluster = EmbeddedCluster(workers=3, seed=7)
    cluster.create("numbers", {"connector.class": FAKE_SOURCE, "tasks.max": "4"})
    cluster.settle()
    cluster.kill(cluster.leader)
    cluster.settle(within_s=20)
    assert cluster.states("numbers") == ["RUNNING"] * 5

The workers share the logs, the offsets and the external systems of their sources and sinks (`outside`), and are members
of a fake group. Whenever a task is opened or time advances, the cluster checks that no instance runs twice and that no
actor died except by `crash`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from actors.exactly_once.fencer import Fence
from actors.messages.herder import CreateConnector, PutTaskConfigs
from kraal.cluster.membership.member_state import MemberSettings
from kraal.cluster.state.cluster_state import ConnectorEntry
from kraal.cluster.views import rest as view
from kraal.core.errors import NotFound, NotLeader, NotOwner, RetryableConflict, TimedOut
from kraal.core.ids import ConnectorName, Instance, TargetState, TaskId
from kraal.plugins.registry import Registry
from kraal.protocol.group import ConnectProtocol
from kraal.stores.group_api import GroupOptions
from kraal.stores.memory import MemoryLog, MemoryOffsets
from kraal.testing._simulation.cluster_worker import ClusterWorker
from kraal.testing._simulation.engine import Outside
from kraal.testing._simulation.group import FakeGroupBroker
from kraal.testing._simulation.group_offsets import FakeGroupOffsets
from kraal.testing._simulation.scheduler import Scheduler
from kraal.testing._simulation.transactions import FakeTransactions
from kraal.testing._simulation.worker import DEFAULTS
from kraal.testing._simulation.worker_requests import ask_leader

if TYPE_CHECKING:
    from actors.exactly_once.claims import FenceRequest
    from actors.messages.publisher import PublishTasks
    from actors.runtime.mailbox import Ask
    from kraal.plugins.api import Connector
    from kraal.stores.api import Log

R = TypeVar("R")

SESSION_TIMEOUT_S = 6.0
REBALANCE_TIMEOUT_S = 20.0
REQUEST_TIMEOUT_S = 90.0
MAX_HOPS = 2
STATE_BY_TARGET = {
    TargetState.STARTED: "RUNNING",
    TargetState.PAUSED: "PAUSED",
    TargetState.STOPPED: "STOPPED",
}


class EmbeddedCluster:
    """A group of workers under one seeded scheduler."""

    def __init__(
        self,
        workers: int = 3,
        *,
        seed: int = 0,
        protocol: ConnectProtocol = ConnectProtocol.STATIC,
        max_delay_s: float = 0.0,
        stop_s: float = 0.3,
        read_s: float = 0.2,
        properties: Mapping[str, str] | None = None,
        transactional: bool = False,
        exactly_once: bool = False,
        plugins: Mapping[str, type[Connector]] | None = None,
        ledger_log: Log | None = None,
    ) -> None:
        """Start workers; `settle` waits until they form a group.

        Args:
            workers: number of workers.
            seed: determines the order of all messages and all delays.
            protocol: default `connect.protocol` of the workers.
            max_delay_s: `scheduled.rebalance.max.delay.ms` in virtual seconds, like all times.
            stop_s: maximum time until a task stops.
            read_s: maximum interval at which workers read the logs.
            properties: worker properties that override `kraal.testing._simulation.worker.DEFAULTS`.
            transactional: whether the leader writes to the config log in transactions, and fences sources.
            exactly_once: whether sources also write exactly once.
            plugins: connectors by qualified name, in addition to the fake ones; their tasks run without Spark.
            ledger_log: the log of the ledger; by default, there is no ledger.
        """
        self.scheduler = Scheduler(seed)
        self.clock = self.scheduler.clock
        self.random = random.Random(seed)  # noqa: S311 - order, not secrets
        self.config_log = MemoryLog("config", now_ms=self.clock.wall_ms)
        self.status_log = MemoryLog("status", now_ms=self.clock.wall_ms)
        self.offsets = MemoryOffsets()
        self.ledger_log = ledger_log
        self.outside = Outside()
        self.group_offsets = FakeGroupOffsets(
            self.outside.committed, lambda: {task for w in self.alive for task in w.engine.running}
        )
        self.broker = FakeGroupBroker(self.scheduler)
        timeouts = {"session_timeout_s": SESSION_TIMEOUT_S, "rebalance_timeout_s": REBALANCE_TIMEOUT_S}
        self.options = GroupOptions(group_id="cluster", **timeouts)
        self.member = MemberSettings(max_delay_s=max_delay_s, **timeouts)
        self.protocol = protocol
        self.transactions = FakeTransactions("cluster", self.offsets) if exactly_once else None
        self.transactional = transactional or exactly_once
        self.plugins = plugins or {}
        self.installed = Registry.load()  # once for all workers
        self.on_fence: Fence = self.transactions.fence if self.transactions is not None else lambda _: None
        """Called when producers are fenced. May raise StoreError to reject the request."""
        self.stop_s, self.read_s = stop_s, read_s
        self.properties = {**DEFAULTS, **(properties or {})}
        self.workers: list[ClusterWorker] = []  # including dead ones
        self.bugs: list[str] = []  # unexpected deaths of actors, and tasks that run twice
        for _ in range(workers):
            self.add()

    # -- faults and time ------------------------------------------------------------------------------------

    def add(
        self, *, static: Sequence[Instance] = (), protocol: ConnectProtocol | None = None
    ) -> ClusterWorker:
        """Start another worker; `static` are its static assignments (KIP-987)."""
        worker = ClusterWorker(self, f"w{len(self.workers) + 1}", protocol or self.protocol, static)
        self.workers.append(worker)
        return worker

    def close(self, worker: ClusterWorker) -> None:
        """Shut down a worker gracefully, like SIGTERM."""
        worker.close()
        self.check()

    def kill(self, worker: ClusterWorker) -> None:
        """Kill a worker, like SIGKILL."""
        worker.kill()

    def freeze(self, worker: ClusterWorker) -> None:
        """Suspend a worker, like SIGSTOP; its messages are queued while time advances."""
        worker.freeze()

    def thaw(self, worker: ClusterWorker) -> None:
        """Resume a frozen worker."""
        worker.thaw()
        self.check()

    def crash(self, worker: ClusterWorker, actor: str) -> None:
        """Crash a worker's actor with this name at its next message. Raises KeyError."""
        worker.crash(actor)

    def feed(self, task: TaskId, records: int) -> None:
        """Supply a task with more records; the task may run on any worker."""
        self.outside.supply[task] = self.outside.supply.get(task, 0) + records
        for worker in self.awake:
            worker.engine.poll_now(task)

    def advance(self, seconds: float) -> None:
        """Advance the virtual time."""
        self.scheduler.advance(seconds)
        self.check()

    # -- requests -------------------------------------------------------------------------------------------

    def ask(self, worker: ClusterWorker, message: Ask[R], *, timeout_s: float = REQUEST_TIMEOUT_S) -> R:
        """Send a message to a worker's herder, and return the reply. Raises TimedOut and the message's errors."""
        future = worker.assembly.herder.question(message)
        self.run_until(future.done, timeout_s=timeout_s)
        return future.result()

    def request(self, message: Ask[R], via: ClusterWorker | None = None, *, timeout_s: float = 60.0) -> R:
        """Send a message to any worker as a client does, with forwarding to the leader and with retries.

        Retriable errors are retried. Raises the errors of the message, or the last retriable error after `timeout_s`.
        """
        deadline = self.clock.now() + timeout_s
        while True:
            try:
                return self._forward(message, via or self.awake[0])
            except (RetryableConflict, NotLeader, NotOwner):
                if self.clock.now() >= deadline:
                    raise
            self.advance(0.5)

    def _forward(self, message: Ask[R], worker: ClusterWorker) -> R:
        for _ in range(MAX_HOPS):
            try:
                return self.ask(worker, message)
            except (NotLeader, NotOwner) as error:
                url = error.leader_url if isinstance(error, NotLeader) else error.owner_url
                target = None if url is None else self.at(url)
                if target is None:
                    raise
                worker = target
        return self.ask(worker, message)

    def create(
        self, name: str, config: Mapping[str, str | None], initial_state: TargetState | None = None
    ) -> None:
        """Create a connector through any worker."""
        self.request(
            CreateConnector(name=ConnectorName(name), config=config, initial_state=initial_state),
            self.random.choice(self.awake),
        )

    def send(self, sender: ClusterWorker, request: PublishTasks) -> Future[None]:
        """Send task configs to the leader's herder, like REST. Raises PeerFailed."""
        message = PutTaskConfigs(name=request.name, configs=request.configs)
        return self.ask_leader(sender, request, message)

    def ask_leader(
        self, sender: ClusterWorker, request: PublishTasks | FenceRequest, message: Ask[Any]
    ) -> Future[None]:
        """Send a message to the leader's herder, like REST. Raises PeerFailed, PeerRefused."""
        url = request.leader_url
        return ask_leader(self.at(url), sender, url, request.key, message)

    # -- state ----------------------------------------------------------------------------------------------

    @property
    def alive(self) -> list[ClusterWorker]:
        """The workers that are not dead."""
        return [w for w in self.workers if w.alive]

    @property
    def awake(self) -> list[ClusterWorker]:
        """The workers that are alive and not frozen."""
        return [w for w in self.alive if not w.frozen]

    @property
    def leader(self) -> ClusterWorker:
        """The leader. Raises KeyError unless exactly one worker considers itself the leader."""
        leaders = [w for w in self.awake if w.snapshot.is_leader]
        if len(leaders) != 1:
            raise KeyError(leaders)
        return leaders[0]

    def at(self, url: str) -> ClusterWorker | None:
        """Return the worker with this advertised URL, unless it is dead."""
        return next((w for w in self.alive if w.url == url), None)

    def owners(self, instance: Instance) -> list[ClusterWorker]:
        """Return the workers that run an instance, including frozen workers with a lease."""
        return [w for w in self.alive if instance in (w.effective if w.frozen else w.running)]

    def states(self, name: str, worker: ClusterWorker | None = None) -> list[str]:
        """Return the states of a connector and its tasks, as reported by a worker. Raises NotFound."""
        status = _status(name, worker or self.awake[0])
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    # -- waiting -------------------------------------------------------------------------------------------

    def run_until(self, done: Callable[[], bool], *, timeout_s: float) -> None:
        """Run and advance the time until `done()`. Raises TimedOut."""
        deadline = self.clock.now() + timeout_s
        while not done():
            if self.scheduler.step():
                continue
            due_s = self.clock.next_due()
            if due_s is None or due_s > deadline:
                raise TimedOut(f"no reply within {timeout_s:g} virtual seconds")
            self.clock.advance_to(due_s)
        self.check()

    def settle(self, within_s: float = 30.0) -> float:
        """Run until the cluster is in its desired state; return the elapsed virtual seconds. Raises AssertionError."""
        start_s = self.clock.now()
        while (difference := self.find_difference()) is not None:
            if self.clock.now() - start_s > within_s:
                raise AssertionError(f"not settled after {within_s:g} s: {difference}; {self.describe()}")
            self.advance(0.1)
        return self.clock.now() - start_s

    def find_difference(self) -> str | None:
        """Return the first difference from the desired state; None if the cluster is in that state."""
        if not self.broker.stable or len(self.broker.members) != len(self.awake):
            return f"the group has {sorted(self.broker.members)} and is stable: {self.broker.stable}"
        if sum(w.snapshot.is_leader for w in self.awake) != 1:
            return f"{[w.name for w in self.awake if w.snapshot.is_leader]} lead"
        offset = self.config_log.end() or -1
        lagging_workers = [w.name for w in self.awake if w.snapshot.config.offset != offset]
        if lagging_workers:
            return f"{lagging_workers} have not read the config"
        config = self.awake[0].snapshot.config
        expected_instances: set[Instance] = set()
        for entry in config.connectors.values():
            difference = self._find_difference(entry)
            if difference is not None:
                return difference
            expected_instances.update({entry.name, *(TaskId(entry.name, n) for n in range(len(entry.tasks)))})
        unexpected_instances = [
            (i, w.name) for w in self.awake for i in w.running if i not in expected_instances
        ]
        return f"{unexpected_instances} are running but should not be" if unexpected_instances else None

    def _find_difference(self, entry: ConnectorEntry) -> str | None:
        state = STATE_BY_TARGET[entry.target]
        tasks: list[Instance] = [TaskId(entry.name, n) for n in range(len(entry.tasks))]
        if entry.target is TargetState.STARTED:
            if len(tasks) != int(entry.config.get("tasks.max") or 1):
                return f"{entry.name} has {len(tasks)} tasks"
            for instance in (entry.name, *tasks):
                if len(self.owners(instance)) != 1:
                    return f"{instance} runs on {[w.name for w in self.owners(instance)]}"
        if entry.target is TargetState.STOPPED:
            tasks = []
            worker_names = [w.name for w in self.alive for t in w.engine.running if t.connector == entry.name]
            if worker_names:
                return f"{worker_names} run tasks of {entry.name}, which is stopped"
        for worker in self.awake:
            difference = self._find_status_difference(entry, worker, [state] * (1 + len(tasks)))
            if difference is not None:
                return f"{difference} on {worker.name}"
        return None

    def _find_status_difference(
        self, entry: ConnectorEntry, worker: ClusterWorker, states: list[str]
    ) -> str | None:
        try:
            reported_states = self.states(entry.name, worker)
            status = _status(entry.name, worker)
        except NotFound as error:
            return str(error)
        if entry.target is TargetState.STOPPED:
            reported_states = reported_states[:1]
        if reported_states != states:
            return f"{entry.name} is {reported_states}, not {states}"
        if entry.target is TargetState.STARTED:
            reported_workers = [status["connector"]["worker_id"], *(t["worker_id"] for t in status["tasks"])]
            instances: list[Instance] = [entry.name, *(TaskId(entry.name, n) for n in range(len(states) - 1))]
            owners = [w.worker_id for i in instances for w in self.owners(i)]
            if reported_workers != owners:
                return f"{entry.name} is reported on {reported_workers}, but runs on {owners}"
        return None

    def check(self) -> None:
        """Raise AssertionError if an instance runs twice or an actor died unexpectedly."""
        if self.bugs:
            raise AssertionError(self.bugs)
        owner_names: dict[Instance, str] = {}
        for worker in self.alive:
            for instance in worker.effective:
                if instance in owner_names:
                    text = f"{instance} runs on {owner_names[instance]} and {worker.name} at {self.clock.now():g} s"
                    raise AssertionError(text)
                owner_names[instance] = worker.name

    def other_owners(self, task: TaskId, worker: ClusterWorker) -> list[str]:
        """Return the names of the other workers on which a task runs with a lease."""
        running_workers = [w for w in self.alive if w is not worker and w.engine.find_run(task) is not None]
        return [w.name for w in running_workers if task in w.effective]

    def describe(self) -> str:
        """Return a description of the running instances of each worker, for assertion messages."""
        return "; ".join(f"{w.name}: {sorted(map(str, w.running))}" for w in self.alive)


def _status(name: str, worker: ClusterWorker) -> dict[str, Any]:
    return view.connector_status(worker.snapshot, ConnectorName(name))
