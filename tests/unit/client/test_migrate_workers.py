"""Tests for `kraal migrate` between two workers with all their actors, over sockets (KIP-980, KIP-875)."""

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

SourceAndTarget = tuple[RestWorker, RestWorker]
NAME = ConnectorName("x y")
TASK = TaskId(NAME, 0)


@pytest.fixture
def source_and_target() -> Iterator[SourceAndTarget]:
    with rest_worker() as source, rest_worker() as target:
        yield source, target


def create(worker: RestWorker, plugin: str, state: str = "RUNNING") -> None:
    config = {"connector.class": plugin, "tasks.max": "2", "topics": "lines"}
    body = {"name": NAME, "config": config, "initial_state": state}
    Cluster(worker.url).ask("POST", "connectors", body=body)


def read_offsets(worker: RestWorker) -> list[Any]:
    stored_offsets: list[Any] = Cluster(worker.url).ask("GET", "connectors", NAME, "offsets")["offsets"]
    return stored_offsets


def wait_for_offsets(worker: RestWorker, count: int) -> None:
    """Poll until the stored offset of a task is `count`. Pauses are not needed, because each request takes time."""
    for _ in range(1000):
        if [count] in [list(offset["offset"].values()) for offset in read_offsets(worker)]:
            return
    raise AssertionError(read_offsets(worker))


@pytest.mark.parametrize("plugin", [FAKE_SOURCE, FAKE_SINK])
def test_offsets_are_migrated_before_the_first_start(source_and_target: SourceAndTarget, plugin: str) -> None:
    source, target = source_and_target
    source.outside.supply[TASK] = 25
    target.outside.supply[TASK] = 40
    create(source, plugin)
    wait_for_offsets(source, 25)
    result = CliRunner().invoke(main, ["migrate", "--from", source.url, "--to", target.url])
    source_url, target_url = source.url.rstrip("/"), target.url.rstrip("/")
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        0,
        f"Migrated x y to {target_url} (RUNNING). Delete it from {source_url} once you no longer need to roll back.",
    ), result.output
    wait_for_offsets(target, 40)
    assert target.outside.written[TASK] == list(range(25, 40))
    assert Cluster(source.url).state(NAME) == ("STOPPED", 0)


def test_connector_without_offsets_is_migrated(source_and_target: SourceAndTarget) -> None:
    source, target = source_and_target
    create(source, FAKE_SOURCE, "STOPPED")
    migrate(Cluster(source.url), Cluster(target.url), [], dry_run=False, say=lambda _: None)
    assert Cluster(target.url).state(NAME) == ("STOPPED", 0)
    assert read_offsets(target) == []
