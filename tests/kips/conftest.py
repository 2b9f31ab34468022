"""Stages for the tests of KIPs, in both modes unless the quoted sentence applies to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from kraal.peers import Peers
from kraal.testing._simulation.plugins import FakeSourceConnector
from tests.kips.modes import OneWorker, ThreeWorkers
from tests.kips.stage import ConnectorContexts, Stage

if TYPE_CHECKING:
    import httpx2

    from kraal.plugins.api import ConnectorContext

SEEDS = (1, 2)
MODES: dict[str, type[Stage]] = {"standalone": OneWorker, "distributed": ThreeWorkers}


class Wire:
    """Simulates the connections between the workers of the last created stage."""

    def __init__(self, stages: list[Stage]) -> None:
        self._stages = stages

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._stages[-1].between_workers(request)

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.fixture
def make_stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Stage]]:
    """Return a factory of stages: `make_stage(kind, seed, properties=…, web settings…)`."""
    outlook = ConnectorContexts()
    stages: list[Stage] = []
    start = FakeSourceConnector.start

    def record_context(
        self: FakeSourceConnector, config: Mapping[str, str], context: ConnectorContext
    ) -> None:
        outlook.contexts[config["name"]] = context
        start(self, config, context)

    def make(kind: type[Stage], seed: int, properties: Mapping[str, str] | None = None, **web: Any) -> Stage:
        stages.append(kind(outlook, seed, properties, **web))
        return stages[-1]

    FakeSourceConnector.calls.clear()
    monkeypatch.setattr(FakeSourceConnector, "start", record_context)
    monkeypatch.setattr(Peers, "_transport", lambda *_: Wire(stages))
    yield make
    for stage in stages:
        stage.close()


@pytest.fixture(params=SEEDS, ids=lambda seed: f"seed {seed}")
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Return the name of each mode."""
    return str(request.param)


@pytest.fixture
def stages(mode: str, seed: int, make_stage: Callable[..., Stage]) -> Callable[..., Stage]:
    """Return a factory of stages with properties, in both modes."""
    return lambda properties=None, **web: make_stage(MODES[mode], seed, properties, **web)


@pytest.fixture
def stage(stages: Callable[..., Stage]) -> Stage:
    """Return a stage, in both modes."""
    return stages()


@pytest.fixture
def standalone(make_stage: Callable[..., OneWorker], seed: int) -> OneWorker:
    """Return one worker."""
    return make_stage(OneWorker, seed)


@pytest.fixture
def distributed(make_stage: Callable[..., ThreeWorkers], seed: int) -> ThreeWorkers:
    """Return three workers."""
    return make_stage(ThreeWorkers, seed)
