"""Functions for the demos with distributed workers: start workers, and show the assignment before and after a kill."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kraal.broker.broker import Broker, free_port
from scripts.harness.clusters import Cluster, get_owners
from scripts.harness.group import Rebalance, Status
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.rest import is_fully_running
from scripts.harness.show import format_table, say
from scripts.harness.workers import START_TIMEOUT_S, Worker

STALL_TIMEOUT_S = 120.0
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


@dataclass(frozen=True, slots=True)
class Loss:
    """A worker that was killed, and the connectors and tasks that it ran."""

    victim: Worker
    moving: Sequence[str]
    """The status keys of its connectors and tasks."""
    before: Mapping[str, str]
    """The worker of each connector and task before."""
    last_generation: int
    killed_at: float

    def has_moved(self, statuses: Mapping[str, Status]) -> bool:
        """Return whether all connectors and tasks of the killed worker are RUNNING on other workers."""
        return has_moved(statuses, self.moving, self.victim.rest.worker_id)


def kill_owner(cluster: Cluster, names: Sequence[str], task_of: str) -> Loss:
    """Send SIGKILL to the worker that runs the task of the connector `task_of`, which is one of `names`."""
    before = get_owners(cluster.statuses.now(), names)
    lost_id = before[f"task-{task_of}-0"]
    victim = next(worker for worker in cluster.workers if worker.rest.worker_id == lost_id)
    role = "the leader" if victim is cluster.leader() else "a follower"
    last_generation = cluster.generations()[-1].generation
    moving = [key for key, worker in before.items() if worker == lost_id]
    say(
        f"kill -9 {victim.process.pid}: {lost_id}, {role}, which runs {len(moving)} of {len(before)}"
        f" connectors and tasks, including the task of {task_of} ..."
    )
    killed_at = time.time()
    cluster.kill(victim)
    return Loss(victim, moving, before, last_generation, killed_at)


def wait_while_running(cluster: Cluster, what: str, condition: Callable[[], bool]) -> None:
    """Wait until `condition()`. Raises ScriptFailed on a timeout, or if a connector fails or a worker exits."""

    def check() -> bool:
        for worker in cluster.workers:
            if not worker.process.alive:
                raise ScriptFailed(f"A worker exited: {worker.process.last_log_error()}")
        for status in cluster.workers[0].rest.statuses().values():
            is_fully_running(status)  # raises for FAILED
        return condition()

    wait_until(what, check, timeout_s=STALL_TIMEOUT_S)


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
