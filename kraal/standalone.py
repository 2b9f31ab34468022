"""One standalone worker as a process: sockets first, then actors, REST, and Spark in the background.

Ends on SIGTERM or SIGINT: no new requests, tasks stop gracefully and their statuses are written, Spark ends,
exit code 0. Exit codes as Connect's: 1 usage, 2 start-up failed, 3 a connector of the command line failed; ours:
4 an actor died too often.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actors.assembly import Assembly, Parts, assemble
from actors.clock import ThreadClock
from actors.finder import Finder
from actors.herd import HerderSettings
from actors.mailbox import Address, ask
from actors.messages.herder import AwaitLive, CreateConnector, PutConfig, ShutDown, StartupDone
from actors.messages.supervisor import Supervise
from actors.system import ThreadSystem
from kraal.cluster.compaction import needed_config
from kraal.config.files import ConnectorFile, read_connector_file
from kraal.config.standalone import StandaloneConfig, load_worker_properties
from kraal.embedded.jars import ensure
from kraal.errors import KraalError
from kraal.plugins.provided import ProvidedPlugins
from kraal.plugins.registry import Registry
from kraal.plugins.validate import validate_for_rest
from kraal.stores.file_log import FileLog
from kraal.stores.kafka_info import cluster_id
from kraal.stores.memory import MemoryLog
from kraal.stores.offset_file import OffsetFile
from web.app import create_app
from web.server import HttpServer, Listener
from web.settings import Settings

if TYPE_CHECKING:
    from types import FrameType

    from kraal.spark.api import Engine
    from kraal.stores.api import Log

log = logging.getLogger(__name__)

START_FAILED, CONNECTOR_FAILED, GAVE_UP = 2, 3, 4
CREATE_TIMEOUT_S = 90.0
SHUTDOWN_EXTRA_S = 15.0


class StandaloneProcess:
    """Everything one worker process holds, from start to end."""

    def __init__(self, config: StandaloneConfig, files: Mapping[Path, ConnectorFile]) -> None:
        """Bind the sockets and open the stores; `files` will be created, in order.

        Raises KraalError with a sentence for the operator.
        """
        listeners = [Listener(each.host, each.port) for each in config.listeners]
        self._server = HttpServer(listeners)
        self.config = config.bound_to(self._server.bound[0].port)
        self._files = files
        self._exit_code = 0
        # No Event: its lock is not for signal handlers, and a signal just before its wait begins is missed.
        self._ending = False
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        try:
            self._config_log, self._status_log = self._logs()
            self._offsets = OffsetFile(config.offset_file)
        except KraalError:
            self._server.close()
            raise
        self._system = ThreadSystem()
        self._clock = ThreadClock()

    def run(self) -> int:
        """Serve until a signal comes; return the exit code."""
        config = self.config
        registry = Registry.load()
        plugins = ProvidedPlugins(registry, config)
        engine = self._engine(registry)
        assembly = assemble(self._parts(engine, plugins), self._gave_up)
        settings = Settings(
            advertised_url=config.advertised_url,
            topic_tracking=config.topic_tracking,
            topic_reset=config.topic_tracking_reset,
        )
        app = create_app(
            assembly.herder,
            assembly.published,
            registry,
            lambda plugin, raw: validate_for_rest(registry, config, plugin, raw),
            settings,
        )
        self._server.start(app)
        log.info("REST listens at %s", config.advertised_url)
        self._find_kafka(assembly)
        starter = threading.Thread(
            target=self._start_connectors, args=(assembly,), name="starter", daemon=True
        )
        starter.start()
        while not self._ending:
            os.read(self._wake_reader, 64)
        self._shut_down(assembly, engine)
        return self._exit_code

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

    def _logs(self) -> tuple[Log, Log]:
        config = self.config
        if not config.remember_configs:
            return MemoryLog("config"), MemoryLog("status")
        try:
            config.data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise KraalError(f"Cannot make the data directory {config.data_dir}: {exc.strerror}.") from exc
        configs = FileLog(config.data_dir / "config", "config", compaction=needed_config)
        return configs, FileLog(config.data_dir / "status", "status")

    def _engine(self, registry: Registry) -> Engine:
        # Imported late: what it needs takes longer to import than REST may take to answer.
        from kraal.spark.engine import SparkEngine  # noqa: PLC0415 - see above

        scratch = self.config.data_dir / "scratch"
        settings = {"bootstrap.servers": self.config.bootstrap_servers, **self.config.raw}
        return SparkEngine(settings, registry, lambda: ensure("spark"), scratch=str(scratch))

    def _parts(self, engine: Engine, plugins: ProvidedPlugins) -> Parts:
        config = self.config
        return Parts(
            system=self._system,
            clock=self._clock,
            engine=engine,
            plugins=plugins,
            config_log=self._config_log,
            status_log=self._status_log,
            offsets=self._offsets,
            settings=HerderSettings(
                worker_id=config.worker_id,
                standalone=True,
                topic_tracking=config.topic_tracking,
                topic_reset=config.topic_tracking_reset,
                shown_restarting_s=config.graceful_timeout_s + 10,
            ),
            leader_url=config.advertised_url,
            graceful_s=config.graceful_timeout_s,
        )

    def _find_kafka(self, assembly: Assembly) -> None:
        address = Address("finder")
        config = self.config

        def look() -> str:
            return cluster_id(config.bootstrap_servers, {}, timeout_s=5)

        assembly.supervisor.tell(
            Supervise(
                address=address,
                factory=lambda: Finder(address=address, herder=assembly.herder, clock=self._clock, look=look),
                gave_up=lambda error: log.error("the search for Kafka was given up: %r", error),
            )
        )

    def _start_connectors(self, assembly: Assembly) -> None:
        """Make the command line's connectors as their files want them; one after the other."""
        path: object = "the command line"
        try:
            ask(assembly.herder, AwaitLive(), timeout_s=CREATE_TIMEOUT_S)
            for path, file in self._files.items():  # noqa: B007 - the one that fails
                apply_file(assembly, file)
        except KraalError as error:
            _refuse(path, error)
            self.end(CONNECTOR_FAILED)
            return
        assembly.herder.tell(StartupDone())

    def _gave_up(self, name: str, error: BaseException) -> None:
        log.critical("the %s died too often (%r); the worker ends", name, error)
        self.end(GAVE_UP)

    def _shut_down(self, assembly: Assembly, engine: Engine) -> None:
        log.info("stopping")
        timeout_s = self.config.graceful_timeout_s + SHUTDOWN_EXTRA_S
        try:
            ask(assembly.herder, ShutDown(), timeout_s=timeout_s)
        except KraalError as error:
            log.warning("not everything stopped in %g s: %s", timeout_s, error)
        self._server.stop()
        engine.close(10.0)
        left = self._system.close(5.0)
        if left:
            log.warning("these actors did not end: %s", ", ".join(left))
        self._clock.close()
        for store in (self._config_log, self._status_log, self._offsets):
            store.close()
        log.info("stopped")


def apply_file(assembly: Assembly, file: ConnectorFile) -> None:
    """Make the connector as its file wants it: nothing happens when it is so already.

    `initial_state` counts only at the first creation. Raises KraalError.
    """
    entry = assembly.published.latest.config.connectors.get(file.name)
    if entry is None:
        create = CreateConnector(name=file.name, config=file.config, initial_state=file.initial_state)
        ask(assembly.herder, create, timeout_s=CREATE_TIMEOUT_S)
        log.info("created connector %s", file.name)
    elif dict(entry.config) != dict(file.config):
        ask(assembly.herder, PutConfig(name=file.name, config=file.config), timeout_s=CREATE_TIMEOUT_S)
        log.info("connector %s has another config now", file.name)
    else:
        log.info("connector %s is as its file wants it", file.name)


def run_standalone(worker_file: Path, connector_files: Sequence[Path]) -> int:
    """Run a standalone worker until it is told to end; return the exit code. Raises KraalError at start."""
    config = load_worker_properties(worker_file, resolve=Registry.load().resolve)
    files: dict[Path, ConnectorFile] = {}
    for path in connector_files:
        try:
            files[path] = read_connector_file(path)
        except KraalError as error:
            _refuse(path, error)
            return CONNECTOR_FAILED
    for warning in config.warnings:
        log.warning("%s", warning)
    process = StandaloneProcess(config, files)
    process.end_on_signals()
    return process.run()


def _refuse(path: object, error: KraalError) -> None:
    log.error("the connector of %s could not be created: %s", path, error)


def _ending(end: Callable[[], None]) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        end()

    return handle
