"""A broker and workers as processes, each worker with a way of its own to the broker, through a proxy."""

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
from scripts.chaos_run.leaks import Held
from scripts.chaos_run.proxy import Proxy
from scripts.chaos_run.spark_ui import SparkUi

START_S: Final = 600.0
BROKER_S: Final = 300.0
"""How long starts may take on a machine that others use too: it is not for these that a run is lost."""
CONTROL_S: Final = 5.0
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
"""Next to the cluster's own, so that what is lost is noticed in seconds, and what fails for a fault that passes comes
back by itself."""
_CONTROL: Final = re.compile(r"test control port at [\d.]+:(\d+)")
_LANES: Final = {
    "started": "Started the lane for small batches",
    "ended": "The lane for small batches has ended:",
    "batch repeated by a job": "Repeating a batch by a job:",
}
"""What workers log about their lanes, by event; nothing of a lane that ends with its JVM."""
_DIED: Final = re.compile(r"\S.* died (?:\(.*\); restarting|\d+ times in).*")


class Member:
    """One worker, started again and again in its directory. One thread starts and kills it; any thread asks."""

    def __init__(self, number: int, process: WorkerProcess, data: Path, proxy: Proxy, ui_port: int) -> None:
        """Describe the worker; nothing is started."""
        self.number = number
        self.process = process
        self.proxy = proxy
        self.data = data
        """Its data directory."""
        self.ui = SparkUi(ui_port)
        self.url: str | None = None
        """Where REST is; None while the worker is down."""
        self.left: list[psutil.Process] = []
        """What it left behind when it was killed, and should have ended by itself."""
        self._control: int | None = None

    @override
    def __str__(self) -> str:
        return f"worker {self.number}"

    @property
    def worker_id(self) -> str:
        """What statuses call it; empty while it is down."""
        return (self.url or "").partition("//")[2]

    def start(self) -> None:
        """Start it and wait until REST and the control port are there. Raises AssertionError."""
        self.process.start(START_S)
        self.process.wait_until("the control port listened", lambda: bool(_CONTROL.search(self._said())))
        match = _CONTROL.search(self._said())
        self._control = int(match[1]) if match else None
        self.url = self.process.url

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.url, self._control = None, None
        self.left += self.process.kill()

    def end(self) -> int:
        """End it by SIGTERM; return its exit code. Raises AssertionError when it does not end."""
        self.url, self._control = None, None
        code = self.process.end(90.0)
        self.left += self.process.tree()
        return code

    def control(self, **request: str | float) -> dict[str, Any]:
        """Ask the control port; `error` is in the answer of a worker that is down, or frozen."""
        port = self._control
        if port is None:
            return {"error": "it is down"}
        try:
            with socket.create_connection((HOST, port), timeout=CONTROL_S) as connection:
                connection.sendall(json.dumps(request).encode() + b"\n")
                answer: dict[str, Any] = json.loads(connection.makefile("rb").readline())
        except (OSError, ValueError) as exc:
            return {"error": f"it does not answer: {exc!r}"}
        return answer

    def held(self) -> Held | None:
        """Return what it holds; None while it does not answer."""
        threads = self.control(do="threads")
        if "error" in threads:
            return None
        with suppress(psutil.Error):
            process = psutil.Process(self.process.pid)
            return Held(
                names=tuple(threads["threads"]),
                threads=_thread_names(process.pid),
                files=process.num_fds(),
                processes=sum(not _of_a_pool(each) for each in self.process.tree()),
            )
        return None

    def deaths(self, reason: str) -> list[str]:
        """Return what its log says of actors that died of anything but `reason`."""
        text = self.process.log.read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if _DIED.search(line)]
        return [f"{self}: {line}" for line in lines if reason not in line]

    def lanes(self) -> Counter[str]:
        """Count what its log says about its lanes, by event."""
        text = self.process.log.read_text(encoding="utf-8", errors="replace")
        return Counter({event: count for event, words in _LANES.items() if (count := text.count(words))})

    def _said(self) -> str:
        return self.process.log_text()


class Members:
    """The broker, all workers, and their disk: a cluster in which each worker has a way and a directory of its own."""

    def __init__(self, directory: Path, workers: int) -> None:
        """Open the proxies; nothing else is started."""
        ways = [free_port() for _ in range(workers)]
        proxies = [Proxy(port) for port in ways]
        port = free_port()
        self.broker = Broker(
            directory / "kafka",
            port,
            extra=_listeners(port, ways, [proxy.port for proxy in proxies]),
            patience_s=BROKER_S,
        )
        self._cluster = ProcessCluster(
            workers, directory=directory, broker=self.broker, properties=PROPERTIES
        )
        self.group = self._cluster.group
        self.disk = Disk(directory / "disk")
        self.all = [self._member(number, proxy) for number, proxy in enumerate(proxies)]

    def start(self) -> None:
        """Make the disk, start the broker, and then all workers side by side."""
        self.disk.open()
        for each in self.all:
            each.data.mkdir()
        self.broker.start()
        with ThreadPoolExecutor() as threads:
            list(threads.map(Member.start, self.all))

    def up(self) -> list[Member]:
        """Return the workers that have REST."""
        return [each for each in self.all if each.url is not None]

    def close(self) -> None:
        """End whatever is left, and keep the disk's files."""
        self._cluster.close()
        for each in self.all:
            each.proxy.close()
        self.disk.close()

    def _member(self, number: int, proxy: Proxy) -> Member:
        data, ui_port = self.disk.path / f"worker-{number}", free_port()
        own = {
            "bootstrap.servers": f"{HOST}:{proxy.port}",
            "kraal.data.dir": str(data),
            "spark.ui.enabled": "true",
            "spark.ui.port": str(ui_port),
        }
        return Member(number, self._cluster.add(own), data, proxy, ui_port)


def _listeners(port: int, ways: Sequence[int], proxies: Sequence[int]) -> dict[str, str]:
    """Give each worker a listener of its own, which tells clients to come through the worker's proxy."""
    controller = free_port()
    names = [f"WORKER{n}" for n in range(len(ways))]
    listens = [f"PLAINTEXT://{HOST}:{port}", f"CONTROLLER://{HOST}:{controller}"]
    listens += [f"{name}://{HOST}:{way}" for name, way in zip(names, ways, strict=True)]
    tells = [f"PLAINTEXT://{HOST}:{port}"]
    tells += [f"{name}://{HOST}:{proxy}" for name, proxy in zip(names, proxies, strict=True)]
    return {
        "listeners": ",".join(listens),
        "advertised.listeners": ",".join(tells),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", *names)
        ),
        "controller.quorum.voters": f"1@{HOST}:{controller}",
    }


def _thread_names(pid: int) -> tuple[str, ...]:
    """Return what the kernel calls the threads of a process; Python's have its own name."""
    names = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            names.append((task / "comm").read_text(encoding="utf-8", errors="replace").strip())
    return tuple(names)


def _of_a_pool(process: psutil.Process) -> bool:
    """Whether it is one of Spark's Python processes, which come with work and go after a minute without it."""
    with suppress(psutil.Error):
        return any("pyspark.daemon" in part for part in process.cmdline())
    return True
