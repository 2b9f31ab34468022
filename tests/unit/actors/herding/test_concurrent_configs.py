"""Tests that concurrent requests for one connector each receive the result of their own request."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from actors.messages.herder import (
    CreateConnector,
    DeleteConnector,
    PatchConfig,
    PutConfig,
    SetTargetState,
)
from actors.runtime.mailbox import Ask
from kraal.core.errors import AlreadyExists, NotFound, StoreError
from kraal.core.ids import Config, ConnectorName, TargetState
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.plugins import FAKE_SOURCE

X = ConnectorName("x")
SEEDS = range(6)
CONFIG: dict[str, str | None] = {"connector.class": FAKE_SOURCE, "tasks.max": "1"}


def create(**extra_settings: str) -> CreateConnector:
    return CreateConnector(name=X, config={**CONFIG, **extra_settings})


def create_cluster(seed: int, *, has_x: bool) -> EmbeddedCluster:
    cluster = EmbeddedCluster(2, seed=seed)
    cluster.settle()
    if has_x:
        cluster.create(X, CONFIG)
        cluster.settle()
    return cluster


def send_concurrently(cluster: EmbeddedCluster, *messages: Ask[Any]) -> list[Future[Any]]:
    """Send concurrent requests to the leader, and wait for all replies."""
    futures = [cluster.leader.assembly.herder.question(message) for message in messages]
    cluster.run_until(lambda: all(future.done() for future in futures), timeout_s=10)
    return futures


def stored_config(cluster: EmbeddedCluster) -> Config:
    return cluster.leader.snapshot.config.connectors[X].config


@pytest.mark.parametrize("seed", SEEDS)
def test_second_of_two_concurrent_creations_fails(seed: int) -> None:
    cluster = create_cluster(seed, has_x=False)
    futures = send_concurrently(cluster, create(who="one"), create(who="two"))
    errors = {client: future.exception() for client, future in zip(("one", "two"), futures, strict=True)}
    [winner] = [client for client, error in errors.items() if error is None]
    assert stored_config(cluster)["who"] == winner
    assert sorted(type(error).__name__ for error in errors.values()) == ["AlreadyExists", "NoneType"]


@pytest.mark.parametrize("seed", SEEDS)
def test_creation_succeeds_after_a_failed_creation(seed: int) -> None:
    cluster = create_cluster(seed, has_x=False)
    failures: list[str] = []

    def fail_first_append(operation: str) -> None:
        if operation == "append" and not failures:
            failures.append(operation)
            raise StoreError("the brokers are unavailable")

    cluster.config_log.fault = fail_first_append
    futures = send_concurrently(cluster, create(who="one"), create(who="two"))
    assert sorted(type(future.exception()).__name__ for future in futures) == ["NoneType", "StoreError"]


@pytest.mark.parametrize("seed", SEEDS)
def test_creation_directly_after_a_deletion_succeeds(seed: int) -> None:
    cluster = create_cluster(seed, has_x=True)
    deletion, creation = send_concurrently(cluster, DeleteConnector(name=X), create(who="new"))
    assert (deletion.exception(), creation.exception()) == (None, None)
    assert stored_config(cluster)["who"] == "new"


@pytest.mark.parametrize("seed", SEEDS)
def test_concurrent_patches_are_all_applied(seed: int) -> None:
    cluster = create_cluster(seed, has_x=True)
    names = ["a", "b", "c"]
    futures = send_concurrently(cluster, *(PatchConfig(name=X, patch={name: "1"}) for name in names))
    assert [future.exception() for future in futures] == [None] * 3
    assert set(names) <= stored_config(cluster).keys()


@pytest.mark.parametrize("seed", SEEDS)
def test_patch_applies_to_the_latest_config(seed: int) -> None:
    cluster = create_cluster(seed, has_x=True)
    put_future, patch_future = send_concurrently(
        cluster, PutConfig(name=X, config={**CONFIG, "put": "1"}), PatchConfig(name=X, patch={"patch": "1"})
    )
    assert (put_future.exception(), patch_future.exception()) == (None, None)
    assert stored_config(cluster)["put"] == "1"


@pytest.mark.parametrize("seed", SEEDS)
def test_rejected_creation_stores_no_offsets(seed: int) -> None:
    cluster = create_cluster(seed, has_x=False)
    offsets = [({"task": "x-0"}, {"position": 7})]
    creation = cluster.leader.assembly.herder.question(create())
    creation_with_offsets = CreateConnector(name=X, config=CONFIG, initial_offsets=offsets)
    futures = [creation, *send_concurrently(cluster, creation_with_offsets)]
    cluster.settle()
    errors = [future.exception() for future in futures if future.exception() is not None]
    assert [type(error) for error in errors] == [AlreadyExists]
    stored_offsets = dict(cluster.offsets.load(X))
    assert bool(stored_offsets) is (futures[1].exception() is None)


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
@pytest.mark.parametrize("seed", SEEDS)
def test_target_state_set_during_a_deletion_is_rejected_and_not_kept(seed: int, target: TargetState) -> None:
    cluster = create_cluster(seed, has_x=True)
    deletion, state_change = send_concurrently(
        cluster, DeleteConnector(name=X), SetTargetState(name=X, target=target)
    )
    assert deletion.exception() is None
    assert isinstance(state_change.exception(), NotFound)
    cluster.request(create())
    cluster.settle()
    assert cluster.states(X) == ["RUNNING"] * 2


@pytest.mark.parametrize("seed", SEEDS)
def test_second_of_two_concurrent_deletions_fails(seed: int) -> None:
    cluster = create_cluster(seed, has_x=True)
    first, second = send_concurrently(cluster, DeleteConnector(name=X), DeleteConnector(name=X))
    assert first.exception() is None
    assert isinstance(second.exception(), NotFound)
