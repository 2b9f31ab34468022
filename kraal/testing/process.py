"""A worker as a separate process, for tests of signals, kill -9, restarts and sockets.

    worker = WorkerProcess(tmp_path, bootstrap)
    worker.start()
    worker.create("numbers", {"connector.class": "FileStreamSource", "file": "/tmp/numbers", "topic": "numbers"})
    worker.wait_for_states("numbers", ["RUNNING", "RUNNING"])
    worker.kill()
    worker.start()  # with the same files
    assert worker.end() == 0

REST listens on a free loopback port, which changes with each start. Every wait has a timeout. The error of a wait that
times out contains the end of the worker's log and the stacks of its threads.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil

from kraal.core import stacks
from kraal.core.ids import Config
from kraal.testing._simulation.stacks import dump_stacks

TIMEOUT_S = 240.0
"""Default timeout; Spark starts slowly on a busy machine."""
END_TIMEOUT_S = 75.0
"""Default timeout of exits; a worker that does not stop in time ends itself after about a minute."""
_POLL_INTERVAL_S = 0.05
_REQUEST_INTERVAL_S = 0.1
"""Interval between requests for states; each request costs both processes milliseconds."""
_LISTENING_LINE = re.compile(r"REST listens at (http://\S+)/ ")
_PACKAGE_ROOT = str(Path(__file__).parents[2])
_STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"


@dataclass(frozen=True, slots=True)
class Answer:
    """A REST response: `body` is parsed JSON, None without a body."""

    status: int
    body: Any


class WorkerProcess:
    """A restartable process of `kraal standalone` or `kraal distributed`, with its files in one directory.

    Not thread-safe.
    """

    stacks_signal = stacks.SIGNAL
    """Signal that makes the process write its stacks to its log."""

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        *,
        properties: Mapping[str, str] | None = None,
        connectors: Sequence[Path] = (),
        group: str | None = None,
    ) -> None:
        """Define the worker without starting it.

        Args:
            directory: directory of the worker's properties file, log, offsets and data; created if missing.
            bootstrap: `bootstrap.servers`.
            properties: worker properties, which override the defaults.
            connectors: connector files for the command line of a standalone worker.
            group: `group.id` of a distributed worker, also the prefix of its topics' names; None for a standalone
                worker.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.log = directory / "worker.log"
        self.offset_file = directory / "offsets"
        self.properties = {
            "bootstrap.servers": bootstrap,
            "key.converter": _STRING_CONVERTER,
            "value.converter": _STRING_CONVERTER,
            "listeners": "http://127.0.0.1:0",
            "kraal.spark.warmup.enabled": "false",
            **(_file_settings(self.offset_file) if group is None else _group_settings(group)),
            **(properties or {}),
        }
        """Worker properties; changes take effect at the next start."""
        self.connectors = list(connectors)
        """Connector files; changes take effect at the next start."""
        self._mode = "standalone" if group is None else "distributed"
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._processes: dict[int, psutil.Process] = {}
        self._client: httpx2.Client | None = None

    # --- the process ----------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The process id, even after the process has exited. Raises RuntimeError before the first start."""
        return self._started_process().pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs.

        Raises RuntimeError before the first start.
        """
        return self._started_process().poll()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._popen is not None and self._popen.poll() is None

    def launch(self) -> None:
        """Start the process without waiting, for a worker that is expected to fail; otherwise use `start`."""
        if self.alive:
            raise RuntimeError(f"the worker is already running as process {self.pid}")
        path = self.directory / "worker.properties"
        path.write_text("".join(f"{k}={v}\n" for k, v in self.properties.items()), encoding="utf-8")
        python_path = os.pathsep.join(filter(None, [_PACKAGE_ROOT, os.environ.get("PYTHONPATH")]))
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._close_client()
        with self.log.open("ab") as output:
            self._popen = subprocess.Popen(
                self._command(path),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=os.environ | {"PYTHONPATH": python_path},
                start_new_session=True,  # to detect processes that outlive the worker
            )
        self._processes = {self._popen.pid: psutil.Process(self._popen.pid)}

    def start(self, timeout_s: float = TIMEOUT_S) -> None:
        """Start the process and wait until REST responds."""
        self.launch()
        self.wait_until("REST listened", lambda: self._url() is not None, timeout_s=timeout_s)
        self._client = httpx2.Client(base_url=self.url, timeout=TIMEOUT_S, trust_env=False)
        self.wait_until("REST responded", self._is_responding, timeout_s=timeout_s)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process only."""
        self._started_process().send_signal(number)

    def wait(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """Wait for the process to exit; return its exit code, negative for a signal."""
        with suppress(subprocess.TimeoutExpired):
            return self._started_process().wait(timeout_s)
        raise AssertionError(f"the worker did not exit within {timeout_s:g} s\n{self.evidence()}")

    def end(self, timeout_s: float = END_TIMEOUT_S) -> int:
        """Stop the process with SIGTERM; return its exit code."""
        self.tree()
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> list[psutil.Process]:
        """Kill the process with SIGKILL; return its remaining descendants, which should exit soon."""
        self.tree()
        self.signal(signal.SIGKILL)
        self.wait()
        return self.tree()

    def close(self) -> None:
        """Kill the remaining processes of the last start, at the end of a test."""
        self._close_client()
        if self._popen is None:
            return
        remaining_processes = self.tree()
        for process in remaining_processes:
            with suppress(psutil.Error):
                process.kill()  # psutil checks that the pid still belongs to that process
        psutil.wait_procs(remaining_processes, timeout=10)
        self._popen.wait(END_TIMEOUT_S)

    def tree(self) -> list[psutil.Process]:
        """Return the running processes of the last start: the worker and its descendants."""
        session = self.pid
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if os.getsid(process.pid) == session:
                    self._processes.setdefault(process.pid, process)
        for process in list(self._processes.values()):
            with suppress(psutil.Error):
                self._processes |= {child.pid: child for child in process.children(recursive=True)}
        return [process for process in self._processes.values() if _is_running(process)]

    def jvm(self) -> psutil.Process | None:
        """Return the process of Spark's JVM, if it is running."""
        if self.alive:
            with suppress(psutil.Error):
                for child in psutil.Process(self.pid).children():
                    if "org.apache.spark.deploy.SparkSubmit" in child.cmdline():
                        return child
        return None

    def log_text(self) -> str:
        """Return the output of the process since its last start."""
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[self._log_start :].decode(errors="replace")

    # --- REST -----------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The REST URL without a trailing slash. Raises RuntimeError before the worker listens."""
        url = self._url()
        if url is None:
            raise RuntimeError("the worker is not listening yet")
        return url

    def request(self, method: str, path: str, body: object = None) -> Answer:
        """Send a REST request; `body` is sent as JSON unless None."""
        if self._client is None:
            raise RuntimeError("the worker was not started")
        try:
            response = self._client.request(method, path, json=body)  # None sends no body
        except httpx2.TimeoutException as exc:
            exc.add_note(self.evidence())
            raise
        return Answer(response.status_code, response.json() if response.content else None)

    def get(self, path: str) -> Answer:
        """Send a GET request."""
        return self.request("GET", path)

    def put(self, path: str, body: object = None) -> Answer:
        """Send a PUT request."""
        return self.request("PUT", path, body)

    def post(self, path: str, body: object = None) -> Answer:
        """Send a POST request."""
        return self.request("POST", path, body)

    def delete(self, path: str) -> Answer:
        """Send a DELETE request."""
        return self.request("DELETE", path)

    def ask(self, method: str, path: str, body: object = None, timeout_s: float = TIMEOUT_S) -> Answer:
        """Send a REST request, with retries for up to `timeout_s` while a rebalance causes 409."""
        deadline = time.monotonic() + timeout_s
        while True:
            response = self.request(method, path, body)
            is_conflict = response.status == httpx2.codes.CONFLICT and "Cannot complete request" in str(
                response.body
            )
            if not is_conflict or time.monotonic() > deadline:
                return response
            time.sleep(_POLL_INTERVAL_S)

    def create(self, name: str, config: Config, **more: object) -> Answer:
        """Create a connector; `more`: additional request fields. Raises AssertionError if the request is rejected."""
        response = self.ask("POST", "/connectors", {"name": name, "config": config, **more})
        assert response.status == httpx2.codes.CREATED, response  # noqa: S101 - an assertion for tests
        return response

    def states(self, name: str) -> list[str]:
        """Return the states of a connector and its tasks, in order; empty without a status."""
        response = self.get(f"/connectors/{name}/status")
        if response.status != httpx2.codes.OK:
            return []
        return [status["state"] for status in (response.body["connector"], *response.body["tasks"])]

    def traces(self, name: str) -> list[str]:
        """Return the existing traces of a connector and its tasks."""
        body = self.get(f"/connectors/{name}/status").body
        return [status["trace"] for status in (body["connector"], *body["tasks"]) if "trace" in status]

    # --- waiting --------------------------------------------------------------------------------------------

    def wait_for_states(self, name: str, states: Sequence[str], timeout_s: float = TIMEOUT_S) -> None:
        """Wait until a connector and its tasks have these states, in order."""
        self.wait_until(
            f"{name} was {list(states)}",
            lambda: self.states(name) == list(states),
            timeout_s=timeout_s,
            interval_s=_REQUEST_INTERVAL_S,
        )

    def wait_until(
        self,
        what: str,
        done: Callable[[], bool],
        *,
        timeout_s: float = TIMEOUT_S,
        interval_s: float = _POLL_INTERVAL_S,
    ) -> None:
        """Wait until `done()`, called every `interval_s` seconds, returns True.

        Raises AssertionError after `timeout_s`, or if the worker exits earlier.
        """
        deadline = time.monotonic() + timeout_s
        while not done():
            if not self.alive:
                raise AssertionError(
                    f"the worker exited with code {self.exit_code} before {what}\n{self._tail()}"
                )
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"timed out after {timeout_s:g} s waiting until {what}\n{self.evidence()}"
                )
            time.sleep(interval_s)

    def evidence(self) -> str:
        """Return the end of the log, with the stacks of the process."""
        tail = self._tail()
        return f"{tail}\n{dump_stacks(self.pid, self.log, self.stacks_signal)}" if self.alive else tail

    # --- internals ------------------------------------------------------------------------------------------

    def _command(self, properties: Path) -> list[str]:
        """Return the command that starts the worker; subclasses may override it."""
        code = "from kraal.cli.main import main; main()"
        return [sys.executable, "-c", code, self._mode, str(properties), *map(str, self.connectors)]

    def _started_process(self) -> subprocess.Popen[bytes]:
        if self._popen is None:
            raise RuntimeError("the worker was never started")
        return self._popen

    def _url(self) -> str | None:
        match = _LISTENING_LINE.search(self.log_text())
        return match[1] if match else None

    def _is_responding(self) -> bool:
        with suppress(httpx2.TransportError):
            return self.get("/").status == httpx2.codes.OK
        return False

    def _close_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _tail(self) -> str:
        return "\n".join(["the end of its log:", *self.log_text().splitlines()[-40:]])


def _file_settings(offsets: Path) -> dict[str, str]:
    return {"offset.storage.file.filename": str(offsets)}


def _group_settings(group: str) -> dict[str, str]:
    topics = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    replication_factors = {
        f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")
    }
    return {"group.id": group, **topics, **replication_factors}


def _is_running(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
