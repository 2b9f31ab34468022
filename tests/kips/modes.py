"""The simulated clusters: one standalone worker, and a group of three distributed workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from actors.assembly import Assembly
from actors.runtime.mailbox import Address
from kraal.core.ids import ConnectorName, TaskId
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.engine import FakeEngine, Outside
from kraal.testing._simulation.worker import WORKER_ID, EmbeddedWorker
from tests.kips.connect_cluster import ConnectCluster, ConnectorContexts, Json, Response

if TYPE_CHECKING:
    from kraal.stores.memory import MemoryLog


class OneWorker(ConnectCluster):
    """A standalone worker."""

    mode = "standalone"

    def __init__(
        self,
        connector_contexts: ConnectorContexts,
        seed: int,
        properties: Mapping[str, str] | None = None,
        **rest_settings: Any,
    ) -> None:
        super().__init__(connector_contexts, seed, properties, **rest_settings)
        self._started_workers: list[EmbeddedWorker] = []
        self._outside = Outside()
        self._start({})

    def _start(self, stores: Json) -> None:
        engine = FakeEngine(outside=self._outside)
        self.worker = EmbeddedWorker(seed=self.seed, engine=engine, properties=self.properties, **stores)
        self._started_workers.append(self.worker)
        self.scheduler = self.worker.scheduler
        self.config_log, self.status_log = (
            _as_memory_log(self.worker.config_log),
            _as_memory_log(self.worker.status_log),
        )

    @override
    def workers(self) -> Mapping[str, Assembly]:
        return {f"http://{WORKER_ID}/": self.worker.assembly}

    @override
    def leader(self) -> str:
        return f"http://{WORKER_ID}/"

    @override
    def engines(self) -> list[FakeEngine]:
        return [worker.fake for worker in self._started_workers]

    @override
    def addresses(self, actor: str, url: str | None) -> list[Address]:
        return [address for address in self.scheduler.addresses() if address.name == actor]

    @override
    def advance_until_idle(self) -> None:
        self.worker.advance(1)

    @override
    def restart_workers(self, *, is_graceful: bool = True) -> None:
        if is_graceful:
            self.worker.close()
        previous_worker = self.worker
        for task in previous_worker.fake.running:  # the process of these tasks has exited
            previous_worker.fake.abandon(task)
        stores = {
            "config_log": previous_worker.config_log,
            "status_log": previous_worker.status_log,
            "offsets": previous_worker.offsets,
        }
        self._start(stores)
        self.advance_until_idle()


class ThreeWorkers(ConnectCluster):
    """A group of three distributed workers."""

    mode = "distributed"

    def __init__(
        self,
        connector_contexts: ConnectorContexts,
        seed: int,
        properties: Mapping[str, str] | None = None,
        **rest_settings: Any,
    ) -> None:
        super().__init__(connector_contexts, seed, properties, **rest_settings)
        self.cluster = EmbeddedCluster(3, seed=seed, properties=self.properties)
        self.scheduler = self.cluster.scheduler
        self.config_log, self.status_log = self.cluster.config_log, self.cluster.status_log
        self.cluster.settle()

    @override
    def workers(self) -> Mapping[str, Assembly]:
        return {worker.url: worker.assembly for worker in self.cluster.alive}

    @override
    def leader(self) -> str:
        return self.cluster.leader.url

    @override
    def engines(self) -> list[FakeEngine]:
        return [worker.engine for worker in sorted(self.cluster.workers, key=lambda worker: worker.alive)]

    @override
    def addresses(self, actor: str, url: str | None) -> list[Address]:
        return [worker._host.address(actor) for worker in self.cluster.alive if url in (None, worker.url)]

    @override
    def advance_until_idle(self) -> None:
        self.cluster.advance(4)

    @override
    def restart_workers(self, *, is_graceful: bool = True) -> None:
        for worker in self.cluster.alive:
            if is_graceful:
                self.cluster.close(worker)
            else:
                self.cluster.kill(worker)
        for _ in range(3):
            self.cluster.add()
        self.cluster.advance(20)

    @override
    def request_and_watch(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        watch: str = "",
        via: str | None = None,
        on_all_workers: bool = False,
    ) -> tuple[Response, list[Any]]:
        result = super().request_and_watch(
            method, path, body, watch=watch, via=via, on_all_workers=on_all_workers
        )
        self.cluster.check()
        return result

    def owner(self, name: str, task: int | None = None) -> str:
        """Return the URL of the worker that runs the instance of a connector, or the given task of the connector."""
        connector = ConnectorName(name)
        [worker] = self.cluster.owners(connector if task is None else TaskId(connector, task))
        return worker.url


def _as_memory_log(log: Any) -> MemoryLog:
    memory_log: MemoryLog = log
    return memory_log
