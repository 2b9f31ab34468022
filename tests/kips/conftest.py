"""Simulated Connect clusters for the tests of KIPs, in both modes unless the quoted sentence applies to only one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from kraal.peers import Peers
from kraal.testing._simulation.plugins import FakeSourceConnector
from tests.kips.connect_cluster import ConnectCluster, ConnectorContexts
from tests.kips.modes import OneWorker, ThreeWorkers

if TYPE_CHECKING:
    import httpx2

    from kraal.plugins.api import ConnectorContext

SEEDS = (1, 2)
MODES: dict[str, type[ConnectCluster]] = {"standalone": OneWorker, "distributed": ThreeWorkers}


class SimulatedTransport:
    """The connections between the workers of the cluster that was created last."""

    def __init__(self, clusters: list[ConnectCluster]) -> None:
        self._clusters = clusters

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._clusters[-1].forward(request)

    async def aclose(self) -> None:
        """No-op."""


@pytest.fixture
def make_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ConnectCluster]]:
    """Yield a factory of clusters: `make_cluster(kind, seed, properties, **rest_settings)`."""
    connector_contexts = ConnectorContexts()
    clusters: list[ConnectCluster] = []
    start = FakeSourceConnector.start

    def record_context(
        self: FakeSourceConnector, config: Mapping[str, str], context: ConnectorContext
    ) -> None:
        connector_contexts.contexts[config["name"]] = context
        start(self, config, context)

    def make(
        kind: type[ConnectCluster],
        seed: int,
        properties: Mapping[str, str] | None = None,
        **rest_settings: Any,
    ) -> ConnectCluster:
        clusters.append(kind(connector_contexts, seed, properties, **rest_settings))
        return clusters[-1]

    FakeSourceConnector.calls.clear()
    monkeypatch.setattr(FakeSourceConnector, "start", record_context)
    monkeypatch.setattr(Peers, "_transport", lambda *_: SimulatedTransport(clusters))
    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture(params=SEEDS, ids=lambda seed: f"seed {seed}")
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Return the name of a mode."""
    return str(request.param)


@pytest.fixture
def make_connect(
    mode: str, seed: int, make_cluster: Callable[..., ConnectCluster]
) -> Callable[..., ConnectCluster]:
    """Return a factory `make_connect(properties, **rest_settings)` of clusters, in both modes."""
    return lambda properties=None, **rest_settings: make_cluster(
        MODES[mode], seed, properties, **rest_settings
    )


@pytest.fixture
def connect(make_connect: Callable[..., ConnectCluster]) -> ConnectCluster:
    """Return a cluster with the default properties, in both modes."""
    return make_connect()


@pytest.fixture
def standalone(make_cluster: Callable[..., OneWorker], seed: int) -> OneWorker:
    """Return a standalone worker."""
    return make_cluster(OneWorker, seed)


@pytest.fixture
def distributed(make_cluster: Callable[..., ThreeWorkers], seed: int) -> ThreeWorkers:
    """Return a group of three distributed workers."""
    return make_cluster(ThreeWorkers, seed)
