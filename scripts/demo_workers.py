"""Functions for the demos with distributed workers: start workers, and show the assignment before and after a kill."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from kraal.broker.broker import Broker, free_port
from scripts.harness.clusters import Cluster, get_owners
from scripts.harness.group import Rebalance, Status
from scripts.harness.processes import ScriptFailed
from scripts.harness.show import format_table, say
from scripts.harness.workers import START_TIMEOUT_S, Worker

WORKER_PROPERTIES = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.storage.partitions": "5",
    "status.storage.partitions": "2",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "1000",
    "spark.driver.memory": "512m",
}
"""Additional worker properties of the demos. With these properties, the workers' group and the groups of sinks detect a
lost worker within seconds, its work is reassigned immediately, and several Spark drivers fit on a small machine."""


def start_broker(directory: Path, stack: ExitStack) -> Broker:
    """Start a broker that `stack` stops."""
    say("Starting a Kafka broker ...")
    broker = Broker(directory / "kafka", free_port())
    broker.start()
    stack.callback(broker.stop)
    return broker


def start_workers(cluster: Cluster, broker: Broker, count: int, port: int) -> None:
    """Start workers, the first with REST on `port`, and wait until all are in the group. Raises ScriptFailed."""
    say(f"Starting {count} kraal distributed workers for Kafka on {broker.bootstrap} ...")
    say("Each worker joins the group when its Spark has started ...")
    for number in range(count):
        cluster.launch(port if number == 0 else None)
    for worker in cluster.workers:
        cluster.wait_until_in(worker)


def workers_table(cluster: Cluster, names: Sequence[str], dead: Worker | None = None) -> str:
    """Return a table of the workers, with the number of instances of the connectors `names` on each worker."""
    leader = cluster.leader()
    counts = Counter(get_owners(cluster.statuses.now(), names).values())
    rows = [("WORKER", "PID", "STATE", "ROLE", "RUNS")]
    for worker in sorted([*cluster.workers, *([dead] if dead else [])], key=lambda worker: worker.rest.port):
        is_alive, worker_id = worker is not dead, worker.rest.worker_id
        role = "leader" if worker is leader else "follower"
        rows.append(
            (
                worker_id,
                str(worker.process.pid),
                "Ready" if is_alive else "Killed",
                role if is_alive else "-",
                str(counts[worker_id] if is_alive else 0),
            )
        )
    return format_table(rows)


def instances_table(cluster: Cluster, names: Sequence[str]) -> str:
    """Return a table of the connectors `names` and their tasks, with the worker of each."""
    statuses = cluster.statuses.now()
    rows = [("NAME", "KIND", "STATE", "WORKER")]
    rows += [
        (display_name(key), _get_kind(key), statuses[key].state, statuses[key].worker)
        for key in _list_status_keys(names)
    ]
    return format_table(rows)


def moves_table(
    cluster: Cluster, names: Sequence[str], before: Mapping[str, str], moving: Sequence[str]
) -> str:
    """Return a table of the connectors `names` and their tasks, with the previous worker of each.

    For the connectors and tasks in `moving`, the table also contains the current worker.
    """
    statuses = cluster.statuses.now()
    rows = [("NAME", "KIND", "BEFORE", "AFTER")]
    for key in _list_status_keys(names):
        after = statuses[key].worker if key in moving else "stays"
        rows.append((display_name(key), _get_kind(key), before.get(key, "-"), after))
    return format_table(rows)


def has_moved(statuses: Mapping[str, Status], moving: Sequence[str], lost_id: str) -> bool:
    """Return whether all instances in `moving` are RUNNING on workers other than `lost_id`."""
    return all(statuses[key].state == "RUNNING" and statuses[key].worker != lost_id for key in moving)


def wait_until_detected(cluster: Cluster, last_generation: int, poll: Callable[[], None]) -> Rebalance:
    """Call `poll` until a rebalance follows `last_generation`; return this rebalance. Raises ScriptFailed."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        if new_generations := [
            rebalance for rebalance in cluster.generations() if rebalance.generation > last_generation
        ]:
            return new_generations[0]
        if time.monotonic() > deadline:
            raise ScriptFailed(
                f"The group did not detect the loss of a worker within {START_TIMEOUT_S:.0f} s."
            )
        poll()


def say_after(seconds: float, text: str) -> None:
    """Print an event with its time since a worker was killed."""
    say(f"{f'+{seconds:.1f} s':>8}   {text}")


def say_detected(rebalance: Rebalance, killed_at: float) -> None:
    """Print when the group detected that a worker was killed."""
    timeout = f"session.timeout.ms={WORKER_PROPERTIES['session.timeout.ms']}"
    workers = f"{rebalance.members} worker{'' if rebalance.members == 1 else 's'}"
    say_after(
        rebalance.started_at - killed_at,
        f"the group detected the loss ({timeout}); generation {rebalance.generation} has {workers}",
    )


def _list_status_keys(names: Sequence[str]) -> list[str]:
    return [key for name in names for key in (f"connector-{name}", f"task-{name}-0")]


def display_name(key: str) -> str:
    """Return the connector name in the key of a status; for a task, also its number."""
    return key.partition("-")[2]


def _get_kind(key: str) -> str:
    return key.partition("-")[0]
