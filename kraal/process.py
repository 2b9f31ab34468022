"""A worker as a process, whatever its mode: sockets first, then actors, REST, and Spark in the background.

Ends on SIGTERM or SIGINT: no new requests, tasks stop gracefully and their statuses are written, Spark ends,
exit code 0. Exit codes as Connect's: 1 usage, 2 start-up failed, 3 a connector of the command line failed; ours:
4 an actor died too often.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from actors.assembly import Assembly, Parts, assemble
from actors.clock import ThreadClock
from actors.finder import Finder
from actors.herd import HerderSettings
from actors.mailbox import Address, ask
from actors.messages.herder import ShutDown
from actors.messages.supervisor import Supervise
from actors.system import ThreadSystem
from kraal.config.kafka.librdkafka import librdkafka_options
from kraal.config.object_stores import offer
from kraal.config.response_headers import sets_date
from kraal.config.rest_tls import ADMIN_LISTENERS, LISTENERS, listener_context, peer_context
from kraal.config.worker import WorkerConfig
from kraal.config.worker_keys import allowed_origins
from kraal.control import ControlPort
from kraal.embedded.class_archive import known_archive
from kraal.embedded.jars import ensure
from kraal.errors import KraalError
from kraal.loggers import Loggers
from kraal.logs import who
from kraal.metrics.families import Identity
from kraal.metrics.oversight import Oversight
from kraal.metrics.scrape import Scrape
from kraal.metrics.windows import Windows
from kraal.plugins.provided import ProvidedPlugins
from kraal.plugins.providers import ProviderClasses, open_providers
from kraal.plugins.registry import Registry
from kraal.spark.api import EngineReady
from kraal.stores.kafka_info import cluster_id
from web.admission import Admission, Limits
from web.app import create_apps
from web.cors import CorsRules
from web.server import HttpServer, Listener, Site
from web.settings import Settings

if TYPE_CHECKING:
    import ssl
    from pathlib import Path
    from types import FrameType

    from kraal.config.listeners import Listener as ConfiguredListener
    from kraal.spark.api import Engine, EngineState
    from kraal.stores.api import GroupOffsets

log = logging.getLogger(__name__)

START_FAILED, CONNECTOR_FAILED, GAVE_UP = 2, 3, 4
SHUTDOWN_EXTRA_S = 15.0
"""Besides `task.shutdown.graceful.timeout.ms`: to cancel what has not ended, and to write the statuses."""
CLOSING_S = 25.0
"""For what comes after: leaving the group, REST, Spark, actors, stores."""

TURN_S = 0.001
"""How long a thread may keep the interpreter from others: a GET waits for several, one after another."""

MOST_FILES = 65_536
"""Enough for many thousands of connections."""

C = TypeVar("C", bound=WorkerConfig)


class Process(ABC, Generic[C]):
    """Everything one worker process holds, from start to end; modes fill in what differs."""

    def __init__(self, config: C, plugin_jars: Sequence[Path] = ()) -> None:
        """Configure the config providers and bind the sockets; Spark gets `plugin_jars` beside its own.

        Raises KraalError with a sentence for the operator.
        """
        self._plugin_jars = tuple(plugin_jars)
        self._providers = open_providers(config.raw, ProviderClasses.load())
        self._server = HttpServer(
            [
                *(_listener(each) for each in config.listeners),
                *(_listener(each, admin=True) for each in config.admin_listeners or ()),
            ],
            date_header=not sets_date(config.response_headers),
        )
        ports = [each.port for each in self._server.bound if not each.admin]
        self.config: C = config.bound_to(*ports)
        who.worker = self.config.worker_id
        self._peer_context: ssl.SSLContext | None = None
        self._exit_code = 0
        # No Event: its lock is not for signal handlers, and a signal just before its wait begins is missed.
        self._ending = False
        self._ended = threading.Event()
        """The process shuts down: whoever waits for something else gives up."""
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        self._system = ThreadSystem()
        self._clock = ThreadClock()
        self._loggers = Loggers()
        self._control: ControlPort | None = None

    @abstractmethod
    def _parts(self, engine: Engine, plugins: ProvidedPlugins) -> Parts:
        """Return what the actors are made of."""

    @abstractmethod
    def _scratch(self) -> Path:
        """Return the directory for what may be lost."""

    def _settings(self) -> Settings:
        """Return what the REST API is to know; a mode adds what is its own."""
        config = self.config
        return Settings(
            advertised_url=config.advertised_url,
            basic_auth=config.basic_auth,
            admin_apart=config.admin_listeners is not None,
            cors=CorsRules.of(allowed_origins(config.cors_origin), config.cors_methods),
            response_headers=config.response_headers,
            peer_tls=self._peer_tls,
            topic_tracking=config.topic_tracking,
            topic_reset=config.topic_tracking_reset,
            limits=Limits(waiting=config.waiting_max, body_bytes=config.bodies_max_bytes),
        )

    def _peer_tls(self) -> ssl.SSLContext:
        """Return the TLS context for requests to other workers; any thread. Raises ConfigInvalid."""
        if self._peer_context is None:
            self._peer_context = peer_context(self.config.raw, self._scratch())
        return self._peer_context

    def _before_actors(self) -> None:
        """Do what the actors will wait for, without waiting for it."""

    def _client_id(self) -> str:
        """Return what the worker calls itself in metrics."""
        return self.config.worker_id

    def _client_options(self) -> dict[str, str]:
        """Return librdkafka's options for the worker's own clients."""
        return librdkafka_options(self.config.own_client)

    def _started(self, assembly: Assembly) -> None:
        """REST listens and the actors run: do what comes next, without waiting for it."""

    def _stopped(self, assembly: Assembly) -> None:
        """All work has stopped and its statuses are written; REST still answers."""

    @abstractmethod
    def _close_stores(self) -> None:
        """Nobody uses the stores any more."""

    def run(self) -> int:
        """Serve until a signal comes; return the exit code."""
        sys.setswitchinterval(TURN_S)
        open_as_many_as_allowed()
        tls, admin_tls = self._tls(LISTENERS), self._tls(ADMIN_LISTENERS)
        registry = Registry.load()
        plugins = ProvidedPlugins(registry, self.config, self._providers)
        engine = self._engine(registry)
        engine.listen(keep_what_lives)
        settings = self._settings()
        admission = Admission(settings.limits)
        self._before_actors()
        assembly = assemble(self._parts(engine, plugins), self._gave_up)
        who.generation = lambda: assembly.published.latest.generation
        apps = create_apps(
            assembly.herder,
            assembly.published,
            registry,
            plugins.check_for_rest,
            settings,
            scrape=self._scrape(assembly, registry, settings, admission),
            loggers=self._loggers,
            oversight=Oversight(assembly.board, self.config.auto_restart),
            admission=admission,
        )
        self._server.start(apps.main, tls=tls, admin=Site(apps.admin, admin_tls))
        log.info("REST listens at %s", self.config.advertised_url)
        self._find_kafka(assembly)
        self._open_control(assembly)
        self._started(assembly)
        while not self._ending:
            os.read(self._wake_reader, 64)
        self._shut_down(assembly, engine)
        return self._exit_code

    def _open_control(self, assembly: Assembly) -> None:
        """Let tests kill actors, if the worker's file says so; a port that is taken ends the process."""
        port = self.config.test_control_port
        if port is None:
            return
        try:
            self._control = ControlPort(port, assembly.supervisor)
        except KraalError as error:
            log.critical("%s", error)
            self.end(START_FAILED)

    def _tls(self, prefix: str) -> ssl.SSLContext | None:
        """Return the TLS context of listeners; None when none of them speaks HTTPS. Raises ConfigInvalid."""
        is_admin = prefix == ADMIN_LISTENERS
        if not any(each.https and each.admin == is_admin for each in self._server.bound):
            return None
        return listener_context(self.config.raw, prefix, self._scratch())

    def end(self, exit_code: int = 0) -> None:
        """Ask the process to end; any thread, and signal handlers."""
        if exit_code and not self._exit_code:
            self._exit_code = exit_code
        self._ending = True
        with contextlib.suppress(BlockingIOError):  # full: the reader is awake anyway
            os.write(self._wake_writer, b"e")

    def end_on_signals(self) -> None:
        """End gracefully on SIGTERM and SIGINT; in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _ending(self.end))
        # The interpreter writes there at once; a handler runs only when the main thread gets to it.
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)

    def _group_offsets(self) -> GroupOffsets:
        """Return the offsets of sinks."""
        # Imported late, as below.
        from kraal.stores.kafka_group_offsets import KafkaGroupOffsets  # noqa: PLC0415

        return KafkaGroupOffsets(self._worker_settings(), scratch=self._scratch())

    def _worker_settings(self) -> dict[str, str]:
        return {"bootstrap.servers": self.config.bootstrap_servers, **self.config.raw}

    def _herder_settings(self) -> HerderSettings:
        """Return what both modes' herders are told; a mode replaces what is its own."""
        config = self.config
        return HerderSettings(
            worker_id=config.worker_id,
            standalone=False,
            topic_tracking=config.topic_tracking,
            topic_reset=config.topic_tracking_reset,
            shown_restarting_s=config.graceful_timeout_s + 10,
            auto_restart=config.auto_restart,
        )

    def _scrape(
        self, assembly: Assembly, registry: Registry, settings: Settings, admission: Admission
    ) -> Scrape | None:
        """Return what makes `GET /metrics`; None when it is switched off."""
        if not self.config.metrics_endpoint:
            return None
        identity = Identity(
            client_id=self._client_id(),
            version=settings.connect_version,
            commit=settings.commit,
            started_ms=self._clock.wall_ms(),
        )
        return Scrape(
            assembly.published,
            assembly.board,
            identity,
            lambda name: registry.resolve(name) or name,
            lambda: admission.numbers(self._system.mailboxes()),
        )

    def _windows(self) -> Windows:
        """Return how long metrics remember."""
        return Windows(self.config.metrics_window_s, self.config.metrics_samples)

    def _engine(self, registry: Registry) -> Engine:
        # Imported late: what it needs takes longer to import than REST may take to answer.
        from kraal.plugins.chain import make_chain  # noqa: PLC0415 - as above
        from kraal.spark.engine import SparkEngine  # noqa: PLC0415 - see above
        from kraal.stores.kafka_leave import leave_group  # noqa: PLC0415

        settings = self._worker_settings()
        given = (settings.get(key, "") for key in ("spark.jars", "spark.jars.packages"))
        offer([*map(str, self._plugin_jars), *(each.strip() for text in given for each in text.split(","))])
        scratch = self._scratch()
        leave = partial(leave_group, scratch=scratch)
        return SparkEngine(
            settings,
            registry,
            lambda: [*ensure("spark"), *self._plugin_jars],
            chains=partial(make_chain, registry),
            leave=leave,
            scratch=str(scratch),
            archive=known_archive(),
        )

    def _find_kafka(self, assembly: Assembly) -> None:
        address = Address("finder")
        assembly.supervisor.tell(
            Supervise(
                address=address,
                factory=lambda: Finder(
                    address=address, herder=assembly.herder, clock=self._clock, look=self._cluster_id
                ),
                gave_up=lambda error: log.error("the search for Kafka was given up: %r", error),
            )
        )

    def _cluster_id(self) -> str:
        return cluster_id(self.config.bootstrap_servers, self._client_options(), timeout_s=5)

    def _gave_up(self, name: str, error: BaseException) -> None:
        log.critical("the %s died too often (%r); the worker ends", name, error)
        self.end(GAVE_UP)

    def _shut_down(self, assembly: Assembly, engine: Engine) -> None:
        self._ended.set()
        timeout_s = self.config.graceful_timeout_s + SHUTDOWN_EXTRA_S
        log.info("stopping: tasks have %g s to end, and all of it %g s", timeout_s, timeout_s + CLOSING_S)
        try:
            ask(assembly.herder, ShutDown(), timeout_s=timeout_s)
        except KraalError as error:
            log.warning("not everything stopped in %g s: %s", timeout_s, error)
        self._stopped(assembly)
        if self._control is not None:
            self._control.close()
        self._server.stop()
        engine.close(10.0)
        left = self._system.close(5.0)
        if left:
            log.warning("these actors did not end: %s", ", ".join(left))
        self._clock.close()
        self._providers.close()
        self._close_stores()
        log.info("stopped")


def open_as_many_as_allowed() -> None:
    """Raise the limit of open files towards what the process may have, as a JVM does: connections of clients count."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if most == resource.RLIM_INFINITY else min(MOST_FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def keep_what_lives(state: EngineState) -> None:
    """When Spark is up for the first time: have the garbage collector pass over all that there is by now.

    Nearly all of it are modules, which live as long as the process. To look through them stops all threads for 50 ms,
    and connectors that come and go are reason enough to look every few seconds.
    """
    if isinstance(state, EngineReady) and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()


def _listener(configured: ConfiguredListener, *, admin: bool = False) -> Listener:
    return Listener(configured.host, configured.port, https=configured.scheme == "https", admin=admin)


def _ending(end: Callable[[], None]) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        end()

    return handle
