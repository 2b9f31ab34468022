"""A standalone worker inside a test, with the real actors in one thread, virtual time and in-memory stores.

    worker = EmbeddedWorker(seed=7)
    worker.create("numbers", {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    worker.engine.feed(TaskId(ConnectorName("numbers"), 0), 100)
    worker.crash("herder")
    worker.run()
    assert worker.status("numbers")["connector"]["state"] == "RUNNING"

With a real Spark engine instead of the fake one, events are sent by Spark's threads: `run_until` waits for them, and
virtual time advances no faster than real time. docs/testing.md has examples of both.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from actors.assembly import Assembly, assemble
from actors.herding.state import HerderSettings
from actors.messages.herder import CreateConnector, ShutDown
from actors.messages.supervisor import current_name
from actors.parts import Parts
from actors.runtime.system import Crash
from kraal.cluster.views import rest as view
from kraal.config.connector.converters import BYTES
from kraal.config.worker.standalone import StandaloneConfig, parse_standalone
from kraal.core.ids import ConnectorName, TargetState, WorkerId
from kraal.core.log_levels import Loggers
from kraal.metrics.windows import Windows
from kraal.plugins.config_providers import ProviderClasses, Providers, open_providers
from kraal.plugins.registry import Registry
from kraal.plugins.worker_plugins import WorkerPlugins
from kraal.stores.memory import MemoryLog, MemoryOffsets
from kraal.testing._simulation.engine import FakeEngine
from kraal.testing._simulation.group_offsets import FakeGroupOffsets, no_groups
from kraal.testing._simulation.metrics import scrape
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE, FakeSinkConnector, FakeSourceConnector
from kraal.testing._simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from actors.runtime.mailbox import Ask
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.engine.api import Engine
    from kraal.stores.api import GroupOffsets, Log, OffsetStore

R = TypeVar("R")

WORKER_ID = WorkerId("127.0.0.1:8083")
DEFAULTS = {
    "bootstrap.servers": "127.0.0.1:9092",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.storage.file.filename": "unused",
}
CONVERTERS = (DEFAULTS["key.converter"], BYTES)
"""Plugins of fake workers in addition to the fake connectors."""


class EmbeddedWorker:
    """One standalone worker under a seeded scheduler."""

    def __init__(
        self,
        *,
        seed: int = 0,
        engine: Engine | None = None,
        registry: Registry | None = None,
        providers: Providers | None = None,
        properties: Mapping[str, str] | None = None,
        config_log: Log | None = None,
        status_log: Log | None = None,
        offsets: OffsetStore | None = None,
        group_offsets: GroupOffsets | None = None,
        ledger_log: Log | None = None,
    ) -> None:
        """Start the actors and run them until they are idle.

        Args:
            seed: determines the order in which actors handle messages.
            engine: runs the tasks; by default a `FakeEngine`, which `fake` returns.
            registry: the plugins; by default the two fake connectors, and the String and ByteArray converters.
            providers: the config providers; by default those declared in `properties`.
            properties: worker properties that override `DEFAULTS`.
            config_log: by default in memory; pass the log of an earlier worker to restart it.
            status_log: like `config_log`.
            offsets: like `config_log`.
            group_offsets: offsets of sinks; by default those committed in the fake engine.
            ledger_log: the log of the ledger; by default, there is no ledger.
        """
        self.engine: Engine = engine or FakeEngine()
        self._is_real = not isinstance(self.engine, FakeEngine)  # real threads may still send messages
        self.scheduler = Scheduler(seed, real_time=self._is_real)
        self.config_log: Log = config_log or MemoryLog("config")
        self.status_log: Log = status_log or MemoryLog("status")
        self.offsets: OffsetStore = offsets or MemoryOffsets()
        self.group_offsets: GroupOffsets = group_offsets or _fake_group_offsets(self.engine)
        self.given_up: list[str] = []
        """Actors that exhausted their restart budget; a real process would exit."""
        self.loggers = create_separate_loggers(self.scheduler.clock.wall_ms)
        """Loggers private to this worker, as in a separate process."""
        config = parse_standalone({**DEFAULTS, **(properties or {})})
        parts = Parts(
            system=self.scheduler,
            clock=self.scheduler.clock,
            engine=self.engine,
            plugins=make_plugins(registry, config, providers),
            config_log=self.config_log,
            status_log=self.status_log,
            offsets=self.offsets,
            group_offsets=lambda: self.group_offsets,
            settings=_herder_settings(config, seed),
            stall_timeout_s=config.stall_timeout_s,
            leader_url=f"http://{WORKER_ID}/",
            graceful_s=config.graceful_timeout_s,
            windows=Windows(config.metrics_window_s, config.metrics_samples),
            loggers=self.loggers,
            history_max_bytes=config.history_max_bytes,
            ledger_log=ledger_log,
        )
        self.assembly: Assembly = assemble(parts, lambda name, _: self.given_up.append(name))
        self.scheduler.run()

    @property
    def snapshot(self) -> Snapshot:
        """The latest snapshot, from which GET responses are rendered."""
        return self.assembly.published.latest

    @property
    def fake(self) -> FakeEngine:
        """The fake engine. Raises TypeError if the worker has a different engine."""
        if not isinstance(self.engine, FakeEngine):
            raise TypeError("this worker does not use a FakeEngine")
        return self.engine

    def run(self) -> None:
        """Handle all messages."""
        self.scheduler.run()

    def run_until(self, done: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
        """Run until `done()` returns True. Raises AssertionError on a timeout, see `Scheduler.run_until`."""
        self.scheduler.run_until(done, timeout_s=timeout_s)

    def advance(self, seconds: float) -> None:
        """Advance the virtual time."""
        self.scheduler.advance(seconds)

    def ask(self, message: Ask[R]) -> R:
        """Send a message to the herder and run until the herder replies. Raises the errors of the message."""
        future = self.assembly.herder.question(message)
        self.scheduler.run_until(future.done, timeout_s=30.0 if self._is_real else 0.0)
        return future.result()

    def create(
        self, name: str, config: Mapping[str, str | None], initial_state: TargetState | None = None
    ) -> None:
        """Create a connector and run until the worker is idle."""
        self.ask(CreateConnector(name=ConnectorName(name), config=config, initial_state=initial_state))
        self.run()

    def close(self) -> None:
        """Stop all tasks gracefully, so that another worker can use a real engine."""
        self.ask(ShutDown())

    def metrics(self) -> str:
        """Return the response of `GET /metrics`."""
        return scrape(self.assembly, WORKER_ID)

    def status(self, name: str) -> dict[str, Any]:
        """Return the response of `GET /connectors/{name}/status`. Raises NotFound."""
        return view.connector_status(self.snapshot, ConnectorName(name))

    def states(self, name: str) -> list[str]:
        """Return the states of a connector and its tasks, in order."""
        status = self.status(name)
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def crash(self, actor: str, reason: str = "a test killed it") -> None:
        """Crash the actor with this name (`herder`, `worker`, `task c-0`, …) at its next message."""
        for address in self.scheduler.addresses():
            if address.name == current_name(actor):
                address.tell(Crash(reason))
                return
        raise KeyError(actor)


def _herder_settings(config: StandaloneConfig, seed: int) -> HerderSettings:
    settings = HerderSettings.of(config, WORKER_ID, standalone=True)
    return replace(settings, chance=random.Random(seed).random)  # noqa: S311 - pauses, not secrets


def make_plugins(
    registry: Registry | None, config: StandaloneConfig, providers: Providers | None
) -> WorkerPlugins:
    """Return the plugins of a worker, by default the fake connectors and the providers declared in the config."""
    config_providers = providers or open_providers(config.raw, ProviderClasses.load())
    return WorkerPlugins(registry or fake_registry(), config, config_providers)


def create_separate_loggers(now_ms: Callable[[], int]) -> Loggers:
    """Return loggers separate from the process's loggers, so that workers of a test do not affect each other."""
    root = logging.RootLogger(logging.WARNING)
    root.manager = logging.Manager(root)
    return Loggers(root, now_ms)


def _fake_group_offsets(engine: Engine) -> GroupOffsets:
    if isinstance(engine, FakeEngine):
        return FakeGroupOffsets(engine.committed, lambda: engine.running)
    return FakeGroupOffsets({}, frozenset, fault=no_groups)


def fake_registry() -> Registry:
    """Return a registry with the two fake connectors and the String and ByteArray converters."""
    installed = Registry.load()
    return Registry.of(
        {
            FAKE_SOURCE: FakeSourceConnector,
            FAKE_SINK: FakeSinkConnector,
            **{name: installed.converter_class(name) for name in CONVERTERS},
        }
    )
