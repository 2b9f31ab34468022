"""A worker process with real actors, threads and sockets, a fake engine and in-memory logs."""

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
from kraal.protocol.signature import generate_key
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.worker.resources import raise_open_files_limit
from tests.fakes.workers.rest_worker import rest_worker
from web.middleware.admission import Limits

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

START_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class LoadedWorker:
    """A running worker, with its REST port and its process."""

    port: int
    process: psutil.Process

    def peak_mb(self) -> float:
        """Return the peak memory of the process in MB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        peak = next(line for line in lines if line.startswith("VmHWM:"))
        return int(peak.split()[1]) / 1024


def make_config(name: str, tasks: int = 1, **settings: str) -> dict[str, str]:
    """Return a config for the fake source."""
    return {"name": name, "connector.class": FAKE_SOURCE, "tasks.max": str(tasks), **settings}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The configuration of a worker."""

    records: int = 0
    """Number of records in the worker's config log at startup."""
    connectors: int = 100
    """Number of connectors to which the records belong."""
    distributed: bool = False
    limits: Limits = field(default_factory=Limits)


@contextmanager
def loaded_worker(setup: Setup | None = None) -> Iterator[LoadedWorker]:
    """Run a worker in a separate process; by default, it is standalone with an empty log and the default limits."""
    context = multiprocessing.get_context("spawn")
    parent_pipe, child_pipe = context.Pipe()
    process = context.Process(target=_serve, args=(child_pipe, setup or Setup()), daemon=True)
    process.start()
    try:
        if not parent_pipe.poll(START_TIMEOUT_S):
            raise TimeoutError(f"the worker did not listen within {START_TIMEOUT_S:g} s")
        yield LoadedWorker(urlsplit(parent_pipe.recv()).port or 0, psutil.Process(process.pid))
        parent_pipe.send("end")
        process.join(30)
    finally:
        if process.is_alive():
            process.kill()
        process.join()


def _serve(pipe: Connection, setup: Setup) -> None:
    raise_open_files_limit()
    log = MemoryLog("config")
    if setup.distributed:  # requests between workers are signed
        log.append([Entry(*encode(generate_key(0)))])
    if setup.records:
        log.append(list(_make_old_records(setup.records, setup.connectors)))
    with rest_worker(config_log=log, distributed=setup.distributed, limits=setup.limits) as worker:
        pipe.send(worker.url)
        pipe.recv()


def _make_old_records(records: int, connectors: int) -> Sequence[Entry]:
    """Return repeated config records of all connectors, followed by target states that stop them."""
    names = [f"old-{number}" for number in range(connectors)]
    configs = [
        Entry(f"connector-{name}", json.dumps({"properties": make_config(name)}).encode()) for name in names
    ]
    target_states = [
        Entry(f"target-state-{name}", b'{"state":"PAUSED","state.v2":"STOPPED"}') for name in names
    ]
    return [configs[number % connectors] for number in range(records - connectors)] + target_states
