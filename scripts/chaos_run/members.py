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
"""Startup timeouts, which allow for a machine under load."""
CONTROL_TIMEOUT_S: Final = 5.0
LEDGER_TOPIC: Final = "chaos-ledger"
PROPERTIES: Final = {
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "1000",
    "offset.storage.partitions": "1",
    "errors.auto.restart": "all",
    "errors.auto.restart.max": "1000",
    "errors.auto.restart.backoff.ms": "500",
    "kraal.spark.warmup.enabled": "true",
    "kraal.test.control.port": "0",
    "ledger.storage.topic": LEDGER_TOPIC,
    "ledger.storage.replication.factor": "1",
}
"""Additional worker properties. With these properties, the groups of sinks detect the loss of a worker within seconds,
and tasks that fail because of a temporary fault are restarted automatically."""
_CONTROL_PORT_LINE: Final = re.compile(r"test control port at [\d.]+:(\d+)")
_LANE_MESSAGES: Final = {
    "started": "Started the lane for small batches",
    "ended": "The lane for small batches has ended:",
    "batch repeated by a job": "Repeating a batch with a Spark job:",
}
"""Log messages about lanes, by event. A lane that ends with its JVM logs no message."""
_DEATH_LINE: Final = re.compile(r"\S.* died (?:\(.*\); restarting|\d+ times in).*")


class Member:
    """A worker, which is restarted repeatedly with the same directory. Only queries are thread-safe."""

    def __init__(self, number: int, process: WorkerProcess, data: Path, proxy: Proxy, ui_port: int) -> None:
        """Create the member without starting its process."""
        self.number = number
        self.process = process
        self.proxy = proxy
        self.data = data
        """The worker's data directory."""
        self.ui = SparkUi(ui_port)
        self.url: str | None = None
        """URL of the REST API; None while the worker is down."""
        self.orphans: list[psutil.Process] = []
        """Child processes that were running when the worker was killed, and that must exit by themselves."""
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
            "the control port listened", lambda: bool(_CONTROL_PORT_LINE.search(self._read_output()))
        )
        match = _CONTROL_PORT_LINE.search(self._read_output())
        self._control = int(match[1]) if match else None
        self.url = self.process.url

    def kill(self) -> None:
        """Kill the worker with SIGKILL."""
        self.url, self._control = None, None
        self.orphans += self.process.kill()

    def end(self) -> int:
        """Stop the worker with SIGTERM; return its exit code. Raises AssertionError if it does not exit."""
        self.url, self._control = None, None
        code = self.process.end(90.0)
        self.orphans += self.process.tree()
        return code

    def control(self, **request: str | float) -> dict[str, Any]:
        """Send a request to the control port; the response has `error` if the worker is down or frozen."""
        port = self._control
        if port is None:
            return {"error": "the worker is down"}
        try:
            with socket.create_connection((HOST, port), timeout=CONTROL_TIMEOUT_S) as connection:
                connection.sendall(json.dumps(request).encode() + b"\n")
                response: dict[str, Any] = json.loads(connection.makefile("rb").readline())
        except (OSError, ValueError) as exc:
            return {"error": f"the worker does not respond: {exc!r}"}
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
                threads=_list_thread_names(process.pid),
                files=process.num_fds(),
                processes=sum(not _is_pool_process(child) for child in self.process.tree()),
            )
        return None

    def list_deaths(self, reason: str) -> list[str]:
        """Return the log lines about actors that died for any other reason than `reason`."""
        text = self.process.log.read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if _DEATH_LINE.search(line)]
        return [f"{self}: {line}" for line in lines if reason not in line]

    def count_lane_events(self) -> Counter[str]:
        """Count the events of the worker's lanes in its log."""
        text = self.process.log.read_text(encoding="utf-8", errors="replace")
        return Counter(
            {event: count for event, message in _LANE_MESSAGES.items() if (count := text.count(message))}
        )

    def _read_output(self) -> str:
        return self.process.log_text()


class Members:
    """The broker, the workers and their disk. Each worker has its own proxy and data directory."""

    def __init__(self, directory: Path, workers: int) -> None:
        """Open the proxies without starting processes."""
        listener_ports = [free_port() for _ in range(workers)]
        proxies = [Proxy(port) for port in listener_ports]
        port = free_port()
        self.broker = Broker(
            directory / "kafka",
            port,
            extra=_make_listeners(port, listener_ports, [proxy.port for proxy in proxies]),
            start_timeout_s=BROKER_TIMEOUT_S,
        )
        self._cluster = ProcessCluster(
            workers, directory=directory, broker=self.broker, properties=PROPERTIES
        )
        self.group = self._cluster.group
        self.disk = Disk(directory / "disk")
        self.all = [self._add_member(number, proxy) for number, proxy in enumerate(proxies)]

    def start(self) -> None:
        """Create the disk, start the broker, and then start all workers in parallel."""
        self.disk.open()
        for member in self.all:
            member.data.mkdir()
        self.broker.start()
        with ThreadPoolExecutor() as threads:
            list(threads.map(Member.start, self.all))

    def up(self) -> list[Member]:
        """Return the workers that are up."""
        return [member for member in self.all if member.url is not None]

    def close(self) -> None:
        """Stop the remaining processes, and keep the disk's files."""
        self._cluster.close()
        for member in self.all:
            member.proxy.close()
        self.disk.close()

    def _add_member(self, number: int, proxy: Proxy) -> Member:
        data, ui_port = self.disk.path / f"worker-{number}", free_port()
        worker_properties = {
            "bootstrap.servers": f"{HOST}:{proxy.port}",
            "kraal.data.dir": str(data),
            "spark.ui.enabled": "true",
            "spark.ui.port": str(ui_port),
        }
        return Member(number, self._cluster.add(worker_properties), data, proxy, ui_port)


def _make_listeners(port: int, listener_ports: Sequence[int], proxy_ports: Sequence[int]) -> dict[str, str]:
    """Return a listener for each worker, which advertises the address of the worker's proxy."""
    controller = free_port()
    names = [f"WORKER{n}" for n in range(len(listener_ports))]
    listeners = [f"PLAINTEXT://{HOST}:{port}", f"CONTROLLER://{HOST}:{controller}"]
    listeners += [
        f"{name}://{HOST}:{listener_port}" for name, listener_port in zip(names, listener_ports, strict=True)
    ]
    advertised = [f"PLAINTEXT://{HOST}:{port}"]
    advertised += [
        f"{name}://{HOST}:{proxy_port}" for name, proxy_port in zip(names, proxy_ports, strict=True)
    ]
    return {
        "listeners": ",".join(listeners),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", *names)
        ),
        "controller.quorum.voters": f"1@{HOST}:{controller}",
    }


def _list_thread_names(pid: int) -> tuple[str, ...]:
    """Return the kernel's names of all threads of a process. All Python threads have the same name in the kernel."""
    names = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            names.append((task / "comm").read_text(encoding="utf-8", errors="replace").strip())
    return tuple(names)


def _is_pool_process(process: psutil.Process) -> bool:
    """Return whether this is a Python worker of Spark, which starts on demand; True if the process has exited.

    Spark stops these processes after an idle minute.
    """
    with suppress(psutil.Error):
        return any("pyspark.daemon" in part for part in process.cmdline())
    return True
