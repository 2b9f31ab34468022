"""The JVM of Java plugins and its py4j gateway. Source: `PluginProcess.java`."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import secrets
import subprocess
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

from kraal.config.worker.distributed_keys import LEDGER_TOPIC
from kraal.config.worker.standalone import LEDGER_FILE
from kraal.core.errors import Unavailable
from kraal.core.logging import log_subject
from kraal.core.secrets import secrets as known_secrets
from kraal.jars.java import find_java
from kraal.java_plugins.discovery import PluginFiles
from kraal.java_plugins.worker_file import WorkerFile

_MAIN: Final = "kraal.plugins.PluginProcess"
_PORT: Final = re.compile(r"kraal\.plugins listens on port (\d+)")
_CONTEXT: Final = re.compile(
    r"\[(.*?)(?:\|task-([0-9]{1,10}))?(?:\|(?:worker|validate|offsets))?\] ", re.DOTALL
)
"""Matches the connector and task in Connect's MDC context. Source: LoggingContext (Kafka 4.4.0)."""
_PLUGINS: Final = "org.apache.kafka.connect.runtime.isolation.Plugins"
_ADVICE: Final = "All plugins have ServiceLoader manifests, consider reconfiguring "
"""A suggestion of Kafka's `Plugins`, which is not logged because scans are cached (`Discovery`)."""
_LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
_PART_COUNT: Final = 4
_END_TIMEOUT_S: Final = 2.0
RETRY_AFTER_S: Final = 5
log = logging.getLogger(__name__)


class PluginsUnavailable(Unavailable):
    """Raised if the JVM of Java plugins is down; REST returns 503 with `Retry-After`."""

    def __init__(self, message: str) -> None:
        """Create the error; `message` is the reason why the JVM is down."""
        super().__init__(message, retry_after_s=RETRY_AFTER_S)


class Jvm:
    """A running JVM of Java plugins. Thread-safe."""

    def __init__(
        self,
        class_path: Sequence[Path],
        options: Sequence[str],
        plugins: PluginFiles,
        connector: str = "",
        *,
        worker: Mapping[str, str] | None = None,
        standalone: bool = False,
    ) -> None:
        """Start the process. Raises PluginsUnavailable, JavaMissing, OSError.

        Args:
            class_path: the jars; the first is Kraal's own, which is also a Java agent (`Agent.java`).
            options: options of the JVM.
            plugins: the plugin discovery settings.
            connector: the only connector that the JVM runs, shown in process listings; empty for the shared JVM.
            worker: the worker's properties, for plugins that read the worker's config file; None without a worker.
            standalone: whether the worker is a standalone worker.
        """
        self._worker_file = file = None if worker is None else WorkerFile(worker, standalone=standalone)
        self._subject = f"connector {connector}" if connector else ""
        self._token = token = secrets.token_hex(16)
        agent = f"-javaagent:{class_path[0]}{_agent_argument(worker, standalone=standalone)}"
        command = [str(find_java()), agent, "-XX:+ExitOnOutOfMemoryError", *options]
        command += ["-cp", os.pathsep.join(map(str, class_path)), _MAIN, *([connector] if connector else ())]
        self.process: subprocess.Popen[str] = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            process_group=0,  # Ctrl-C must reach only the worker
            pass_fds=() if file is None else (file.descriptor,),
        )
        self._port = 0
        self._is_listening = threading.Event()
        self.last_line = ""
        """The last line that the process has printed or logged."""
        threading.Thread(target=self._read_output, name="kraal-java-output", daemon=True).start()
        threading.Thread(target=self._read_log, name="kraal-java-log", daemon=True).start()
        try:
            stdin = _pipe(self.process.stdin)
            scan = None if plugins.scan is None else json.loads(plugins.scan)
            message = {
                "token": token,
                "plugins": dict(plugins.properties),
                "scan": scan,
                "command": None if file is None else file.command,
            }
            stdin.write(json.dumps(message) + "\n")
            stdin.flush()
        except OSError as exc:
            self.kill()
            raise PluginsUnavailable(
                f"the JVM of Java plugins exited immediately: {self.last_line or exc}"
            ) from exc
        self._gateway: Any = None

    @property
    def entry(self) -> Any:
        """The JVM's `PluginWorker`; blocks until the JVM has scanned `plugin.path`. Raises PluginsUnavailable."""
        if self._gateway is None:
            self._is_listening.wait()
            if not self._port:
                self.process.wait()
                raise PluginsUnavailable(f"the JVM of Java plugins exited: {self.end}")
            self._gateway = _open_gateway(self._port, self._token)
        return self._gateway.entry_point

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self.process.poll() is None

    @property
    def end(self) -> str | None:
        """The exit code and last line of the process, as text; None while it is running."""
        code = self.process.poll()
        if code is None:
            return None
        return f"exit code {code}" + (f", after: {self.last_line}" if code > 0 and self.last_line else "")

    def wait(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` seconds for the process to exit."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout_s)

    def kill(self) -> None:
        """Kill the process; its tasks will reread records whose offsets were not committed."""
        if self.alive:
            self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Stop the process gracefully; kill it if it does not exit in time."""
        try:
            _pipe(self.process.stdin).close()
            self.process.wait(_END_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired):
            self.kill()

    def _read_output(self) -> None:
        """Log the standard output of the JVM, which cannot be attributed to tasks, and read the port from it."""
        with _pipe(self.process.stdout) as output:
            for text in output:
                line = text.rstrip("\n")
                if not self._is_listening.is_set() and (match := _PORT.search(line)):
                    self._port = int(match[1])
                    self._is_listening.set()
                else:
                    self._log(__name__, logging.INFO, self._subject, line)
        self._is_listening.set()
        if self._worker_file is not None:
            self._worker_file.close()

    def _read_log(self) -> None:
        """Log the lines of log4j with their levels, loggers and tasks, and other lines, such as the JVM's, at INFO."""
        with _pipe(self.process.stderr) as lines:
            for line in lines:
                parts = _parse_line(line)
                if parts is None:
                    self._log(__name__, logging.INFO, self._subject, line.rstrip("\n"))
                    continue
                level, name, context, text = parts
                if not (name == _PLUGINS and text.startswith(_ADVICE)):
                    match = _CONTEXT.fullmatch(context)
                    subject = (match and _subject(match[1], match[2])) or self._subject
                    self._log(name, _LEVELS.get(level, logging.INFO), subject, text)

    def _log(self, name: str, level: int, subject: str, text: str) -> None:
        """Log a text line by line, so that each line has the subject."""
        log_subject.set(subject)
        for line in text.splitlines():
            if line:
                self.last_line = line
                logging.getLogger(name).log(level, "%s", line)


def _agent_argument(worker: Mapping[str, str] | None, *, standalone: bool) -> str:
    """Return the argument of `Agent.java`, which counts the records of tasks; empty without a ledger."""
    has_ledger = bool((worker or {}).get(LEDGER_FILE if standalone else LEDGER_TOPIC))
    return "=ledger" if has_ledger else ""


def _parse_line(line: str) -> list[str] | None:
    """Return the level, logger, context and text of a line; None if it does not match `log4j2.properties`."""
    try:
        parts = json.loads(line)
    except ValueError:
        return None
    is_line = (
        isinstance(parts, list) and len(parts) == _PART_COUNT and all(isinstance(part, str) for part in parts)
    )
    return parts if is_line else None


def _subject(connector: str | None, task: str | None) -> str:
    """Return the connector or task of a line, formatted like actor names; empty without a connector."""
    if not connector:
        return ""
    return f"connector {connector}" if task is None else f"task {connector}-{int(task)}"


def _open_gateway(port: int, token: str) -> Any:
    known_secrets.pin(token)
    for name in ("py4j.java_gateway", "py4j.clientserver"):
        logging.getLogger(name).addFilter(_is_not_debug)
    gateways: Any = import_module("py4j.java_gateway")  # untyped; imported with the first Java plugin

    parameters = gateways.GatewayParameters(port=port, auth_token=token)
    return gateways.JavaGateway(gateway_parameters=parameters)


def _is_not_debug(record: logging.LogRecord) -> bool:
    """Reject DEBUG records at any log level, because py4j logs commands with configs as arguments at DEBUG."""
    return record.levelno >= logging.INFO


def _pipe(stream: IO[str] | None) -> IO[str]:
    if stream is None:  # pragma: no cover - all streams are pipes
        raise OSError("no pipe")
    return stream
