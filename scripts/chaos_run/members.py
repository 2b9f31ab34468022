"""A broker and workers as processes, each worker connected to the broker through its own proxy."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
from typing_extensions import override

from kraal.broker.broker import HOST, Broker, free_port
from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from scripts.chaos_run.disk import Disk
from scripts.chaos_run.leaks import Resources
from scripts.chaos_run.proxy import Proxy
from scripts.chaos_run.spark_ui import SparkUi

START_TIMEOUT_S: Final = 600.0
BROKER_TIMEOUT_S: Final = 300.0
"""Timeouts for startup, which are generous for a machine under load."""
CONTROL_TIMEOUT_S: Final = 5.0
PROPERTIES: Final = {
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "1000",
    "offset.storage.partitions": "1",
    "errors.auto.restart": "all",
    "errors.auto.restart.max": "1000",
    "errors.auto.restart.backoff.ms": "500",
    "kraal.spark.warmup.enabled": "true",
    "kraal.test.control.port": "0",
}
"""Additional worker properties, with which losses are detected within seconds, and tasks that fail because of a
temporary fault are restarted automatically."""
_CONTROL: Final = re.compile(r"test control port at [\d.]+:(\d+)")
_LANES: Final = {
    "started": "Started the lane for small batches",
    "ended": "The lane for small batches has ended:",
    "batch repeated by a job": "Repeating a batch with a Spark job:",
}
"""Log messages of workers about their lanes by event; none if a lane ends with its JVM."""
_DIED: Final = re.compile(r"\S.* died (?:\(.*\); restarting|\d+ times in).*")


class Member:
    """One worker, which is restarted repeatedly in its directory. Only queries are thread-safe."""

    def __init__(self, number: int, process: WorkerProcess, data: Path, proxy: Proxy, ui_port: int) -> None:
        """Create the member without starting its process."""
        self.number = number
        self.process = process
        self.proxy = proxy
        self.data = data
        """Its data directory."""
        self.ui = SparkUi(ui_port)
        self.url: str | None = None
        """URL of the REST API; None while the worker is down."""
        self.left: list[psutil.Process] = []
        """Processes that it left behind when it was killed, and that should exit by themselves."""
        self._control: int | None = None

    @override
    def __str__(self) -> str:
        return f"worker {self.number}"

    @property
    def worker_id(self) -> str:
        """The worker id in statuses; empty while the worker is down."""
        return (self.url or "").partition("//")[2]

    def start(self) -> None:
        """Start the worker and wait for REST and the control port. Raises AssertionError."""
        self.process.start(START_TIMEOUT_S)
        self.process.wait_until(
            "the control port listened", lambda: bool(_CONTROL.search(self._read_output()))
        )
        match = _CONTROL.search(self._read_output())
        self._control = int(match[1]) if match else None
        self.url = self.process.url

    def kill(self) -> None:
        """Kill the worker with SIGKILL."""
        self.url, self._control = None, None
        self.left += self.process.kill()

    def end(self) -> int:
        """Stop the worker with SIGTERM; return its exit code. Raises AssertionError if it does not exit."""
        self.url, self._control = None, None
        code = self.process.end(90.0)
        self.left += self.process.tree()
        return code

    def control(self, **request: str | float) -> dict[str, Any]:
        """Send a request to the control port; the response has `error` if the worker is down or frozen."""
        port = self._control
        if port is None:
            return {"error": "it is down"}
        try:
            with socket.create_connection((HOST, port), timeout=CONTROL_TIMEOUT_S) as connection:
                connection.sendall(json.dumps(request).encode() + b"\n")
                response: dict[str, Any] = json.loads(connection.makefile("rb").readline())
        except (OSError, ValueError) as exc:
            return {"error": f"it does not respond: {exc!r}"}
        return response

    def get_resources(self) -> Resources | None:
        """Return the worker's resources; None if it does not respond."""
        threads = self.control(do="threads")
        if "error" in threads:
            return None
        with suppress(psutil.Error):
            process = psutil.Process(self.process.pid)
            return Resources(
                names=tuple(threads["threads"]),
                threads=_thread_names(process.pid),
                files=process.num_fds(),
                processes=sum(not _is_pool_process(each) for each in self.process.tree()),
            )
        return None

    def deaths(self, reason: str) -> list[str]:
        """Return the log lines about actors that died for any other reason than `reason`."""
        text = self.process.log.read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if _DIED.search(line)]
        return [f"{self}: {line}" for line in lines if reason not in line]

    def lanes(self) -> Counter[str]:
        """Count the events of the worker's lanes in its log."""
        text = self.process.log.read_text(encoding="utf-8", errors="replace")
        return Counter({event: count for event, words in _LANES.items() if (count := text.count(words))})

    def _read_output(self) -> str:
        return self.process.log_text()


class Members:
    """The broker, all workers, and their disk; each worker has its own proxy and data directory."""

    def __init__(self, directory: Path, workers: int) -> None:
        """Open the proxies without starting processes."""
        ways = [free_port() for _ in range(workers)]
        proxies = [Proxy(port) for port in ways]
        port = free_port()
        self.broker = Broker(
            directory / "kafka",
            port,
            extra=_listeners(port, ways, [proxy.port for proxy in proxies]),
            start_timeout_s=BROKER_TIMEOUT_S,
        )
        self._cluster = ProcessCluster(
            workers, directory=directory, broker=self.broker, properties=PROPERTIES
        )
        self.group = self._cluster.group
        self.disk = Disk(directory / "disk")
        self.all = [self._member(number, proxy) for number, proxy in enumerate(proxies)]

    def start(self) -> None:
        """Create the disk, start the broker, and then start all workers in parallel."""
        self.disk.open()
        for each in self.all:
            each.data.mkdir()
        self.broker.start()
        with ThreadPoolExecutor() as threads:
            list(threads.map(Member.start, self.all))

    def up(self) -> list[Member]:
        """Return the workers with a REST API."""
        return [each for each in self.all if each.url is not None]

    def close(self) -> None:
        """Stop the remaining processes, and keep the disk's files."""
        self._cluster.close()
        for each in self.all:
            each.proxy.close()
        self.disk.close()

    def _member(self, number: int, proxy: Proxy) -> Member:
        data, ui_port = self.disk.path / f"worker-{number}", free_port()
        worker_properties = {
            "bootstrap.servers": f"{HOST}:{proxy.port}",
            "kraal.data.dir": str(data),
            "spark.ui.enabled": "true",
            "spark.ui.port": str(ui_port),
        }
        return Member(number, self._cluster.add(worker_properties), data, proxy, ui_port)


def _listeners(port: int, ways: Sequence[int], proxies: Sequence[int]) -> dict[str, str]:
    """Return a listener for each worker, which advertises the address of the worker's proxy."""
    controller = free_port()
    names = [f"WORKER{n}" for n in range(len(ways))]
    listeners = [f"PLAINTEXT://{HOST}:{port}", f"CONTROLLER://{HOST}:{controller}"]
    listeners += [f"{name}://{HOST}:{way}" for name, way in zip(names, ways, strict=True)]
    advertised = [f"PLAINTEXT://{HOST}:{port}"]
    advertised += [f"{name}://{HOST}:{proxy}" for name, proxy in zip(names, proxies, strict=True)]
    return {
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", *names)
        ),
        "controller.quorum.voters": f"1@{HOST}:{controller}",
    }


def _thread_names(pid: int) -> tuple[str, ...]:
    """Return the names of all threads of a process, as known to the kernel; those of Python share a name."""
    names = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            names.append((task / "comm").read_text(encoding="utf-8", errors="replace").strip())
    return tuple(names)


def _is_pool_process(process: psutil.Process) -> bool:
    """Return whether this is one of Spark's Python workers, which start on demand and exit after a minute idle."""
    with suppress(psutil.Error):
        return any("pyspark.daemon" in part for part in process.cmdline())
    return True
