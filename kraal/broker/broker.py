"""A single-node Kafka broker (KRaft, combined broker and controller) on the loopback interface.

The broker outlives the command that starts it, so a record in its data directory (`state.py`) identifies its process;
other processes are never signalled. The broker counts as ready when it answers a metadata request with the cluster id
of its data directory. An open port is not sufficient, because a broker opens it seconds before it is ready and another
program may use it.
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
from kraal.jars.errors import BrokerError
from kraal.jars.jars import classpath
from kraal.jars.java import find_java
from kraal.jars.places import state_dir

HOST = "127.0.0.1"
START_S = 90.0
STOP_S = 30.0
"""How long to wait for the broker to stop before it is killed."""
_PORTS: Final = range(10_000, 32_768)
"""Ports that Linux and macOS do not give to outgoing connections, which could take a free one before its user does."""
_TRIES: Final = 1000
_returned: set[int] = set()
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Status:
    """Status of a broker: `pid` is None if it is not running, `answers` is True if it serves requests."""

    pid: int | None
    port: int
    answers: bool


def free_port() -> int:
    """Return an unused TCP port on loopback that this process has not returned before.

    Another process may take it before the caller does. Raises BrokerError if no port is free.
    """
    for port in random.SystemRandom().sample(_PORTS, _TRIES):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            with _lock:
                if port not in _returned:
                    _returned.add(port)
                    return port
    raise BrokerError(
        f"No free port was found on {HOST} from {_PORTS[0]} to {_PORTS[-1]}; end what uses them."
    )


def default_data_dir() -> Path:
    """Return the default data directory of `kraal kafka`."""
    return state_dir() / "kafka"


class Broker:
    """Broker with its data in one directory; several objects may represent the same broker."""

    def __init__(
        self,
        data_dir: Path | None = None,
        port: int = DEFAULT_PORT,
        *,
        extra: Mapping[str, str] | None = None,
        patience_s: float = START_S,
        jars: str = "broker",
    ) -> None:
        """Create the object without starting or reading anything.

        Args:
            data_dir: directory of data, settings, record and log; created if missing.
            port: port on 127.0.0.1.
            extra: settings for server.properties, which override the defaults.
            patience_s: how long to wait until the broker is ready after its start.
            jars: group of jars that are the broker's class path.
        """
        self._jars = jars
        self._patience_s = patience_s
        self.data_dir = (data_dir or default_data_dir()).absolute()
        self.port = port
        self.log = self.data_dir / "broker.log"
        self._extra = dict(extra or {})

    @property
    def bootstrap(self) -> str:
        """Value of `bootstrap.servers` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Pid of the broker, None if it is not running."""
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
                self._wait_until_it_answers()
                return self.bootstrap
            self._refuse_taken_port()
            self._start_process()
        return self.bootstrap

    def stop(self) -> bool:
        """Stop the broker with SIGTERM, and with SIGKILL after `STOP_S` seconds; False if it was not running.

        Raises BrokerError if a process that Kraal did not start listens on the port.
        """
        return self._end(patience_s=STOP_S)

    def kill(self) -> bool:
        """Kill the broker with SIGKILL; otherwise the same as `stop`."""
        return self._end(patience_s=0)

    def status(self) -> Status:
        """Return the status of the broker; waits at most two seconds for a response."""
        record = state.read(self.data_dir)
        process = record.process(self.data_dir) if record else None
        if record is None or process is None:
            return Status(pid=None, port=self.port, answers=False)
        return Status(pid=process.pid, port=record.port, answers=self._answers(record.port))

    def _process(self) -> psutil.Process | None:
        record = state.read(self.data_dir)
        return record.process(self.data_dir) if record else None

    def _refuse_taken_port(self) -> None:
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
            _returned.add(self.port)  # another process may have chosen it
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
        up = False
        try:
            state.Record(pid, psutil.Process(pid).create_time(), self.port).write(self.data_dir)
            self._wait_until_it_answers()
            up = True
        except psutil.NoSuchProcess as exc:
            raise BrokerError(
                f"The broker exited immediately: {self._last_words()} (log: {self.log})"
            ) from exc
        finally:
            if not up:
                self._signal_until_it_ends(patience_s=0)
                state.forget(self.data_dir)

    def _format(self, java: str, jars: str, properties: str, logging_option: str) -> None:
        """Format the log directory once, which Kafka requires before its first start."""
        if (self.data_dir / "logs" / "meta.properties").exists():
            return
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        command = [java, "-Xmx256m", logging_option, "-cp", jars, "kafka.tools.StorageTool", "format"]
        command += ["-t", cluster, "-c", properties]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self._patience_s,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerError(
                f"Failed to format the data directory {self.data_dir}: {_last_line(done.stderr)}"
            )

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + self._patience_s
        while not self._answers(self.port):
            if self._process() is None:
                raise BrokerError(f"The broker exited during startup: {self._last_words()} (log: {self.log})")
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"The broker was not ready within {self._patience_s:.0f} s; see its log {self.log}."
                )
            time.sleep(0.1)

    def _last_words(self) -> str:
        """Return the last error in the log, or the last line of output."""
        with suppress(OSError):
            for line in reversed(self.log.read_text(errors="replace").splitlines()):
                if " ERROR " in line or " FATAL " in line:
                    return line
        with suppress(OSError):
            return _last_line((self.data_dir / "broker.out").read_text(errors="replace"))
        return "no reason given"

    def _answers(self, port: int) -> bool:
        """Return whether the broker of this data directory serves requests on `port`."""
        if not _accepts(port):
            return False  # avoids error messages of a Kafka client in the log
        try:
            client = KafkaAdminClient(
                bootstrap_servers=f"{HOST}:{port}", request_timeout_ms=2000, bootstrap_timeout_ms=2000
            )
        except KafkaError:
            return False
        try:
            answer = client.describe_cluster()
            return bool(answer.get("brokers")) and answer.get("cluster_id") == self._cluster_id()
        except KafkaError:
            return False
        finally:
            client.close()

    def _cluster_id(self) -> str | None:
        with suppress(OSError):
            for line in (self.data_dir / "logs" / "meta.properties").read_text(encoding="utf-8").splitlines():
                key, _, value = line.partition("=")
                if key == "cluster.id":
                    return value
        return None

    def _end(self, *, patience_s: float) -> bool:
        if not self.data_dir.exists():
            self._refuse_foreign()
            return False
        with self._hold_lock():
            if self._process() is None:
                state.forget(self.data_dir)
                self._refuse_foreign()
                return False
            self._signal_until_it_ends(patience_s=patience_s)
            state.forget(self.data_dir)
            return True

    def _signal_until_it_ends(self, *, patience_s: float) -> None:
        process = self._process()
        if process is None:
            return
        for signal_, seconds in ((signal.SIGTERM, patience_s), (signal.SIGKILL, STOP_S)):
            with suppress(psutil.NoSuchProcess):  # it may exit at any time
                if seconds and not self._is_over(process):
                    process.send_signal(signal_)
            deadline = time.monotonic() + seconds
            while not self._is_over(process) and time.monotonic() < deadline:
                time.sleep(0.05)
        if not self._is_over(process):
            raise BrokerError(f"The broker (pid {process.pid}) did not exit after SIGKILL.")

    def _is_over(self, process: psutil.Process) -> bool:
        """Return whether `process` has exited and released its port, which threads of a zombie may still hold."""
        with suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                return False
        return not _accepts(self._recorded_port())

    def _recorded_port(self) -> int:
        record = state.read(self.data_dir)
        return record.port if record else self.port

    def _refuse_foreign(self) -> None:
        if _accepts(self.port):
            raise BrokerError(
                f"A process listens on {self.bootstrap}, but Kraal did not start it (no record in"
                f" {self.data_dir}); leaving it running."
            )

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Make other starts and stops of the same data directory wait."""
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            handle = (self.data_dir / ".lock").open("w", encoding="ascii")
        except OSError as exc:
            raise BrokerError(f"Cannot use the data directory {self.data_dir}: {exc.strerror}") from exc
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def _detach(command: list[str], output: Path) -> int:
    """Start `command` as a daemon in its own session and return its pid.

    So Ctrl-C in the terminal does not reach the broker, and Kraal need not wait for a child process.
    """
    script = '"$@" </dev/null >"$0" 2>&1 & echo $!'
    done = subprocess.run(
        ["/bin/sh", "-c", script, str(output), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
    )
    return int(done.stdout)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    reasons = [
        line for line in lines if line and not line.startswith(("at ", "... "))
    ]  # skip Java's stack trace
    return reasons[-1] if reasons else "no reason given"
