"""A group of simulated workers that runs in one thread. Each worker consists of a membership actor and a stub herder.

The stub herder starts and stops connectors and tasks in virtual time. The cluster checks that no two workers with valid
leases run the same connector or task at the same time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from actors.membership.member import ClusterMembership, GroupMember
from actors.membership.state import MembershipState
from actors.messages.herder import AssignmentReceived, GroupLost, HerderTick, WorkRevoked
from actors.runtime.mailbox import Address, Tell
from actors.runtime.system import Begin, Crash
from kraal.cluster.assignment.leader import list_instances
from kraal.cluster.membership.member_state import MemberSettings
from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.wanted_work import Assignment
from kraal.cluster.views.snapshot import Published, Snapshot
from kraal.core.ids import ConnectorName, Generation, WorkerId
from kraal.protocol.group import ConnectorOrTask, ConnectProtocol
from kraal.stores.group_api import GroupOptions
from kraal.testing._simulation.group import FakeGroup, FakeGroupBroker
from kraal.testing._simulation.scheduler import Scheduler

ConnectorsAndTasks = frozenset[ConnectorOrTask]


@dataclass(frozen=True, slots=True)
class ConfigRead(Tell):
    """The worker's reader has read this config."""

    config: ClusterState


@dataclass(frozen=True, slots=True)
class InstancesStopped(Tell):
    """The revoked instances have stopped."""

    number: int
    keep: ConnectorsAndTasks


def assigned_instances(assignment: Assignment) -> ConnectorsAndTasks:
    return frozenset(
        {ConnectorOrTask.of(c) for c in assignment.connectors}
        | {ConnectorOrTask.of(t) for t in assignment.tasks}
    )


class StubHerder:
    """One incarnation of a herder; running instances outlive it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def receive(self, message: object) -> None:
        worker = self._worker
        match message:
            case Begin():
                worker.membership.begin()
            case ConfigRead():
                self._read(message.config)
            case WorkRevoked():
                worker.last_revocation = message.number
                delay_s = worker.cluster.random.uniform(0, worker.cluster.stop_s)
                worker.cluster.clock.after(
                    delay_s, worker.herder, InstancesStopped(message.number, assigned_instances(message.keep))
                )
            case InstancesStopped():
                # Otherwise, an earlier incarnation received the revocation.
                if message.number == worker.last_revocation:
                    worker.running &= message.keep
                    worker.membership.on_stopped(message.number)
            case AssignmentReceived():
                assert message.config_offset <= worker.published.latest.config.offset
                worker.deliveries.append(message)
                worker.leader_url = message.leader_url
                worker.running = assigned_instances(message.assignment)
                worker.cluster.check()
            case GroupLost():
                worker.leader_url = None
            case HerderTick():
                if not worker.is_hung:
                    worker.membership.on_alive(message.number)
            case _:
                raise TypeError(message)

    def _read(self, config: ClusterState) -> None:
        worker = self._worker
        previous_config = worker.published.latest.config
        if config.offset <= previous_config.offset:
            return
        worker.published.publish(replace(worker.published.latest, config=config))
        worker.membership.on_config_read(config.offset)
        if list_instances(previous_config) != list_instances(config):
            worker.membership.on_work_changed()


class Worker:
    """A simulated worker."""

    def __init__(
        self, cluster: Cluster, name: str, protocol: ConnectProtocol, ready: Callable[[], bool]
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.url = f"http://{name}/"
        self.running: ConnectorsAndTasks = frozenset()
        self.deliveries: list[AssignmentReceived] = []
        self.leader_url: str | None = None
        self.last_revocation = 0
        """Number of the last revocation."""
        self.is_hung = False
        self.is_reader_stuck = False
        """Whether the worker's config reader is stuck."""
        self.is_dead = False
        self.herder = Address(f"herder of {name}")
        self.address = Address(f"membership of {name}")
        self.published = Published(Snapshot(worker_id=WorkerId(name), config=cluster.config))
        self.group = FakeGroup(cluster.broker, name, cluster.options, cluster.scheduler)
        self.membership_state = MembershipState(
            address=self.address,
            published=self.published,
            clock=cluster.clock,
            group=self.group,
            protocol=protocol,
            url=self.url,
            settings=cluster.settings,
            config_wait_timeout_s=0.0,
            ready=ready,
        )
        self.membership = ClusterMembership(self.membership_state)
        self._spawn(
            self.address,
            lambda: GroupMember(
                membership_state=self.membership_state, herder=self.herder, clock=cluster.clock
            ),
        )
        self._spawn(self.herder, lambda: StubHerder(self))

    @property
    def generation(self) -> Generation:
        return self.deliveries[-1].generation

    @property
    def leased_instances(self) -> ConnectorsAndTasks:
        """Instances that run on this worker with a valid lease, except instances of deleted connectors."""
        if self.is_dead or not self.membership_state.lease():
            return frozenset()
        return self.running & list_instances(self.published.latest.config)

    def crash(self, address: Address) -> None:
        address.tell(Crash("a test killed it"))

    def close(self) -> None:
        """Shut down gracefully: stop all instances, then leave the group."""
        self.is_dead, self.running = True, frozenset()
        self._end()
        self.group.close(1)

    def kill(self) -> None:
        self.is_dead = True
        self._end()
        self.group.kill()

    def _end(self) -> None:
        for address in (self.herder, self.address):
            self.cluster.scheduler.stop(address)

    def _spawn(self, address: Address, factory: Callable[[], GroupMember | StubHerder]) -> None:
        def on_death(error: BaseException) -> None:
            if not isinstance(error, RuntimeError) or "a test killed it" not in str(error):
                raise AssertionError(f"{address.name} has an error") from error
            address.bind(None)
            address.fail_pending(f"{address.name} died")
            self._spawn(address, factory)

        self.cluster.scheduler.spawn(address, factory, on_death)


class Cluster:
    """A group with its workers."""

    def __init__(
        self, seed: int = 0, *, max_delay_s: float = 0.0, stop_s: float = 0.5, read_s: float = 0.3
    ) -> None:
        """`stop_s`: maximum time for stopping instances; `read_s`: maximum delay of reading the config."""
        self.random = random.Random(seed)  # noqa: S311 - order, not secrets
        self.scheduler = Scheduler(seed)
        self.clock = self.scheduler.clock
        self.broker = FakeGroupBroker(self.scheduler)
        self.options = GroupOptions(group_id="cluster", session_timeout_s=6.0, rebalance_timeout_s=20.0)
        self.settings = MemberSettings(
            max_delay_s=max_delay_s, session_timeout_s=6.0, rebalance_timeout_s=20.0
        )
        self.stop_s = stop_s
        self.read_s = read_s
        self.config = ClusterState()
        self.workers: list[Worker] = []
        self.checks_ownership = True
        """Whether to check that no two workers run the same instance."""
        self._worker_count = 0

    # -- actions -------------------------------------------------------------------------------------------

    def add(
        self,
        protocol: ConnectProtocol = ConnectProtocol.SESSIONED,
        ready: Callable[[], bool] = lambda: True,
    ) -> Worker:
        self._worker_count += 1
        worker = Worker(self, f"w{self._worker_count}", protocol, ready)
        self.workers.append(worker)
        return worker

    def configure(self, **tasks: int) -> None:
        """Create, change or delete connectors. `tasks` maps names to numbers of tasks; -1 deletes the connector."""
        connectors = dict(self.config.connectors)
        for name, count in tasks.items():
            if count < 0:
                connectors.pop(ConnectorName(name), None)
            else:
                connectors[ConnectorName(name)] = ConnectorEntry(
                    name=ConnectorName(name), config={}, tasks=({},) * count
                )
        self.config = replace(self.config, offset=self.config.offset + 1, connectors=connectors)
        for worker in self.alive:
            if not worker.is_reader_stuck:
                self.show_config(worker)

    def show_config(self, worker: Worker) -> None:
        """Make the worker read to the end of the config topic after a delay."""
        self.clock.after(self.random.uniform(0, self.read_s), worker.herder, ConfigRead(self.config))

    def remove(self, worker: Worker, *, kill: bool = False) -> None:
        if kill:
            worker.kill()
        else:
            worker.close()

    def advance(self, seconds: float) -> None:
        self.scheduler.advance(seconds)

    # -- queries -------------------------------------------------------------------------------------------

    @property
    def alive(self) -> list[Worker]:
        return [w for w in self.workers if not w.is_dead]

    @property
    def is_settled(self) -> bool:
        """Whether every instance runs exactly once, and the group is stable."""
        running = [instance for worker in self.alive for instance in worker.leased_instances]
        return self.broker.stable and sorted(running) == sorted(list_instances(self.config))

    def settle(self, within_s: float) -> float:
        """Advance time until every instance runs exactly once; return the duration."""
        start_s = self.clock.now()
        while not self.is_settled:
            self.advance(0.1)
            self.check()
            if self.clock.now() - start_s > within_s:
                text = f"not stable after {within_s} s: {[(w.name, sorted(w.running)) for w in self.alive]}"
                raise AssertionError(text)
        return self.clock.now() - start_s

    def check(self) -> None:
        """Check that no instance runs on two workers at once."""
        if not self.checks_ownership:
            return
        workers_by_instance: dict[ConnectorOrTask, str] = {}
        for worker in self.alive:
            for instance in worker.leased_instances:
                assert instance not in workers_by_instance, (
                    f"{instance} runs on {workers_by_instance[instance]} and {worker.name}"
                )
                workers_by_instance[instance] = worker.name

    def count_instances(self) -> list[int]:
        return sorted(len(w.leased_instances) for w in self.alive)
