"""Process of a worker in any mode: opens sockets first, then starts actors, REST, and Spark in the background.

On SIGTERM or SIGINT, the process rejects new requests, stops tasks gracefully, writes their statuses, stops Spark and
exits with code 0. Exit codes 1 (usage), 2 (startup failed) and 3 (a connector of the command line failed) are the same
as in Connect. Exit code 4 means that an actor exceeded its restart budget; 5 means that the shutdown hung, or that a
second signal arrived during the shutdown.
"""

from __future__ import annotations

import logging
import ssl
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from actors.assembly import Assembly, assemble
from actors.herding.state import HerderSettings
from actors.membership.cluster_id import ClusterIdFinder
from actors.messages.herder import ShutDown
from actors.messages.ledger import CloseLedger
from actors.messages.supervisor import Supervise
from actors.offsets.store import MIN_WRITE_INTERVAL_S
from actors.parts import Parts
from actors.runtime.clock import ThreadClock
from actors.runtime.mailbox import Address, ask
from actors.runtime.system import ThreadSystem
from kraal.config.clients.librdkafka import librdkafka_options
from kraal.config.connector.converters import DEFAULTS
from kraal.config.worker.config import WorkerConfig
from kraal.config.worker.keys import allowed_origins
from kraal.config.worker.response_headers import sets_date
from kraal.config.worker.rest_tls import ADMIN_LISTENERS, LISTENERS, listener_context, peer_context
from kraal.connectors.debezium.proofs import KEYED_SOURCES, SINK_TARGETS
from kraal.core.errors import KraalError
from kraal.core.log_levels import Loggers
from kraal.core.logging import context_filter
from kraal.java_plugins.engine import JavaPluginEngine
from kraal.java_plugins.services import open_services
from kraal.kafka.cluster_info import list_topics, read_cluster_id
from kraal.metrics.progress import ProgressReports
from kraal.metrics.series import Sampler
from kraal.metrics.stalls.detection import StallDetection
from kraal.metrics.stalls.watch import StallWatch
from kraal.metrics.task import TaskMeter
from kraal.metrics.windows import Windows
from kraal.plugins.config_providers import Providers
from kraal.plugins.registry import Registry
from kraal.plugins.worker_plugins import WorkerPlugins
from kraal.worker.control_port import ControlPort
from kraal.worker.dead_letters import dead_letter_clients
from kraal.worker.metrics_endpoint import make_identity, make_scrape
from kraal.worker.proof_schedule import ProofSchedule
from kraal.worker.proofs import Proofs, make_proofs
from kraal.worker.resources import freeze_live_objects, raise_open_files_limit, reduce_garbage_collections
from kraal.worker.spark import spark_engine
from kraal.worker.traces import worker_traces
from kraal.worker.watchdog import Watchdog
from web.app import create_apps
from web.middleware.admission import Admission, Limits
from web.middleware.cors import CorsRules
from web.routes.dead_letters import OpenKafka
from web.server import HttpServer, Listener, Site
from web.settings import Settings

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from kraal.config.worker.listeners import Listener as ConfiguredListener
    from kraal.engine.api import Engine
    from kraal.java_plugins.hosts import PluginHosts
    from kraal.java_plugins.metrics import JavaMetrics
    from kraal.metrics.scrape import Scrape
    from kraal.metrics.tracing import Traces
    from kraal.stores.api import GroupOffsets, Log, OffsetStore
    from web.streams import Broadcaster


log = logging.getLogger(__name__)

START_FAILED, CONNECTOR_FAILED, ACTOR_FAILED = 2, 3, 4
SHUTDOWN_GRACE_S = 15.0
"""Time in addition to `task.shutdown.graceful.timeout.ms` to cancel remaining tasks and write statuses."""
CLOSE_TIMEOUT_S = 25.0
"""Additional time to leave the group and to stop REST, Spark, actors and stores."""
LEDGER_TIMEOUT_S = 5.0
"""Maximum time to write the ledger."""
FORCED_EXIT_DELAY_S = 15.0
"""Additional time after which the process is killed because a library call hangs."""

SWITCH_INTERVAL_S = 0.001
"""Switch interval of the interpreter; short because a GET waits for several threads in turn."""

C = TypeVar("C", bound=WorkerConfig)


class Process(ABC, Generic[C]):
    """Resources and lifecycle of a worker process; subclasses implement the modes and open the stores."""

    _config_log: Log
    _status_log: Log
    _offsets: OffsetStore

    def __init__(self, config: C, plugin_jars: Sequence[Path] = ()) -> None:
        """Bind the sockets. `plugin_jars` are passed to Spark. Raises KraalError with a message for the operator."""
        self._plugin_jars = tuple(plugin_jars)
        self._providers = Providers()
        self._server = HttpServer(
            [
                *(_to_listener(listener) for listener in config.listeners),
                *(_to_listener(listener, admin=True) for listener in config.admin_listeners or ()),
            ],
            date_header=not sets_date(config.response_headers),
        )
        ports = [listener.port for listener in self._server.bound_listeners if not listener.admin]
        self.config: C = config.with_ports(*ports)
        context_filter.worker = self.config.worker_id
        self._peer_context: ssl.SSLContext | None = None
        self._exit_code = 0
        self._end_requested = threading.Event()
        """Set when the process should exit."""
        self._ended = threading.Event()
        """Set when the shutdown begins, which ends other waits."""
        self._watchdog: Watchdog | None = None
        self._system = ThreadSystem()
        self._clock = ThreadClock()
        self._loggers = Loggers()
        self._control_port: ControlPort | None = None
        self._traces: Traces | None = None
        self._proofs: Proofs | None = None
        self._ledger_log: Log | None = None

    def _parts(self, engine: Engine, plugins: WorkerPlugins) -> Parts:
        """Return the parts from which the actors are assembled; subclasses add the parts of their mode."""
        config = self.config
        return Parts(
            system=self._system,
            clock=self._clock,
            engine=engine,
            plugins=plugins,
            config_log=self._config_log,
            status_log=self._status_log,
            offsets=self._offsets,
            group_offsets=self._group_offsets,
            settings=self._herder_settings(),
            leader_url=config.advertised_url,
            graceful_s=config.graceful_timeout_s,
            offset_write_interval_s=MIN_WRITE_INTERVAL_S,
            windows=Windows(config.metrics_window_s, config.metrics_samples),
            meter=TaskMeter if self._traces is None else self._traces.meter,
            stall_timeout_s=config.stall_timeout_s,
            loggers=self._loggers,
            history_max_bytes=config.history_max_bytes,
            ledger_log=self._ledger_log,
        )

    @abstractmethod
    def _scratch(self) -> Path:
        """Return the directory for temporary data."""

    def _settings(self) -> Settings:
        """Return the settings of the REST API; subclasses add the settings of their mode."""
        return rest_settings(self.config, self._peer_tls)

    def _peer_tls(self) -> ssl.SSLContext:
        """Return the TLS context for requests to other workers. Thread-safe. Raises ConfigInvalid."""
        if self._peer_context is None:
            self._peer_context = peer_context(self.config.raw, self._scratch())
        return self._peer_context

    def _before_actors(self) -> None:
        """Start preparations that the actors wait for, without blocking."""

    def _client_id(self) -> str:
        """Return the worker's client id in metrics."""
        return self.config.worker_id

    def _client_options(self) -> dict[str, str]:
        """Return the librdkafka options of the worker's own clients."""
        return librdkafka_options(self.config.own_client)

    def _on_started(self, assembly: Assembly) -> None:
        """Start further work once REST listens and the actors run, without blocking."""

    def _on_stopped(self, assembly: Assembly) -> None:
        """Clean up after all work has stopped and statuses are written, while REST still serves requests."""

    @abstractmethod
    def _close_stores(self) -> None:
        """Close the stores, which are no longer in use."""

    def run(self) -> int:
        """Serve until a signal arrives; return the exit code."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        reduce_garbage_collections()
        raise_open_files_limit()
        self._traces = worker_traces(self.config)
        tls, admin_tls = self._tls(LISTENERS), self._tls(ADMIN_LISTENERS)
        registry, java = self._with_java_plugins(Registry.load())
        self._providers, policy = open_services(self.config.raw, java, self._end_requested.is_set)
        defaults = replace(self.config, override_policy=policy or self.config.override_policy)
        plugins = WorkerPlugins(registry, defaults, self._providers)
        engine = self._engine(registry, at_once=java is None)
        if java is not None:
            self._loggers.listen(java.set_log_level)
            engine = JavaPluginEngine(engine, java, registry, self.config, KEYED_SOURCES, SINK_TARGETS)
        java_metrics = engine.metrics if isinstance(engine, JavaPluginEngine) else None
        engine.listen(freeze_live_objects)
        settings = self._settings()
        admission = Admission(settings.limits)
        self._before_actors()
        assembly = assemble(self._parts(engine, plugins), self._on_actor_failed)
        context_filter.generation = lambda: assembly.published.latest.generation
        self._proofs = make_proofs(engine, plugins, self._group_offsets, assembly, self._clock.wall_ms)
        assembly.journal.follow_log()
        stall_detection = StallDetection(
            assembly.metrics, self.config.auto_restart, engine.pools, engine.down
        )
        apps = create_apps(
            assembly.herder,
            assembly.published,
            registry,
            plugins.check_for_rest,
            settings,
            scrape=self._scrape(assembly, registry, settings, admission, engine, java_metrics),
            gather=None if java_metrics is None else java_metrics.gather,
            loggers=self._loggers,
            stall_detection=stall_detection,
            progress=ProgressReports(assembly.metrics, assembly.series, java_metrics),
            admission=admission,
            dead_letters=self._dead_letters(),
            proofs=self._proofs,
            ledger=assembly.ledger,
            journal=assembly.journal,
        )
        _notify_streams(apps.streams, assembly, self._proofs)
        self._server.start(apps.main, tls=tls, admin=Site(apps.admin, admin_tls))
        log.info("REST listens at %s", self.config.advertised_url)
        log.info(self.config.dashboard)
        self._start_cluster_id_finder(assembly)
        self._open_control(assembly)
        self._on_started(assembly)
        stall_watch = StallWatch(
            stall_detection, assembly.published, self._topic_names, lambda: apps.streams.notify("states")
        )
        with Sampler(assembly.series), stall_watch, ProofSchedule(self._proofs, assembly):
            self._end_requested.wait()
        self._shut_down(assembly, engine, apps.streams)
        return self._exit_code

    def _open_control(self, assembly: Assembly) -> None:
        """Open the test control port if configured; exit if it is in use."""
        port = self.config.test_control_port
        if port is None:
            return
        try:
            self._control_port = ControlPort(port, assembly.supervisor)
        except KraalError as error:
            log.critical("%s", error)
            self.end(START_FAILED)

    def _tls(self, prefix: str) -> ssl.SSLContext | None:
        """Return the TLS context of listeners; None without HTTPS listeners. Raises ConfigInvalid."""
        is_admin = prefix == ADMIN_LISTENERS
        if not any(
            listener.https and listener.admin == is_admin for listener in self._server.bound_listeners
        ):
            return None
        return listener_context(self.config.raw, prefix, self._scratch())

    def end(self, exit_code: int = 0) -> None:
        """Request the shutdown of the process. Thread-safe, but not for signal handlers."""
        if exit_code and not self._exit_code:
            self._exit_code = exit_code
        if self._watchdog is not None:
            self._watchdog.arm()
        self._end_requested.set()

    def end_on_signals(self) -> None:
        """Shut down gracefully on SIGTERM and SIGINT, and kill the process on timeout. Main thread only."""
        timeout_s = self.config.graceful_timeout_s + SHUTDOWN_GRACE_S + CLOSE_TIMEOUT_S + FORCED_EXIT_DELAY_S
        self._watchdog = Watchdog(timeout_s)
        self._watchdog.handle_signals(self.end)

    def _group_offsets(self) -> GroupOffsets:
        """Create a client for one request that reads or changes the offsets of a sink. Thread-safe."""
        # Imported late, because importing kafka-python takes a tenth of the startup time of REST.
        from kraal.kafka.sink_offset_requests import KafkaGroupOffsets  # noqa: PLC0415

        return KafkaGroupOffsets(self._worker_settings(), scratch=self._scratch())

    def _worker_settings(self) -> dict[str, str]:
        return {"bootstrap.servers": self.config.bootstrap_servers, **self.config.raw}

    def _herder_settings(self) -> HerderSettings:
        """Return the settings of the herder; subclasses replace the settings of their mode."""
        return HerderSettings.of(self.config, self.config.worker_id, standalone=False)

    def _scrape(
        self,
        assembly: Assembly,
        registry: Registry,
        settings: Settings,
        admission: Admission,
        engine: Engine,
        java: JavaMetrics | None,
    ) -> Scrape | None:
        """Return the scrape of `GET /metrics`; None if the endpoint is disabled."""
        if not self.config.metrics_endpoint:
            return None
        identity = make_identity(self._client_id(), settings, self._clock.wall_ms())
        mailboxes = self._system.mailboxes
        return make_scrape(assembly, registry, identity, admission, engine, java, self._proofs, mailboxes)

    def _with_java_plugins(self, registry: Registry) -> tuple[Registry, PluginHosts | None]:
        """Return the registry with the plugins of `plugin.path`, and the hosts of their processes, if any."""
        return registry, None

    def _engine(self, registry: Registry, *, at_once: bool) -> Engine:
        """Create the engine. With `at_once`, Spark starts immediately, not only when a connector first needs it."""
        return spark_engine(
            self._worker_settings(), registry, self._plugin_jars, self._scratch(), at_once=at_once
        )

    def _dead_letters(self) -> OpenKafka | None:
        """Return the function that connects to dead letter topics; None if the endpoint is disabled."""
        return dead_letter_clients(self._worker_settings()) if self.config.dead_letters_endpoint else None

    def _start_cluster_id_finder(self, assembly: Assembly) -> None:
        address = Address("finder")
        assembly.supervisor.tell(
            Supervise(
                address=address,
                factory=lambda: ClusterIdFinder(
                    address=address, herder=assembly.herder, clock=self._clock, fetch_id=self._cluster_id
                ),
                on_budget_exhausted=lambda error: log.error(
                    "Failed to determine the ID of the Kafka cluster because of an unexpected error: %r",
                    error,
                ),
            )
        )

    def _cluster_id(self) -> str:
        return read_cluster_id(self.config.bootstrap_servers, self._client_options(), timeout_s=5)

    def _topic_names(self) -> frozenset[str]:
        return list_topics(self.config.bootstrap_servers, self._client_options(), timeout_s=5)

    def _on_actor_failed(self, name: str, error: BaseException) -> None:
        log.critical("Shutting down because the %s exhausted its restart budget: %r", name, error)
        self.end(ACTOR_FAILED)

    def _shut_down(self, assembly: Assembly, engine: Engine, streams: Broadcaster) -> None:
        self._ended.set()
        timeout_s = self.config.graceful_timeout_s + SHUTDOWN_GRACE_S
        log.info(
            "Stopping the worker; timeout for tasks: %g s, for the whole shutdown: %g s",
            timeout_s,
            timeout_s + CLOSE_TIMEOUT_S,
        )
        try:
            ask(assembly.herder, ShutDown(), timeout_s=timeout_s)
        except KraalError as error:
            log.warning("Failed to stop all work within %g s: %s", timeout_s, error)
        self._on_stopped(assembly)
        self._write_ledger(assembly)
        if self._control_port is not None:
            self._control_port.close()
        if self._proofs is not None:
            self._proofs.close()
        streams.close()
        self._server.stop()
        engine.close(10.0)
        running_actors = self._system.close(5.0)
        if running_actors:
            log.warning("Failed to stop these actors: %s", ", ".join(running_actors))
        self._clock.close()
        self._providers.close()
        self._close_stores()
        if self._ledger_log is not None:
            self._ledger_log.close()
        if self._traces is not None:
            self._traces.close()
        log.info("Stopped the worker")

    def _write_ledger(self, assembly: Assembly) -> None:
        """Write the batches of the last second."""
        if assembly.ledger is not None:
            try:
                ask(assembly.ledger, CloseLedger(), timeout_s=LEDGER_TIMEOUT_S)
            except KraalError as error:
                log.warning("Failed to write the ledger: %s", error)


def _notify_streams(streams: Broadcaster, assembly: Assembly, proofs: Proofs | None) -> None:
    """Notify the open streams of changes in the journal, in recent metrics and in proofs."""
    assembly.journal.listen(streams.notify)
    assembly.series.listen(lambda names: streams.notify_all("numbers", names))
    if proofs is not None:
        proofs.on_change = lambda name: streams.notify("numbers", name)


def _to_listener(listener: ConfiguredListener, *, admin: bool = False) -> Listener:
    return Listener(listener.host, listener.port, https=listener.scheme == "https", admin=admin)


def rest_settings(config: WorkerConfig, peer_tls: Callable[[], ssl.SSLContext]) -> Settings:
    """Return the settings that all modes share; `peer_tls` creates the TLS context for requests to other workers."""
    return Settings(
        advertised_url=config.advertised_url,
        basic_auth=config.basic_auth,
        has_separate_admin=config.admin_listeners is not None,
        ui=config.ui,
        ui_read_only=config.ui_read_only,
        cors=CorsRules.from_config(allowed_origins(config.cors_origin), config.cors_methods),
        response_headers=config.response_headers,
        peer_tls=peer_tls,
        converters={role: config.raw[role] for role in DEFAULTS if role in config.raw},
        topic_tracking=config.topic_tracking,
        topic_reset=config.topic_tracking_reset,
        limits=Limits(waiting=config.waiting_max, body_bytes=config.bodies_max_bytes),
    )
