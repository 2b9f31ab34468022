"""A single-node Kafka broker (KRaft, combined broker and controller) on the loopback interface.

The broker outlives the command that starts it, so a record in its data directory (`state.py`) identifies its process;
other processes are never signaled. The broker is ready when it responds to a metadata request with the cluster id of
its data directory. An open port is not sufficient, because a broker opens its port seconds before it is ready, and
another program may use the port.
"""

from __future__ import annotations

import base64
import fcntl
import random
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from kraal.broker import state
from kraal.broker.settings import DEFAULT_PORT, server_properties, write_files
from kraal.jars.directories import state_dir
from kraal.jars.errors import BrokerError
from kraal.jars.jars import classpath
from kraal.jars.java import find_java

HOST = "127.0.0.1"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
"""Time after which a broker that has not stopped is killed."""
_PORTS: Final = range(10_000, 32_768)
"""Ports that Linux and macOS do not use for outgoing connections, which could occupy a free port before the caller."""
_MAX_ATTEMPTS: Final = 1000
_returned_ports: set[int] = set()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """The status of a broker; `pid` is None if the broker is not running."""

    pid: int | None
    port: int
    is_ready: bool
    """Whether the broker serves requests."""


def free_port() -> int:
    """Return an unused TCP port on loopback that this process has not returned before.

    Another process may occupy the port before the caller. Raises BrokerError if no port is free.
    """
    for port in random.SystemRandom().sample(_PORTS, _MAX_ATTEMPTS):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            with _lock:
                if port not in _returned_ports:
                    _returned_ports.add(port)
                    return port
    raise BrokerError(
        f"No free port was found on {HOST} from {_PORTS[0]} to {_PORTS[-1]}; stop processes that use these ports."
    )


def default_data_dir() -> Path:
    """Return the default data directory of `kraal kafka`."""
    return state_dir() / "kafka"


class Broker:
    """A broker with its data in one directory; several objects may represent the same broker."""

    def __init__(
        self,
        data_dir: Path | None = None,
        port: int = DEFAULT_PORT,
        *,
        extra: Mapping[str, str] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
        jars: str = "broker",
    ) -> None:
        """Create the object without starting the broker.

        Args:
            data_dir: directory of data, settings, record and log; created if it is missing.
            port: port on 127.0.0.1.
            extra: settings for server.properties, which override the defaults.
            start_timeout_s: maximum time to wait until a started broker is ready.
            jars: group of jars in `jars.lock` that is the broker's class path.
        """
        self._jars = jars
        self._start_timeout_s = start_timeout_s
        self.data_dir = (data_dir or default_data_dir()).absolute()
        self.port = port
        self.log = self.data_dir / "broker.log"
        self._extra = dict(extra or {})

    @property
    def bootstrap(self) -> str:
        """The value of `bootstrap.servers` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The pid of the broker; None if the broker is not running."""
        process = self._process()
        return process.pid if process else None

    def start(self) -> str:
        """Start the broker unless it is running, wait until it is ready, and return `bootstrap`.

        Raises BrokerError if the port is in use or the broker does not start; JavaMissing, JarsUnavailable.
        """
        with self._hold_lock():
            if (record := state.read(self.data_dir)) and record.process(self.data_dir):
                if record.port != self.port:
                    raise BrokerError(
                        f"The broker with data directory {self.data_dir} is already running on port {record.port};"
                        f" stop it before starting it on port {self.port}."
                    )
                self._wait_until_ready()
                return self.bootstrap
            self._check_port()
            self._start_process()
        return self.bootstrap

    def stop(self) -> bool:
        """Stop the broker with SIGTERM, and after a timeout with SIGKILL; return False if it was not running.

        Raises BrokerError if the broker does not exit, or if it was not running but another process uses its port.
        """
        return self._terminate(grace_s=STOP_TIMEOUT_S)

    def kill(self) -> bool:
        """Kill the broker with SIGKILL; otherwise like `stop`."""
        return self._terminate(grace_s=0)

    def status(self) -> BrokerStatus:
        """Return the status of the broker; wait up to a few seconds for a response."""
        record = state.read(self.data_dir)
        process = record.process(self.data_dir) if record else None
        if record is None or process is None:
            return BrokerStatus(pid=None, port=self.port, is_ready=False)
        return BrokerStatus(pid=process.pid, port=record.port, is_ready=self._is_ready(record.port))

    def _process(self) -> psutil.Process | None:
        record = state.read(self.data_dir)
        return record.process(self.data_dir) if record else None

    def _check_port(self) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.port))
            except OSError as exc:
                raise BrokerError(
                    f"Cannot use port {self.port} on {HOST} ({exc.strerror}); stop the process that listens on it,"
                    " which Kraal did not start, or choose another port with --port."
                ) from exc

    def _start_process(self) -> None:
        java, jars = str(find_java()), classpath(self._jars)
        with _lock:
            _returned_ports.add(self.port)  # another process may have chosen the port
        settings = server_properties(
            self.data_dir, port=self.port, controller_port=free_port(), extra=self._extra
        )
        write_files(self.data_dir, settings, log=self.log)
        properties = str(self.data_dir / "server.properties")
        logging_option = f"-Dlog4j2.configurationFile={(self.data_dir / 'log4j2.xml').as_uri()}"
        self._format(java, jars, properties, logging_option)
        command = [
            java,
            "-Xmx512m",
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            logging_option,
        ]
        command += ["-cp", jars, "kafka.Kafka", properties]
        pid = _detach(command, self.data_dir / "broker.out")
        is_ready = False
        try:
            state.Record(pid, psutil.Process(pid).create_time(), self.port).write(self.data_dir)
            self._wait_until_ready()
            is_ready = True
        except psutil.NoSuchProcess as exc:
            raise BrokerError(
                f"The broker exited immediately: {self._last_error()} (log: {self.log})"
            ) from exc
        finally:
            if not is_ready:
                self._terminate_process(grace_s=0)
                state.delete(self.data_dir)

    def _format(self, java: str, jars: str, properties: str, logging_option: str) -> None:
        """Format the log directory, which Kafka requires before the first start."""
        if (self.data_dir / "logs" / "meta.properties").exists():
            return
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        command = [java, "-Xmx256m", logging_option, "-cp", jars, "kafka.tools.StorageTool", "format"]
        command += ["-t", cluster, "-c", properties]
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self._start_timeout_s,
            check=False,
        )
        if result.returncode != 0:
            raise BrokerError(
                f"Failed to format the data directory {self.data_dir}: {_last_line(result.stderr)}"
            )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while not self._is_ready(self.port):
            if self._process() is None:
                raise BrokerError(f"The broker exited during startup: {self._last_error()} (log: {self.log})")
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"The broker was not ready within {self._start_timeout_s:.0f} s; see its log {self.log}."
                )
            time.sleep(0.1)

    def _last_error(self) -> str:
        """Return the last error in the log, or the last line of the output."""
        with suppress(OSError):
            for line in reversed(self.log.read_text(errors="replace").splitlines()):
                if " ERROR " in line or " FATAL " in line:
                    return line
        with suppress(OSError):
            return _last_line((self.data_dir / "broker.out").read_text(errors="replace"))
        return "no reason given"

    def _is_ready(self, port: int) -> bool:
        """Return whether the broker of this data directory serves requests on `port`."""
        if not _accepts_connections(port):
            return False  # avoids error messages of the Kafka client in the log
        try:
            client = KafkaAdminClient(
                bootstrap_servers=f"{HOST}:{port}", request_timeout_ms=2000, bootstrap_timeout_ms=2000
            )
        except KafkaError:
            return False
        try:
            cluster = client.describe_cluster()
            return bool(cluster.get("brokers")) and cluster.get("cluster_id") == self._read_cluster_id()
        except KafkaError:
            return False
        finally:
            client.close()

    def _read_cluster_id(self) -> str | None:
        with suppress(OSError):
            for line in (self.data_dir / "logs" / "meta.properties").read_text(encoding="utf-8").splitlines():
                key, _, value = line.partition("=")
                if key == "cluster.id":
                    return value
        return None

    def _terminate(self, *, grace_s: float) -> bool:
        if not self.data_dir.exists():
            self._check_unknown_process()
            return False
        with self._hold_lock():
            if self._process() is None:
                state.delete(self.data_dir)
                self._check_unknown_process()
                return False
            self._terminate_process(grace_s=grace_s)
            state.delete(self.data_dir)
            return True

    def _terminate_process(self, *, grace_s: float) -> None:
        process = self._process()
        if process is None:
            return
        for signal_, seconds in ((signal.SIGTERM, grace_s), (signal.SIGKILL, STOP_TIMEOUT_S)):
            with suppress(psutil.NoSuchProcess):  # the process may exit at any time
                if seconds and not self._has_exited(process):
                    process.send_signal(signal_)
            deadline = time.monotonic() + seconds
            while not self._has_exited(process) and time.monotonic() < deadline:
                time.sleep(0.05)
        if not self._has_exited(process):
            raise BrokerError(f"The broker (pid {process.pid}) did not exit after SIGKILL.")

    def _has_exited(self, process: psutil.Process) -> bool:
        """Return whether `process` has exited and released its port, which threads of a zombie may still use."""
        with suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                return False
        return not _accepts_connections(self._recorded_port())

    def _recorded_port(self) -> int:
        record = state.read(self.data_dir)
        return record.port if record else self.port

    def _check_unknown_process(self) -> None:
        if _accepts_connections(self.port):
            raise BrokerError(
                f"A process listens on {self.bootstrap}, but Kraal did not start it (no record in"
                f" {self.data_dir}); leaving it running."
            )

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Serialize starts and stops of the broker with this data directory."""
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            handle = (self.data_dir / ".lock").open("w", encoding="ascii")
        except OSError as exc:
            raise BrokerError(f"Cannot use the data directory {self.data_dir}: {exc.strerror}") from exc
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _accepts_connections(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def _detach(command: list[str], output: Path) -> int:
    """Start `command` as a daemon in a new session; return the pid of the daemon.

    Ctrl-C in the terminal is therefore not sent to the broker, and Kraal does not have to reap a child process.
    """
    script = '"$@" </dev/null >"$0" 2>&1 & echo $!'
    result = subprocess.run(
        ["/bin/sh", "-c", script, str(output), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
    )
    return int(result.stdout)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    # Skip Java's stack trace.
    reasons = [line for line in lines if line and not line.startswith(("at ", "... "))]
    return reasons[-1] if reasons else "no reason given"
