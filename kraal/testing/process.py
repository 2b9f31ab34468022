"""A worker as a process of its own, for tests of what only processes show: signals, kill -9, restarts, sockets.

    worker = WorkerProcess(tmp_path, bootstrap)
    worker.start()
    worker.create("numbers", {"connector.class": "FileStreamSource", "file": "/tmp/numbers", "topic": "numbers"})
    worker.wait_for_states("numbers", ["RUNNING", "RUNNING"])
    worker.kill()
    worker.start()  # with the same files
    assert worker.end() == 0

REST is on a free port of loopback, another one after each start. Every wait has a deadline, and its error ends
with the end of the worker's log, and with what its threads are doing.
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

from kraal import stacks
from kraal.ids import Config
from kraal.testing.stacks import stacks_of

PATIENCE_S = 240.0
"""How long most things may take: Spark starts slowly on a busy machine."""
END_S = 30.0
_EVERY_S = 0.05
_LISTENS = re.compile(r"REST listens at (http://\S+)/ ")
_PACKAGES = str(Path(__file__).parents[2])
_STRING = "org.apache.kafka.connect.storage.StringConverter"


@dataclass(frozen=True, slots=True)
class Answer:
    """What REST said: `body` is parsed JSON, None when there was no body."""

    status: int
    body: Any


class WorkerProcess:
    """`kraal standalone` or `kraal distributed`, its files in one directory; may be started again and again.

    Not thread-safe.
    """

    stacks_signal = stacks.SIGNAL
    """Has the process write its stacks to its log."""

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        *,
        properties: Mapping[str, str] | None = None,
        connectors: Sequence[Path] = (),
        group: str | None = None,
    ) -> None:
        """Describe the worker; nothing is started.

        Args:
            directory: where its properties file, log, offsets and data directory are; made when missing.
            bootstrap: `bootstrap.servers`.
            properties: worker properties that win over ours.
            connectors: connector files for the command line of a standalone worker.
            group: `group.id` of a distributed worker, also the start of its topics' names; None: standalone.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.log = directory / "worker.log"
        self.offset_file = directory / "offsets"
        self.properties = {
            "bootstrap.servers": bootstrap,
            "key.converter": _STRING,
            "value.converter": _STRING,
            "listeners": "http://127.0.0.1:0",
            **(_own_files(self.offset_file) if group is None else _of_group(group)),
            **(properties or {}),
        }
        """Changes count from the next start on."""
        self.connectors = list(connectors)
        """The same."""
        self._mode = "standalone" if group is None else "distributed"
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._known: dict[int, psutil.Process] = {}
        self._client: httpx2.Client | None = None

    # --- the process ----------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The process, also after its end. Raises RuntimeError before the first start."""
        return self._started().pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, negative for a signal; None while it runs. Raises RuntimeError before the first start."""
        return self._started().poll()

    @property
    def alive(self) -> bool:
        """Whether it was started and runs."""
        return self._popen is not None and self._popen.poll() is None

    def launch(self) -> None:
        """Start the process; for a worker that is expected not to come up. Else `start`."""
        if self.alive:
            raise RuntimeError(f"the worker runs already, as process {self.pid}")
        path = self.directory / "worker.properties"
        path.write_text("".join(f"{k}={v}\n" for k, v in self.properties.items()), encoding="utf-8")
        search = os.pathsep.join(filter(None, [_PACKAGES, os.environ.get("PYTHONPATH")]))
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._close_client()
        with self.log.open("ab") as output:
            self._popen = subprocess.Popen(
                self._command(path),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=os.environ | {"PYTHONPATH": search},
                start_new_session=True,  # so that what outlives it can be found
            )
        self._known = {self._popen.pid: psutil.Process(self._popen.pid)}

    def start(self, timeout_s: float = PATIENCE_S) -> None:
        """Start the process and wait until REST answers."""
        self.launch()
        self.wait_until("REST listened", lambda: self._url() is not None, timeout_s=timeout_s)
        self._client = httpx2.Client(base_url=self.url, timeout=PATIENCE_S, trust_env=False)
        self.wait_until("REST answered", self._answers, timeout_s=timeout_s)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        self._started().send_signal(number)

    def wait(self, timeout_s: float = END_S) -> int:
        """Wait until the process has ended; return its exit code, negative for a signal."""
        with suppress(subprocess.TimeoutExpired):
            return self._started().wait(timeout_s)
        raise AssertionError(f"the worker did not end in {timeout_s:g} s\n{self.evidence()}")

    def end(self, timeout_s: float = END_S) -> int:
        """End the process by SIGTERM; return its exit code."""
        self.tree()
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> list[psutil.Process]:
        """End the process by SIGKILL; return what it has left behind, which should soon end by itself."""
        self.tree()
        self.signal(signal.SIGKILL)
        self.wait()
        return self.tree()

    def close(self) -> None:
        """End everything that any start has left running; for the end of a test."""
        self._close_client()
        if self._popen is None:
            return
        left = self.tree()
        for process in left:
            with suppress(psutil.Error):
                process.kill()  # psutil looks whether the pid still is that process
        psutil.wait_procs(left, timeout=10)
        self._popen.wait(END_S)

    def tree(self) -> list[psutil.Process]:
        """Return the living processes of the last start: the worker, and all that it started."""
        session = self.pid
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if os.getsid(process.pid) == session:
                    self._known.setdefault(process.pid, process)
        for process in list(self._known.values()):
            with suppress(psutil.Error):
                self._known |= {child.pid: child for child in process.children(recursive=True)}
        return [process for process in self._known.values() if _lives(process)]

    def jvm(self) -> psutil.Process | None:
        """Return the process of Spark's JVM while there is one."""
        if self.alive:
            with suppress(psutil.Error):
                for child in psutil.Process(self.pid).children():
                    if "org.apache.spark.deploy.SparkSubmit" in child.cmdline():
                        return child
        return None

    def log_text(self) -> str:
        """Return what the process has printed since its last start."""
        if not self.log.exists():
            return ""
        return self.log.read_bytes()[self._log_start :].decode(errors="replace")

    # --- REST -----------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where REST is, without a slash at the end. Raises RuntimeError before it listens."""
        url = self._url()
        if url is None:
            raise RuntimeError("the worker does not listen yet")
        return url

    def request(self, method: str, path: str, body: object = None) -> Answer:
        """Ask REST; `body` is sent as JSON unless None."""
        if self._client is None:
            raise RuntimeError("the worker was not started")
        try:
            answer = self._client.request(method, path, json=body)  # None sends no body
        except httpx2.TimeoutException as exc:
            exc.add_note(self.evidence())
            raise
        return Answer(answer.status_code, answer.json() if answer.content else None)

    def get(self, path: str) -> Answer:
        """GET."""
        return self.request("GET", path)

    def put(self, path: str, body: object = None) -> Answer:
        """PUT."""
        return self.request("PUT", path, body)

    def post(self, path: str, body: object = None) -> Answer:
        """POST."""
        return self.request("POST", path, body)

    def delete(self, path: str) -> Answer:
        """DELETE."""
        return self.request("DELETE", path)

    def ask(self, method: str, path: str, body: object = None, timeout_s: float = PATIENCE_S) -> Answer:
        """Ask REST, again as long as a rebalance makes it refuse (409), as clients of Connect do."""
        deadline = time.monotonic() + timeout_s
        while True:
            answer = self.request(method, path, body)
            conflict = answer.status == httpx2.codes.CONFLICT and "Cannot complete request" in str(
                answer.body
            )
            if not conflict or time.monotonic() > deadline:
                return answer
            time.sleep(_EVERY_S)

    def create(self, name: str, config: Config, **more: object) -> Answer:
        """Create a connector. Raises AssertionError when it was refused; `more` are fields of the request."""
        answer = self.ask("POST", "/connectors", {"name": name, "config": config, **more})
        assert answer.status == httpx2.codes.CREATED, answer  # noqa: S101 - a test's own assertion
        return answer

    def states(self, name: str) -> list[str]:
        """Return the states of a connector and its tasks, in order; nothing while it has no status."""
        answer = self.get(f"/connectors/{name}/status")
        if answer.status != httpx2.codes.OK:
            return []
        return [each["state"] for each in (answer.body["connector"], *answer.body["tasks"])]

    def traces(self, name: str) -> list[str]:
        """Return the traces of a connector and its tasks, where they have one."""
        body = self.get(f"/connectors/{name}/status").body
        return [each["trace"] for each in (body["connector"], *body["tasks"]) if "trace" in each]

    # --- waiting --------------------------------------------------------------------------------------------

    def wait_for_states(self, name: str, states: Sequence[str], timeout_s: float = PATIENCE_S) -> None:
        """Wait until a connector and its tasks have these states, in order."""
        self.wait_until(
            f"{name} was {list(states)}", lambda: self.states(name) == list(states), timeout_s=timeout_s
        )

    def wait_until(self, what: str, done: Callable[[], bool], *, timeout_s: float = PATIENCE_S) -> None:
        """Wait until `done()`. Raises AssertionError after `timeout_s`, or when the worker ends meanwhile."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if not self.alive:
                raise AssertionError(f"the worker ended ({self.exit_code}) before {what}\n{self._tail()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"it took more than {timeout_s:g} s until {what}\n{self.evidence()}")
            time.sleep(_EVERY_S)

    def evidence(self) -> str:
        """Return the end of the log, and what the threads are doing, which the process is asked to write there."""
        tail = self._tail()
        return f"{tail}\n{stacks_of(self.pid, self.log, self.stacks_signal)}" if self.alive else tail

    # --- own ------------------------------------------------------------------------------------------------

    def _command(self, properties: Path) -> list[str]:
        """Return what starts the worker; other kinds of workers have another command."""
        code = "from kraal.cli import main; main()"
        return [sys.executable, "-c", code, self._mode, str(properties), *map(str, self.connectors)]

    def _started(self) -> subprocess.Popen[bytes]:
        if self._popen is None:
            raise RuntimeError("the worker was never started")
        return self._popen

    def _url(self) -> str | None:
        found = _LISTENS.search(self.log_text())
        return found[1] if found else None

    def _answers(self) -> bool:
        with suppress(httpx2.TransportError):
            return self.get("/").status == httpx2.codes.OK
        return False

    def _close_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _tail(self) -> str:
        return "\n".join(["the end of its log:", *self.log_text().splitlines()[-40:]])


def _own_files(offsets: Path) -> dict[str, str]:
    return {"offset.storage.file.filename": str(offsets)}


def _of_group(group: str) -> dict[str, str]:
    topics = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    copies = {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
    return {"group.id": group, **topics, **copies}


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
