"""`cluster-lost`: one of three workers that run 60 file connectors, one task each, is killed with SIGKILL.

Java and Kraal workers have session.timeout.ms=6000 and scheduled.rebalance.max.delay.ms=0. The group has detected the
loss when the broker logs a new generation. A task runs again when another worker has written RUNNING as the task's
status to the status topic. A task of another worker counts as stopped if any status of the task was written in the
meantime. A new worker replaces the lost one in each round.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.clusters import Cluster, get_owners
from scripts.harness.group import RUNNING, Status
from scripts.harness.processes import ScriptFailed
from scripts.harness.workers import START_TIMEOUT_S, Worker

WORKERS, CONNECTORS = 3, 60
WORKER_PROPERTIES = {"session.timeout.ms": "6000", "scheduled.rebalance.max.delay.ms": "0"}
PARTS = (
    ("new generation until all tasks RUNNING", "s", Target(limit=1.5)),
    ("  from the start of the rebalance", "s", Target()),
    ("  from the kill", "s", Target()),
    ("  tasks of other workers that stopped", "tasks", Target(limit=0)),
)
ROLES = ("a follower", "the leader")


def run(lab: Lab) -> list[Case]:
    """Kill followers and leaders of a cluster of each kind."""
    rows: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    repetitions = dict(zip(ROLES, (lab.options.times(3, 1), lab.options.times(2, 1)), strict=True))
    for kind in lab.options.sides:
        cluster = lab.cluster(kind, WORKER_PROPERTIES)
        cluster.start(WORKERS)
        names = _create(lab, cluster)
        cluster.settle(names)
        for role, count in repetitions.items():
            for _ in range(count):
                figures = _measure_loss(cluster, names, role)
                rows.setdefault((kind, role), []).append(figures)
                say(f"{kind}, {role} killed: " + ", ".join(f"{figure:.3g}" for figure in figures))
        cluster.stop()
    return [
        Case(
            f"{role} killed: {part}" if not part.startswith(" ") else part,
            unit,
            java=[row[index] for row in rows.get(("java", role), [])],
            kraal=[row[index] for row in rows.get(("kraal", role), [])],
            wanted=wanted,
        )
        for role in ROLES
        for index, (part, unit, wanted) in enumerate(PARTS)
    ]


def _create(lab: Lab, cluster: Cluster) -> list[str]:
    topic = lab.topic("lost")
    names = [f"file-{number}" for number in range(12 if lab.options.quick else CONNECTORS)]
    for name in names:
        cluster.workers[0].rest.create(name, source_config(lab.file(1), topic))
    return names


def _measure_loss(cluster: Cluster, names: Sequence[str], role: str) -> tuple[float, ...]:
    """Kill one worker and start a new one; return the values of `PARTS`."""
    victim, last_generation = _choose_victim(cluster, role), cluster.generations()[-1].generation
    tasks = [f"task-{name}-0" for name in names]
    owners = {
        key: worker for key, worker in get_owners(cluster.statuses.now(), names).items() if key in tasks
    }
    lost_id = victim.rest.worker_id
    killed_at = time.time()
    cluster.kill(victim)

    def are_all_elsewhere(statuses: Mapping[str, Status]) -> bool:
        return all(statuses[key].state == RUNNING and statuses[key].worker != lost_id for key in tasks)

    statuses = cluster.statuses.wait_until("all tasks ran again", are_all_elsewhere, START_TIMEOUT_S)
    running_at = max(statuses[key].at for key in tasks if owners[key] == lost_id)
    time.sleep(2.0)
    stopped_tasks = {
        key for key, _ in cluster.statuses.since(killed_at) if key in owners and owners[key] != lost_id
    }
    rebalances = [rebalance for rebalance in cluster.generations() if rebalance.generation > last_generation]
    if not rebalances:
        raise ScriptFailed("The broker logged no new generation after a worker was killed.")
    rebalance = rebalances[0]
    cluster.wait_until_in(cluster.launch())
    cluster.settle(names)
    return (
        running_at - rebalance.stable_at,
        running_at - rebalance.started_at,
        running_at - killed_at,
        float(len(stopped_tasks)),
    )


def _choose_victim(cluster: Cluster, role: str) -> Worker:
    leader = cluster.leader()
    if role == ROLES[1]:
        return leader
    return next(worker for worker in reversed(cluster.workers) if worker is not leader)
