"""One worker of an embedded cluster: its actors, engine and membership, with fault injection."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from actors.assembly import assemble
from actors.herding.state import HerderSettings
from actors.logs.reader import Follow
from actors.messages.herder import FenceZombies, ShutDown
from actors.messages.supervisor import current_name
from actors.parts import ClusterParts, Parts
from actors.runtime.mailbox import Address, Tell
from actors.runtime.system import Begin, Crash
from kraal.config.worker.standalone import parse_standalone
from kraal.core.ids import ConnectorName, Instance, WorkerId
from kraal.core.lease import LEASE_FRACTION
from kraal.plugins.registry import Registry
from kraal.plugins.worker_plugins import WorkerPlugins
from kraal.protocol.group import ConnectorOrTask
from kraal.testing._simulation.cluster_engine import ClusterEngine, PluginEnvironment
from kraal.testing._simulation.engine import FakeRun
from kraal.testing._simulation.group import FakeGroup
from kraal.testing._simulation.metrics import scrape
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE, FakeSinkConnector, FakeSourceConnector
from kraal.testing._simulation.worker import create_separate_loggers

if TYPE_CHECKING:
    from actors.runtime.system import Factory
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.plugins.api import Connector, ConnectorContext
    from kraal.protocol.group import ConnectProtocol
    from kraal.testing._simulation.cluster import EmbeddedCluster
    from kraal.testing._simulation.scheduler import Scheduler

CRASH_REASON = "a test killed it"


class ClusterWorker:
    """One worker; created by `EmbeddedCluster.add`."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        name: str,
        protocol: ConnectProtocol,
        static: Sequence[Instance] = (),
    ) -> None:
        self._protocol = protocol
        self._static = tuple(sorted(map(ConnectorOrTask.of, static))) or None
        self.name = name
        self.worker_id = WorkerId(f"{name}:8083")
        self.url = f"http://{name}:8083/"
        self.alive = True
        self.frozen = False
        self._cluster = cluster
        self._clock = cluster.clock
        self._connectors: dict[ConnectorName, object] = {}
        self._registry = _make_registry(cluster.installed, self._connectors, cluster.plugins)
        self._host = _Host(cluster.scheduler, name, cluster.bugs, self._connectors)
        self._outside_world = Address(f"outside of {name}")
        self.loggers = create_separate_loggers(cluster.clock.wall_ms)
        """Loggers private to this worker, as in a separate process."""
        self._host.spawn(self._outside_world, _Caller, lambda _: None)
        self.group = FakeGroup(cluster.broker, name, cluster.options, cluster.scheduler)
        self.engine = ClusterEngine(self, cluster.outside, self._plugin_environment())
        self.assembly = assemble(self._parts(), self._on_actor_failed)

    def _parts(self) -> Parts:
        cluster = self._cluster
        config = parse_standalone(cluster.properties)
        return Parts(
            system=self._host,
            clock=cluster.clock,
            engine=self.engine,
            plugins=WorkerPlugins(self._registry, config),
            config_log=cluster.config_log,
            status_log=cluster.status_log,
            offsets=cluster.offsets,
            group_offsets=lambda: cluster.group_offsets,
            settings=replace(
                HerderSettings.of(config, self.worker_id, standalone=False),
                chance=random.Random(self.name).random,  # noqa: S311 - pauses, not secrets
                group_id=cluster.options.group_id,
                transactional=cluster.transactional,
            ),
            leader_url=self.url,
            graceful_s=config.graceful_timeout_s,
            stall_timeout_s=config.stall_timeout_s,
            history_max_bytes=config.history_max_bytes,
            loggers=self.loggers,
            ledger_log=cluster.ledger_log,
            cluster=ClusterParts(
                group=self.group,
                protocol=self._protocol,
                static_assignment=self._static,
                member=cluster.member,
                follow=Follow(wait_s=0, pause_s=cluster.random.uniform(0.02, cluster.read_s)),
                config_wait_timeout_s=0,
                send=lambda request: cluster.send(self, request),
                fence=self._fence,
                transactions=cluster.transactions,
                send_fence=lambda request: cluster.ask_leader(self, request, FenceZombies(name=request.name)),
            ),
        )

    def _plugin_environment(self) -> PluginEnvironment:
        outside, wall_ms = self._cluster.outside, self._clock.wall_ms
        return PluginEnvironment(
            self._registry, self._cluster.properties, outside.topics, outside.plugin_offsets, wall_ms
        )

    # -- state ----------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The latest snapshot, from which GET responses are rendered."""
        return self.assembly.published.latest

    def metrics(self) -> str:
        """Return the response of `GET /metrics`."""
        return scrape(self.assembly, self.worker_id)

    @property
    def running(self) -> set[Instance]:
        """Started connectors and tasks with an open run."""
        return {*self._connectors, *self.engine.running}

    @property
    def effective(self) -> set[Instance]:
        """The running instances that may still write; empty without a lease."""
        lease_s = LEASE_FRACTION * self._cluster.options.session_timeout_s
        return self.running if self.alive and self.group.heartbeat_age_s() < lease_s else set()

    # -- faults ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Shut down gracefully and leave the group."""
        self._cluster.ask(self, ShutDown())
        self.group.close(1)
        self._cluster.scheduler.run()
        self._end()

    def kill(self) -> None:
        """Kill the worker immediately."""
        self.group.kill()
        self._end()

    def _end(self) -> None:
        self.alive = False
        self._host.end()

    def freeze(self) -> None:
        """Suspend the worker."""
        self.frozen = True
        self.group.freeze()
        self._host.freeze(frozen=True)

    def thaw(self) -> None:
        """Resume after `freeze`."""
        self.frozen = False
        self._host.freeze(frozen=False)
        self.group.thaw()
        for task in self.engine.running:
            self.engine.poll_now(task)

    @property
    def actors(self) -> list[str]:
        """Names of the running actors."""
        return self._host.names()

    @property
    def addresses(self) -> list[Address]:
        """Addresses of the running actors and of the fake group."""
        return [*self._host.addresses(), self.group.address]

    def crash(self, actor: str) -> None:
        """Crash the actor with this name at its next message. Raises KeyError."""
        self._host.address(actor).tell(Crash(CRASH_REASON))

    def schedule_call(self, delay_s: float, call: Callable[[], None]) -> None:
        """Schedule a call outside of all actors; a dead worker drops the call, and a frozen worker delays it."""
        self._clock.after(delay_s, self._outside_world, _Call(call))

    def on_opened(self, run: FakeRun) -> None:
        """Check that a new run is the only run of its task."""
        owners = self._cluster.other_owners(run.task, self)
        if owners:
            self._cluster.bugs.append(f"{run.task} begins on {self.name} and runs on {owners}")

    def stop_delay_s(self) -> float:
        """Return the seconds until the next run stops."""
        return self._cluster.random.uniform(0, self._cluster.stop_s)

    def _fence(self, transactional_ids: Sequence[str]) -> None:
        self._cluster.on_fence(transactional_ids)

    def _on_actor_failed(self, name: str, error: BaseException) -> None:
        self._cluster.bugs.append(f"{name} of {self.name} exhausted its restart budget: {error!r}")


class _Host:
    """A worker's view of the scheduler, which tracks the worker's actors so that they die or freeze together."""

    def __init__(
        self, scheduler: Scheduler, name: str, bugs: list[str], connectors: dict[ConnectorName, object]
    ) -> None:
        self._scheduler = scheduler
        self._name = name
        self._bugs = bugs
        self._connectors = connectors
        self._addresses: dict[Address, None] = {}

    def spawn(
        self,
        address: Address,
        factory: Factory,
        died: Callable[[BaseException], None],
        *,
        shares_thread: bool = False,
    ) -> None:
        def on_death(error: BaseException) -> None:
            if str(error) != CRASH_REASON:
                self._bugs.append(f"{address.name} of {self._name} died: {error!r}")
            died(error)

        self._addresses[address] = None
        if address.name.startswith("connector "):  # the actor's started connector is lost as well
            self._connectors.pop(ConnectorName(address.name.removeprefix("connector ")), None)
        self._scheduler.spawn(address, factory, on_death, shares_thread=shares_thread)

    def stop(self, address: Address) -> None:
        self._addresses.pop(address, None)
        self._scheduler.stop(address)

    def address(self, name: str) -> Address:
        for address in self._addresses:
            if address.name == current_name(name):
                return address
        raise KeyError(name)

    def addresses(self) -> list[Address]:
        return list(self._addresses)

    def names(self) -> list[str]:
        return [address.name for address in self._addresses]

    def end(self) -> None:
        for address in self.addresses():
            self.stop(address)

    def freeze(self, *, frozen: bool) -> None:
        for address in self._addresses:
            self._scheduler.freeze(address, frozen=frozen)


@dataclass(frozen=True, slots=True)
class _Call(Tell):
    call: Callable[[], None]


class _Caller:
    """Runs scheduled calls outside of the worker's actors, unless the worker is frozen."""

    def receive(self, message: Begin | _Call) -> None:
        if isinstance(message, _Call):
            message.call()


def _make_registry(
    installed: Registry,
    running_connectors: dict[ConnectorName, object],
    plugins: Mapping[str, type[Connector]],
) -> Registry:
    """Return a registry with the fake connectors, `plugins` and all installed transforms and converters."""
    fakes: dict[str, type[Connector]] = {FAKE_SOURCE: FakeSourceConnector, FAKE_SINK: FakeSinkConnector}
    connectors = {**fakes, **plugins}
    return installed.with_connectors(
        {name: _track(connector, running_connectors) for name, connector in connectors.items()}
    )


def _track(connector: type[Connector], running_connectors: dict[ConnectorName, object]) -> type[Connector]:
    """Return a subclass of `connector` whose instances are in `running_connectors` while they are started."""

    class Tracked(connector):  # type: ignore[valid-type, misc]
        _tracked_name: ConnectorName | None = None

        def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
            super().start(config, context)
            self._tracked_name = ConnectorName(config["name"])
            running_connectors[self._tracked_name] = self

        def stop(self) -> None:
            if self._tracked_name is not None and running_connectors.get(self._tracked_name) is self:
                del running_connectors[self._tracked_name]
            super().stop()

    Tracked.__name__, Tracked.__qualname__ = connector.__name__, connector.__qualname__
    Tracked.__module__ = connector.__module__
    return Tracked
