"""A standalone worker with real actors, threads and sockets, and the fake engine: REST without Spark and Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.assembly import Assembly, assemble
from actors.herding.state import HerderSettings
from actors.messages.herder import ShutDown
from actors.parts import Parts
from actors.runtime.clock import ThreadClock
from actors.runtime.mailbox import ask
from actors.runtime.system import ThreadSystem
from kraal.config.connector.auto_restart import AutoRestart
from kraal.config.worker.standalone import parse_standalone
from kraal.core.ids import WorkerId
from kraal.core.log_levels import Loggers
from kraal.metrics.progress import ProgressReports
from kraal.metrics.stalls.detection import StallDetection
from kraal.plugins.registry import Registry
from kraal.plugins.worker_plugins import WorkerPlugins
from kraal.stores.api import GroupOffsets
from kraal.stores.memory import MemoryLog, MemoryOffsets
from kraal.testing._simulation.engine import FakeEngine, Outside
from kraal.testing._simulation.group_offsets import FakeGroupOffsets
from kraal.testing._simulation.metrics import create_scrape
from kraal.testing._simulation.worker import DEFAULTS, create_separate_loggers, fake_registry
from tests.fakes.kafka.dead_letters import MemoryKafka
from web.app import create_apps
from web.middleware.admission import Admission, Limits
from web.server import HttpServer, Listener
from web.settings import Settings

if TYPE_CHECKING:
    from starlette.applications import Starlette


@dataclass(frozen=True)
class RestWorker:
    """A worker's URL, the external systems of its connectors, and its actors."""

    url: str
    outside: Outside
    assembly: Assembly


@contextmanager
def rest_worker(
    registry: Registry | None = None,
    group_offsets: GroupOffsets | None = None,
    *,
    distributed: bool = False,
    config_log: MemoryLog | None = None,
    limits: Limits | None = None,
) -> Iterator[RestWorker]:
    """Run a worker. The records of its tasks must be supplied with `outside.supply` before the tasks start.

    Args:
        registry: the plugins; None for the fake plugins.
        group_offsets: the offsets of sinks; None for the offsets that the fake engine has committed.
        distributed: whether the worker responds like the only worker of a cluster.
        config_log: the initial content of the config topic; None for an empty topic.
        limits: the limits of the REST API; None for the defaults.
    """
    server = HttpServer([Listener("127.0.0.1", 0)], graceful_s=1)
    authority = f"127.0.0.1:{server.bound_listeners[0].port}"
    url = f"http://{authority}/"
    outside = Outside()
    engine = FakeEngine(outside=outside)
    groups = group_offsets or FakeGroupOffsets(outside.committed, lambda: engine.running)
    system, clock = ThreadSystem(), ThreadClock()
    loggers = create_separate_loggers(clock.wall_ms)
    config, registry = parse_standalone(DEFAULTS), registry or fake_registry()
    plugins = WorkerPlugins(registry, config)
    dead_actors: list[str] = []
    assembly = assemble(
        Parts(
            system=system,
            clock=clock,
            engine=engine,
            plugins=plugins,
            config_log=config_log or MemoryLog("config"),
            status_log=MemoryLog("status"),
            offsets=MemoryOffsets(),
            group_offsets=lambda: groups,
            settings=HerderSettings(worker_id=WorkerId(authority), standalone=not distributed),
            leader_url=url,
            loggers=loggers,
        ),
        lambda name, _: dead_actors.append(name),
    )
    settings = Settings(advertised_url=url, distributed=distributed, limits=limits or Limits())
    app = _app(assembly, plugins, registry, settings, system, loggers)
    server.start(app)
    try:
        yield RestWorker(url, outside, assembly)
        ask(assembly.herder, ShutDown(), timeout_s=10)
    finally:
        server.stop()
        system.close(5)
        clock.close()
    assert dead_actors == []


def _app(
    assembly: Assembly,
    plugins: WorkerPlugins,
    registry: Registry,
    settings: Settings,
    system: ThreadSystem,
    loggers: Loggers,
) -> Starlette:
    admission = Admission(settings.limits)
    name = settings.advertised_url.removeprefix("http://").removesuffix("/")
    return create_apps(
        assembly.herder,
        assembly.published,
        registry,
        plugins.check_for_rest,
        settings,
        scrape=create_scrape(assembly, name, lambda: admission.load_metrics(system.mailboxes())),
        stall_detection=StallDetection(assembly.metrics, AutoRestart()),
        progress=ProgressReports(assembly.metrics, assembly.series),
        loggers=loggers,
        admission=admission,
        dead_letters=MemoryKafka(),
    ).main
