"""A worker listens on loopback only, and on nothing that no one asked for (DESIGN.md, "Closed by default")."""

from __future__ import annotations

from collections import defaultdict

import psutil

from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import Pipe


def listening(worker: WorkerProcess) -> dict[str, list[tuple[str, int]]]:
    """Address and port of every listening socket of the worker's processes, by what the process is."""
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    jvm = worker.jvm()
    for process in worker.tree():
        role = "worker" if process.pid == worker.pid else "jvm" if process == jvm else "python"
        for each in process.net_connections("inet"):
            if each.status == psutil.CONN_LISTEN:
                found[role].append((each.laddr.ip, each.laddr.port))
    return dict(found)


def test_the_whole_tree_listens_on_loopback_and_only_where_it_must(pipe: Pipe) -> None:
    worker = pipe.worker
    pipe.write(10_000)  # also through Spark's Python processes
    worker.wait_until("lines came out", pipe.is_through_exactly)
    sockets = listening(worker)
    assert {ip for each in sockets.values() for ip, _ in each} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    rest = int(worker.url.rpartition(":")[2])
    assert rest in {port for _, port in sockets["worker"]}
    assert len(sockets["worker"]) == 2, "REST, and PySpark's accumulators"
    assert len(sockets["jvm"]) == 3, "py4j, Spark's driver, its blocks"
