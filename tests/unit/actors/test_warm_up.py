"""Tests that a worker waits, up to a timeout, for its engine before it joins a group that has connectors."""

from __future__ import annotations

import pytest

from actors.herding.startup import DEFERRED_COMMAND_TIMEOUT_S
from actors.membership.state import WARM_UP_TIMEOUT_S
from actors.messages.herder import PutConfig, RestartConnector
from kraal.core.errors import Unavailable
from kraal.core.ids import ConnectorName
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.cluster.group_cluster import Cluster, Worker

SEEDS = range(6)


def cluster_with_newcomer(seed: int, *, readiness: list[bool]) -> tuple[Cluster, Worker]:
    """Return a group of two workers with connectors, and a new worker that is ready once `readiness` has an item."""
    cluster = Cluster(seed)
    for _ in range(2):
        cluster.add()
    cluster.configure(c1=4, c2=4)
    cluster.settle(30)
    return cluster, cluster.add(ready=lambda: bool(readiness))


@pytest.mark.parametrize("seed", SEEDS)
def test_worker_joins_once_its_engine_is_ready(seed: int) -> None:
    readiness: list[bool] = []
    cluster, newcomer = cluster_with_newcomer(seed, readiness=readiness)
    generation = cluster.broker.generation
    cluster.advance(30)
    assert cluster.broker.generation == generation, "the other workers did not rebalance"
    assert not newcomer.deliveries
    readiness.append(True)
    cluster.advance(5)
    cluster.settle(10)
    assert newcomer.running


@pytest.mark.parametrize("seed", SEEDS)
def test_worker_without_a_ready_engine_joins_after_a_timeout(seed: int) -> None:
    cluster, newcomer = cluster_with_newcomer(seed, readiness=[])
    cluster.advance(WARM_UP_TIMEOUT_S - 1)
    assert not newcomer.deliveries
    cluster.advance(6)
    cluster.settle(10)
    assert newcomer.running


@pytest.mark.parametrize("seed", SEEDS)
def test_worker_joins_a_group_without_connectors_immediately(seed: int) -> None:
    cluster = Cluster(seed)
    newcomer = cluster.add(ready=lambda: False)
    cluster.advance(5)
    assert newcomer.deliveries


@pytest.mark.parametrize("seed", SEEDS)
def test_member_starts_the_engine_for_later_connectors(seed: int) -> None:
    cluster, connector_counts = Cluster(seed), list[int]()

    def ready() -> bool:
        connector_counts.append(len(member.published.latest.config.connectors))
        return True

    member = cluster.add(ready=ready)
    cluster.settle(10)
    assert member.deliveries
    connector_counts.clear()
    cluster.configure(c1=1)
    cluster.settle(10)
    assert 1 in connector_counts


@pytest.mark.parametrize("seed", SEEDS)
def test_command_fails_with_the_reason_while_the_engine_is_not_ready(seed: int) -> None:
    cluster, name = EmbeddedCluster(1, seed=seed), ConnectorName("x")
    cluster.settle()
    cluster.create(name, {"connector.class": FAKE_SOURCE})
    cluster.settle()
    newcomer = cluster.add()
    newcomer.engine.lose("Java plugins are not available: exit code 1, after: Unrecognized VM option")
    start_s = cluster.clock.now()
    with pytest.raises(
        Unavailable, match="cannot process requests: Java plugins are not available: exit code 1"
    ) as error_info:
        cluster.ask(newcomer, RestartConnector(name=name))
    assert error_info.value.retry_after_s is not None
    assert DEFERRED_COMMAND_TIMEOUT_S <= cluster.clock.now() - start_s < DEFERRED_COMMAND_TIMEOUT_S + 15
    newcomer.engine.recover()
    cluster.settle()
    cluster.request(PutConfig(name=name, config={"connector.class": FAKE_SOURCE, "a": "b"}), newcomer)


@pytest.mark.parametrize("seed", SEEDS)
def test_command_waits_for_a_starting_engine(seed: int) -> None:
    cluster, name = EmbeddedCluster(1, seed=seed), ConnectorName("x")
    cluster.settle()
    cluster.create(name, {"connector.class": FAKE_SOURCE})
    cluster.settle()
    newcomer = cluster.add()
    newcomer.engine.lose("the JVM of Java plugins is starting")
    future = newcomer.assembly.herder.question(RestartConnector(name=name))
    cluster.advance(DEFERRED_COMMAND_TIMEOUT_S - 5)
    assert not future.done()
    newcomer.engine.recover()
    cluster.run_until(future.done, timeout_s=30)
    assert not isinstance(future.exception(), Unavailable)
