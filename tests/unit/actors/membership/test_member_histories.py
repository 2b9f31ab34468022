"""Tests that in random histories, no instance runs twice at a time, and all instances run after a bounded time."""

from __future__ import annotations

import random

import pytest

from kraal.protocol.group import ConnectProtocol
from tests.fakes.cluster.group_cluster import Cluster, Worker

SEEDS = range(15)
STEPS = 25
MAX_ROUNDS = 8
"""Maximum number of generations until a group is stable after the last event."""


def trigger_event(cluster: Cluster, rng: random.Random, protocol: ConnectProtocol) -> None:
    """Trigger one random event."""
    alive = cluster.alive
    worker: Worker = rng.choice(alive)
    event = rng.choice(
        ["configure", "configure", "delete", "add", "close", "kill", "crash", "freeze", "outage", "wait"]
    )
    if event == "configure":
        cluster.configure(**{f"c{rng.randrange(4)}": rng.randrange(5)})
    elif event == "delete":
        cluster.configure(**{f"c{rng.randrange(4)}": -1})
    elif event == "add" and len(alive) < 5:
        cluster.add(protocol)
    elif event in ("close", "kill") and len(alive) > 1:
        cluster.remove(worker, kill=event == "kill")
    elif event == "crash":
        worker.crash(rng.choice([worker.herder, worker.address]))
    elif event == "freeze":
        worker.group.freeze()
        advance_time(cluster, rng.uniform(0, 12))
        worker.group.thaw()
    elif event == "outage":
        cluster.broker.stop()
        advance_time(cluster, rng.uniform(0, 8))
        cluster.broker.start()
    advance_time(cluster, rng.choice([0.0, 0.05, 0.5, 3.0]))


def advance_time(cluster: Cluster, seconds: float) -> None:
    end = cluster.clock.now() + seconds
    while cluster.clock.now() < end:
        cluster.advance(min(0.05, end - cluster.clock.now()))
        cluster.check()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("max_delay_s", [0.0, 8.0])
@pytest.mark.parametrize(
    "protocol", [ConnectProtocol.EAGER, ConnectProtocol.SESSIONED, ConnectProtocol.STATIC]
)
def test_random_history_reaches_the_target_state(
    seed: int, max_delay_s: float, protocol: ConnectProtocol
) -> None:
    rng = random.Random(f"{seed} {max_delay_s} {protocol}")  # noqa: S311 - histories, not secrets
    cluster = Cluster(seed, max_delay_s=max_delay_s)
    cluster.add(protocol)
    cluster.configure(c0=3, c1=2)
    for _ in range(STEPS):
        trigger_event(cluster, rng, protocol)
    advance_time(cluster, 12)  # until the group has removed killed members
    generation = cluster.broker.generation
    cluster.settle(40)
    advance_time(cluster, 2 * max_delay_s + 5)
    assert cluster.is_settled
    assert cluster.broker.generation - generation <= MAX_ROUNDS
    generation = cluster.broker.generation
    advance_time(cluster, 60)
    assert cluster.broker.generation == generation, "a settled group does not rebalance"
