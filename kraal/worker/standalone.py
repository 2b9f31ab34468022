"""Process of a standalone worker, whose connectors are listed on the command line.

Offsets are stored in a file, and configs and statuses in files or, if they are not remembered, in memory.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from actors.assembly import Assembly
from actors.messages.herder import CreateConnector, PutConfig, StartupDone, WaitUntilLive
from actors.parts import Parts
from actors.runtime.mailbox import ask
from kraal.cluster.state.compaction import needed_config
from kraal.config.connector.files import ConnectorFile, read_connector_file
from kraal.config.worker.standalone import OFFSET_FILE, StandaloneConfig, load_standalone
from kraal.core.errors import ActorDied, KraalError, TimedOut
from kraal.core.private_files import find_readable, make_directory
from kraal.java_plugins.parts import start_java_plugins
from kraal.java_plugins.services import resolve_worker_config
from kraal.journal.authors import ConfigWritten
from kraal.plugin_lock.start import load_worker_plugins
from kraal.plugins.registry import Registry
from kraal.stores.file_log import FileLog
from kraal.stores.memory import MemoryLog
from kraal.stores.offset_file import OffsetFile
from kraal.stores.reopened_log import ReopenedLog
from kraal.worker.process import CONNECTOR_FAILED, Process

if TYPE_CHECKING:
    from kraal.engine.api import Engine
    from kraal.java_plugins.hosts import PluginHosts
    from kraal.plugins.worker_plugins import WorkerPlugins
    from kraal.stores.api import Log

log = logging.getLogger(__name__)

CREATE_TIMEOUT_S = 90.0
HERDER_RETRY_INTERVAL_S = 0.1
MAX_LEDGER_BYTES = 1 << 20
"""Number of bytes after which the file of the ledger is compacted."""


class StandaloneProcess(Process[StandaloneConfig]):
    """The process of a standalone worker."""

    def __init__(
        self,
        config: StandaloneConfig,
        files: Mapping[Path, ConnectorFile],
        plugin_jars: Sequence[Path] = (),
    ) -> None:
        """Bind the sockets and open the stores; the connectors of `files` are created later, in order.

        Raises KraalError with a message for the operator.
        """
        super().__init__(config, plugin_jars)
        self._files = files
        try:
            self._config_log, self._status_log = self._logs()
            self._offsets = OffsetFile(config.offset_file)
            self._ledger_log = _ledger_log(config)
        except KraalError:
            self._server.close()
            raise
        for warning in find_readable([config.data_dir, self._scratch(), config.offset_file]):
            log.warning("%s", warning)

    def _logs(self) -> tuple[Log, Log]:
        config = self.config
        if not config.remember_configs:
            return MemoryLog("config"), MemoryLog("status")
        try:
            make_directory(config.data_dir)
        except OSError as exc:
            raise KraalError(f"Cannot create the data directory {config.data_dir}: {exc.strerror}.") from exc
        configs = FileLog(config.data_dir / "config", "config", compaction=needed_config)
        return configs, FileLog(config.data_dir / "status", "status")

    @override
    def _scratch(self) -> Path:
        return (self.config.data_dir / "scratch").absolute()

    @override
    def _with_java_plugins(self, registry: Registry) -> tuple[Registry, PluginHosts | None]:
        settings = {**self._worker_settings(), OFFSET_FILE: str(self.config.offset_file)}
        return start_java_plugins(
            registry,
            settings,
            session_timeout_s=math.inf,
            offsets=self._offsets,
            is_stopping=self._end_requested.is_set,
        )

    @override
    def _parts(self, engine: Engine, plugins: WorkerPlugins) -> Parts:
        parts = super()._parts(engine, plugins)
        settings = replace(parts.settings, standalone=True)
        return replace(
            parts,
            settings=settings,
            creates_connectors=bool(self._files),
            keeps_configs=self.config.remember_configs,
        )

    @override
    def _on_started(self, assembly: Assembly) -> None:
        starter = threading.Thread(
            target=self._start_connectors, args=(assembly,), name="starter", daemon=True
        )
        starter.start()

    def _start_connectors(self, assembly: Assembly) -> None:
        """Create or update the command line's connectors from their files, in order."""
        path: object = "the command line"
        try:
            for path, file in self._files.items():  # noqa: B007 - read after a failure
                self._retry_while_herder_restarts(partial(_apply_when_live, assembly, file))
        except KraalError as error:
            _log_failed_connector(path, error)
            self.end(CONNECTOR_FAILED)
            return
        with suppress(TimedOut):  # the request stays in the herder's mailbox
            self._retry_while_herder_restarts(
                lambda: ask(assembly.herder, StartupDone(), timeout_s=CREATE_TIMEOUT_S)
            )

    def _retry_while_herder_restarts(self, step: Callable[[], None]) -> None:
        """Run an idempotent step, and retry it while the herder is being restarted."""
        while not self._ended.is_set():
            try:
                step()
            except ActorDied:
                self._ended.wait(HERDER_RETRY_INTERVAL_S)
            else:
                return

    @override
    def _close_stores(self) -> None:
        for store in (self._config_log, self._status_log, self._offsets):
            store.close()


def _ledger_log(config: StandaloneConfig) -> Log | None:
    """Return the log of the ledger; None if it is not configured."""
    file = config.ledger_file
    if file is None:
        return None
    return ReopenedLog("ledger", lambda: FileLog(file, "ledger"), max_bytes=MAX_LEDGER_BYTES)


def _apply_when_live(assembly: Assembly, file: ConnectorFile) -> None:
    """Create or update the connector from its file once the herder has read the existing connectors."""
    ask(assembly.herder, WaitUntilLive(), timeout_s=CREATE_TIMEOUT_S)
    apply_file(assembly, file)


def apply_file(assembly: Assembly, file: ConnectorFile) -> None:
    """Create or update the connector from its file, unless its config is up to date.

    `initial_state` and `initial_offsets` apply only to a new connector. Raises KraalError.
    """
    entry = assembly.published.latest.config.connectors.get(file.name)
    author_context = assembly.journal.authors.asking(
        ConfigWritten(file.name, file.config), "the command line"
    )
    if entry is None:
        create = CreateConnector(
            name=file.name,
            config=file.config,
            initial_state=file.initial_state,
            initial_offsets=file.initial_offsets,
        )
        with author_context:
            ask(assembly.herder, create, timeout_s=CREATE_TIMEOUT_S)
        log.info("Created connector %s", file.name)
    elif dict(entry.config) != dict(file.config):
        with author_context:
            ask(assembly.herder, PutConfig(name=file.name, config=file.config), timeout_s=CREATE_TIMEOUT_S)
        log.info("Updated the config of connector %s", file.name)
    else:
        log.info("Connector %s already matches its file", file.name)


def run_standalone(worker_file: Path, connector_files: Sequence[Path]) -> int:
    """Run a standalone worker until a signal; return the exit code. Raises KraalError if startup fails."""
    plugin_jars = load_worker_plugins(worker_file)
    config = load_standalone(
        worker_file, resolve=Registry.load().resolve, resolve_variables=resolve_worker_config
    )
    files: dict[Path, ConnectorFile] = {}
    for path in connector_files:
        try:
            files[path] = read_connector_file(path)
        except KraalError as error:
            _log_failed_connector(path, error)
            return CONNECTOR_FAILED
    for warning in config.warnings:
        log.warning("%s", warning)
    process = StandaloneProcess(config, files, plugin_jars)
    process.end_on_signals()
    return process.run()


def _log_failed_connector(path: object, error: KraalError) -> None:
    log.error("Failed to create connector for %s: %s", path, error)
