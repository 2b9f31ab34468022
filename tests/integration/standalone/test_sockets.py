"""Tests that a worker listens only on loopback and only on expected ports (docs/security.md)."""

from __future__ import annotations

from collections import defaultdict

import psutil

from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import Pipe


def find_listening_sockets(worker: WorkerProcess) -> dict[str, list[tuple[str, int]]]:
    """Return the listening sockets of the worker's processes by kind of process."""
    sockets: dict[str, list[tuple[str, int]]] = defaultdict(list)
    jvm = worker.jvm()
    for process in worker.tree():
        role = "worker" if process.pid == worker.pid else "jvm" if process == jvm else "python"
        for connection in process.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                sockets[role].append((connection.laddr.ip, connection.laddr.port))
    return dict(sockets)


def test_process_tree_listens_only_on_expected_loopback_ports(pipe: Pipe) -> None:
    worker = pipe.worker
    pipe.write(10_000)  # also uses Spark's Python workers
    worker.wait_until("all lines were transferred", pipe.is_through_exactly)
    sockets = find_listening_sockets(worker)
    assert {ip for addresses in sockets.values() for ip, _ in addresses} <= {
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
    }
    rest_port = int(worker.url.rpartition(":")[2])
    assert rest_port in {port for _, port in sockets["worker"]}
    assert len(sockets["worker"]) == 2, "REST and PySpark's accumulators"
    assert len(sockets["jvm"]) == 3, "py4j, Spark's driver and its block manager"
