"""A real single-node Kafka broker (KRaft, combined broker and controller) on loopback.

It outlives the command that started it, so a record in its data directory (`state.py`) says which process it
is; a process that the record does not name for certain is never signalled. "Running" means that it answers a
metadata request with the cluster id of this data directory: a port that accepts connections proves nothing,
since a broker does that seconds before it works, and another program does it too.
"""

from __future__ import annotations

import base64
import fcntl
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from kraal.embedded import state
from kraal.embedded.errors import BrokerError
from kraal.embedded.jars import classpath
from kraal.embedded.java import find_java
from kraal.embedded.places import state_dir
from kraal.embedded.settings import server_properties, write_files

HOST = "127.0.0.1"
DEFAULT_PORT = 9092
START_S = 90.0
STOP_S = 30.0
"""How long a broker may take to stop by itself before it is killed."""


@dataclass(frozen=True, slots=True)
class Status:
    """A broker as it is now: `pid` None when it does not run, `answers` when it serves requests."""

    pid: int | None
    port: int
    answers: bool


def free_port() -> int:
    """Return a TCP port on loopback that nothing listens on; another process may take it before you do."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def default_data_dir() -> Path:
    """Return where `kraal kafka` keeps its broker's data when it is not told."""
    return state_dir() / "kafka"


class Broker:
    """The broker with its data in one directory; several such objects may stand for the same broker."""

    def __init__(
        self,
        data_dir: Path | None = None,
        port: int = DEFAULT_PORT,
        *,
        extra: Mapping[str, str] | None = None,
        patience_s: float = START_S,
    ) -> None:
        """Describe the broker; nothing is started or read.

        Args:
            data_dir: where its data, settings, record and log are; made when missing.
            port: where it listens, on 127.0.0.1 only.
            extra: settings for server.properties that win over ours.
            patience_s: how long it may take to answer once it was started.
        """
        self._patience_s = patience_s
        self.data_dir = (data_dir or default_data_dir()).absolute()
        self.port = port
        self.log = self.data_dir / "broker.log"
        self._extra = dict(extra or {})

    @property
    def bootstrap(self) -> str:
        """What clients take as `bootstrap.servers`."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The pid of the running broker, None when it does not run."""
        process = self._process()
        return process.pid if process else None

    def start(self) -> str:
        """Start the broker unless it runs, wait until it answers, and return `bootstrap`.

        Raises BrokerError when the port is taken or it does not come up; JavaMissing, JarsUnavailable.
        """
        with self._alone():
            if (record := state.read(self.data_dir)) and record.process(self.data_dir):
                if record.port != self.port:
                    raise BrokerError(
                        f"The broker with its data in {self.data_dir} runs already, on port {record.port};"
                        f" stop it before starting it on port {self.port}."
                    )
                self._wait_until_it_answers()
                return self.bootstrap
            self._refuse_taken_port()
            self._start_process()
        return self.bootstrap

    def stop(self) -> bool:
        """Stop the broker: SIGTERM, and SIGKILL only after `STOP_S` seconds; False when it did not run.

        Raises BrokerError when something that Kraal did not start listens on the port.
        """
        return self._end(patience_s=STOP_S)

    def kill(self) -> bool:
        """End the broker at once, by SIGKILL; otherwise as `stop`."""
        return self._end(patience_s=0)

    def status(self) -> Status:
        """Say how the broker is; asks it, for at most two seconds."""
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
                    f"Port {self.port} on {HOST} cannot be used ({exc.strerror}); what Kraal did not"
                    " start is left alone: stop what listens there, or choose another port with --port."
                ) from exc

    def _start_process(self) -> None:
        java, jars = str(find_java()), classpath("broker")
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
            raise BrokerError(f"The broker ended at once: {self._last_words()} (log: {self.log})") from exc
        finally:
            if not up:
                self._signal_until_it_ends(patience_s=0)
                state.forget(self.data_dir)

    def _format(self, java: str, jars: str, properties: str, logging_option: str) -> None:
        """Prepare the log directory once, as Kafka demands before its first start."""
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
                f"The data directory {self.data_dir} could not be formatted: {_last_line(done.stderr)}"
            )

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + self._patience_s
        while not self._answers(self.port):
            if self._process() is None:
                raise BrokerError(
                    f"The broker ended while it started: {self._last_words()} (log: {self.log})"
                )
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"The broker did not answer within {self._patience_s:.0f} s; its log is {self.log}."
                )
            time.sleep(0.1)

    def _last_words(self) -> str:
        """Return the first error in the log, or what was printed instead of one."""
        with suppress(OSError):
            for line in reversed(self.log.read_text(errors="replace").splitlines()):
                if " ERROR " in line or " FATAL " in line:
                    return line
        with suppress(OSError):
            return _last_line((self.data_dir / "broker.out").read_text(errors="replace"))
        return "no reason given"

    def _answers(self, port: int) -> bool:
        """Whether the broker of this data directory serves requests on `port`."""
        if not _accepts(port):
            return False  # spares the log the complaints of a whole client
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
        with self._alone():
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
            with suppress(psutil.NoSuchProcess):  # it may end by itself at any moment
                if seconds and not self._is_over(process):
                    process.send_signal(signal_)
            deadline = time.monotonic() + seconds
            while not self._is_over(process) and time.monotonic() < deadline:
                time.sleep(0.05)
        if not self._is_over(process):
            raise BrokerError(f"The broker (pid {process.pid}) did not end, not even by SIGKILL.")

    def _is_over(self, process: psutil.Process) -> bool:
        """Whether `process` has ended and let go of its port; a zombie's threads may still hold it."""
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
                f"Something listens on {self.bootstrap}, but Kraal did not start it (there is no record of"
                f" it in {self.data_dir}), so it is left alone."
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep a second start or stop of the same data directory waiting."""
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            handle = (self.data_dir / ".lock").open("w", encoding="ascii")
        except OSError as exc:
            raise BrokerError(f"The data directory {self.data_dir} cannot be used: {exc.strerror}") from exc
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def _detach(command: list[str], output: Path) -> int:
    """Start `command` as nobody's child, in a session of its own, and return its pid.

    Ctrl-C in the terminal is for Kraal's command, not for the broker; and a child would be ours to wait for.
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
    told = [line for line in lines if line and not line.startswith(("at ", "... "))]  # not Java's stack
    return told[-1] if told else "no reason given"
