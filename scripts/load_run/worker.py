"""A worker of real actors, threads and sockets in a process of its own, with a fake engine and logs in memory."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil

from kraal.core.records import Entry
from kraal.protocol.records import encode
from kraal.protocol.signature import new_key
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.worker.resources import open_as_many_as_allowed
from tests.fakes.workers.rest_worker import rest_worker
from web.middleware.admission import Limits

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

START_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class LoadedWorker:
    """Where it listens, and how much it takes."""

    port: int
    process: psutil.Process

    def peak_mb(self) -> float:
        """Return the most memory that the process has had since it started, in MB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        peak = next(line for line in lines if line.startswith("VmHWM:"))
        return int(peak.split()[1]) / 1024


def make_config(name: str, tasks: int = 1, **more: str) -> dict[str, str]:
    """Return a config for the fake source."""
    return {"name": name, "connector.class": FAKE_SOURCE, "tasks.max": str(tasks), **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a worker is like."""

    records: int = 0
    """What its config log has at the start."""
    connectors: int = 100
    """Of which those records are."""
    distributed: bool = False
    limits: Limits = field(default_factory=Limits)


@contextmanager
def loaded_worker(shape: Shape | None = None) -> Iterator[LoadedWorker]:
    """Start one; None: alone, with an empty log and the usual limits."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, shape or Shape()), daemon=True)
    process.start()
    try:
        if not ours.poll(START_TIMEOUT_S):
            raise TimeoutError(f"the worker did not listen within {START_TIMEOUT_S:g} s")
        yield LoadedWorker(urlsplit(ours.recv()).port or 0, psutil.Process(process.pid))
        ours.send("end")
        process.join(30)
    finally:
        if process.is_alive():
            process.kill()
        process.join()


def _serve(pipe: Connection, shape: Shape) -> None:
    open_as_many_as_allowed()
    log = MemoryLog("config")
    if shape.distributed:  # its requests are signed
        log.append([Entry(*encode(new_key(0)))])
    if shape.records:
        log.append(list(_old(shape.records, shape.connectors)))
    with rest_worker(config_log=log, distributed=shape.distributed, limits=shape.limits) as worker:
        pipe.send(worker.url)
        pipe.recv()


def _old(records: int, connectors: int) -> Sequence[Entry]:
    """Return records of configs, one after the other, again and again; all are STOPPED."""
    names = [f"old-{number}" for number in range(connectors)]
    turn = [
        Entry(f"connector-{name}", json.dumps({"properties": make_config(name)}).encode()) for name in names
    ]
    last = [Entry(f"target-state-{name}", b'{"state":"PAUSED","state.v2":"STOPPED"}') for name in names]
    return [turn[number % connectors] for number in range(records - connectors)] + last
