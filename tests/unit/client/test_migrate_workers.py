"""`kraal migrate` between two workers with all their actors, over sockets (KIP-980, KIP-875)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from kraal.cli.main import main
from kraal.client.migrate import Cluster, migrate
from kraal.core.ids import ConnectorName, TaskId
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from tests.fakes.workers.rest_worker import RestWorker, rest_worker

Sides = tuple[RestWorker, RestWorker]
X = ConnectorName("x y")
T0 = TaskId(X, 0)


@pytest.fixture
def sides() -> Iterator[Sides]:
    with rest_worker() as there, rest_worker() as here:
        yield there, here


def create(worker: RestWorker, plugin: str, state: str = "RUNNING") -> None:
    config = {"connector.class": plugin, "tasks.max": "2", "topics": "lines"}
    body = {"name": X, "config": config, "initial_state": state}
    Cluster(worker.url).ask("POST", "connectors", body=body)


def offsets(worker: RestWorker) -> list[Any]:
    stored_offsets: list[Any] = Cluster(worker.url).ask("GET", "connectors", X, "offsets")["offsets"]
    return stored_offsets


def wait_for_offsets(worker: RestWorker, count: int) -> None:
    """Wait until a task has started at an offset and stored `count`; the requests themselves pace the loop."""
    for _ in range(1000):
        if [count] in [list(each["offset"].values()) for each in offsets(worker)]:
            return
    raise AssertionError(offsets(worker))


@pytest.mark.parametrize("plugin", [FAKE_SOURCE, FAKE_SINK])
def test_offsets_are_migrated_before_the_first_start(sides: Sides, plugin: str) -> None:
    there, here = sides
    there.outside.supply[T0] = 25
    here.outside.supply[T0] = 40
    create(there, plugin)
    wait_for_offsets(there, 25)
    result = CliRunner().invoke(main, ["migrate", "--from", there.url, "--to", here.url])
    old, new = there.url.rstrip("/"), here.url.rstrip("/")
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        0,
        f"x y is at {new} now, RUNNING; delete it at {old} when you no longer need to roll back",
    ), result.output
    wait_for_offsets(here, 40)
    assert here.outside.written[T0] == list(range(25, 40))
    assert Cluster(there.url).state(X) == ("STOPPED", 0)


def test_connector_without_offsets_is_migrated(sides: Sides) -> None:
    there, here = sides
    create(there, FAKE_SOURCE, "STOPPED")
    migrate(Cluster(there.url), Cluster(here.url), [], dry_run=False, say=lambda _: None)
    assert Cluster(here.url).state(X) == ("STOPPED", 0)
    assert offsets(here) == []
