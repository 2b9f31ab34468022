"""Random histories of a cluster: nothing runs twice at once, everything runs in the end, in a bounded time."""

from __future__ import annotations

import random

import pytest

from kraal.protocol.group import ConnectProtocol
from tests.fakes.cluster.group_cluster import Cluster, Worker

SEEDS = range(15)
STEPS = 25
ROUNDS = 8
"""After the last event a group needs at most the given number of generations to be at rest."""


def happen(cluster: Cluster, choice: random.Random, protocol: ConnectProtocol) -> None:
    """Have one thing happen."""
    alive = cluster.alive
    worker: Worker = choice.choice(alive)
    what = choice.choice(
        ["configure", "configure", "delete", "add", "close", "kill", "crash", "freeze", "outage", "wait"]
    )
    if what == "configure":
        cluster.configure(**{f"c{choice.randrange(4)}": choice.randrange(5)})
    elif what == "delete":
        cluster.configure(**{f"c{choice.randrange(4)}": -1})
    elif what == "add" and len(alive) < 5:
        cluster.add(protocol)
    elif what in ("close", "kill") and len(alive) > 1:
        cluster.remove(worker, kill=what == "kill")
    elif what == "crash":
        worker.crash(choice.choice([worker.herder, worker.address]))
    elif what == "freeze":
        worker.group.freeze()
        pass_time(cluster, choice.uniform(0, 12))
        worker.group.thaw()
    elif what == "outage":
        cluster.broker.stop()
        pass_time(cluster, choice.uniform(0, 8))
        cluster.broker.start()
    pass_time(cluster, choice.choice([0.0, 0.05, 0.5, 3.0]))


def pass_time(cluster: Cluster, seconds: float) -> None:
    end = cluster.clock.now() + seconds
    while cluster.clock.now() < end:
        cluster.advance(min(0.05, end - cluster.clock.now()))
        cluster.check()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("max_delay_s", [0.0, 8.0])
@pytest.mark.parametrize(
    "protocol", [ConnectProtocol.EAGER, ConnectProtocol.SESSIONED, ConnectProtocol.STATIC]
)
def test_a_random_history(seed: int, max_delay_s: float, protocol: ConnectProtocol) -> None:
    choice = random.Random(f"{seed} {max_delay_s} {protocol}")  # noqa: S311 - histories, not secrets
    cluster = Cluster(seed, max_delay_s=max_delay_s)
    cluster.add(protocol)
    cluster.configure(c0=3, c1=2)
    for _ in range(STEPS):
        happen(cluster, choice, protocol)
    pass_time(cluster, 12)  # who was killed is out by now
    rounds = cluster.broker.generation
    cluster.settle(40)
    pass_time(cluster, 2 * max_delay_s + 5)
    assert cluster.settled
    assert cluster.broker.generation - rounds <= ROUNDS
    rounds = cluster.broker.generation
    pass_time(cluster, 60)
    assert cluster.broker.generation == rounds, "a group at rest stays at rest"
