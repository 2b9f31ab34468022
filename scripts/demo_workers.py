"""What the demos with distributed workers share: starting them, and showing who runs what, before and after a kill."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from kraal.broker.broker import Broker, free_port
from scripts.harness.clusters import Cluster, owners
from scripts.harness.group import Rebalance, Status
from scripts.harness.processes import ScriptFailed
from scripts.harness.show import columns, say
from scripts.harness.workers import START_TIMEOUT_S, Worker

EXTRA = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.storage.partitions": "5",
    "status.storage.partitions": "2",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "1000",
    "spark.driver.memory": "512m",
}
"""A lost worker is noticed in seconds, in its group and in those of its sinks; its work moves at once; and several
Spark drivers fit a small machine."""


def start_broker(directory: Path, stack: ExitStack) -> Broker:
    """Start a broker that `stack` stops."""
    say("Starting a Kafka broker ...")
    broker = Broker(directory / "kafka", free_port())
    broker.start()
    stack.callback(broker.stop)
    return broker


def start_workers(cluster: Cluster, broker: Broker, count: int, port: int) -> None:
    """Start workers, the first with REST on `port`, and wait until all are in the group. Raises ScriptFailed."""
    say(f"Starting {count} times kraal distributed for Kafka on {broker.bootstrap} ...")
    say("Each of them joins the group when its Spark is up ...")
    for number in range(count):
        cluster.launch(port if number == 0 else None)
    for worker in cluster.workers:
        cluster.wait_until_in(worker)


def workers_table(cluster: Cluster, names: Sequence[str], dead: Worker | None = None) -> str:
    """Return the workers and how much of the connectors `names` each of them runs."""
    leader = cluster.leader()
    counts = Counter(owners(cluster.statuses.now(), names).values())
    rows = [("WORKER", "PID", "STATE", "ROLE", "RUNS")]
    for worker in sorted([*cluster.workers, *([dead] if dead else [])], key=lambda each: each.rest.port):
        lives, name = worker is not dead, worker.rest.worker_id
        role = "leader" if worker is leader else "follower"
        rows.append(
            (
                name,
                str(worker.process.pid),
                "Ready" if lives else "Killed",
                role if lives else "-",
                str(counts[name] if lives else 0),
            )
        )
    return columns(rows)


def instances_table(cluster: Cluster, names: Sequence[str]) -> str:
    """Return all connectors and tasks, and where they run."""
    now = cluster.statuses.now()
    rows = [("NAME", "KIND", "STATE", "WORKER")]
    rows += [(shown(key), _kind(key), now[key].state, now[key].worker) for key in _keys(names)]
    return columns(rows)


def moves_table(
    cluster: Cluster, names: Sequence[str], before: Mapping[str, str], moving: Sequence[str]
) -> str:
    """Return where all connectors and tasks ran before, and where those of `moving` run now."""
    now = cluster.statuses.now()
    rows = [("NAME", "KIND", "BEFORE", "AFTER")]
    for key in _keys(names):
        after = now[key].worker if key in moving else "stays"
        rows.append((shown(key), _kind(key), before.get(key, "-"), after))
    return columns(rows)


def has_moved(now: Mapping[str, Status], moving: Sequence[str], lost: str) -> bool:
    """Whether all that ran on the worker `lost` runs on others."""
    return all(now[key].state == "RUNNING" and now[key].worker != lost for key in moving)


def wait_until_noticed(cluster: Cluster, last: int, look: Callable[[], None]) -> Rebalance:
    """Call `look` until the group has a generation after `last`, and return that. Raises ScriptFailed."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        if later := [each for each in cluster.generations() if each.generation > last]:
            return later[0]
        if time.monotonic() > deadline:
            raise ScriptFailed(f"The group did not notice in {START_TIMEOUT_S:.0f} s that a worker is gone.")
        look()


def say_after(seconds: float, text: str) -> None:
    """Tell what happened so long after a worker was killed."""
    say(f"{f'+{seconds:.1f} s':>8}   {text}")


def say_noticed(noticed: Rebalance, killed: float) -> None:
    """Tell when the group noticed that a worker was killed."""
    timeout = f"session.timeout.ms={EXTRA['session.timeout.ms']}"
    workers = f"{noticed.members} worker{'' if noticed.members == 1 else 's'}"
    say_after(
        noticed.begun - killed,
        f"the group noticed ({timeout}); generation {noticed.generation} has {workers}",
    )


def _keys(names: Sequence[str]) -> list[str]:
    return [key for name in names for key in (f"connector-{name}", f"task-{name}-0")]


def shown(key: str) -> str:
    """Return what the key of a status is about: the name of a connector, with a number for a task."""
    return key.partition("-")[2]


def _kind(key: str) -> str:
    return key.partition("-")[0]
