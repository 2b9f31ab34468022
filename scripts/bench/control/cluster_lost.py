"""`cluster-lost`: one of three workers that run 60 file connectors, one task each, is killed with -9.

session.timeout.ms=6000 and scheduled.rebalance.max.delay.ms=0 for both. The group notices when the broker's log says
that a new generation has started; a task runs again when its RUNNING by another worker is in the status topic. A task
of another worker stopped when any status of it was written meanwhile. A new worker replaces the lost one each time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Wanted
from scripts.harness.clusters import Cluster, owners
from scripts.harness.group import RUNNING, Status
from scripts.harness.processes import ScriptFailed
from scripts.harness.workers import START_TIMEOUT_S, Worker

WORKERS, CONNECTORS = 3, 60
EXTRA = {"session.timeout.ms": "6000", "scheduled.rebalance.max.delay.ms": "0"}
PARTS = (
    ("new generation until all tasks RUNNING", "s", Wanted(limit=1.5)),
    ("  from when the rebalance began", "s", Wanted()),
    ("  from the kill", "s", Wanted()),
    ("  tasks of other workers that stopped", "tasks", Wanted(limit=0)),
)
WHOM = ("a follower", "the leader")


def run(lab: Lab) -> list[Case]:
    """Kill followers and leaders of a cluster of each kind."""
    rows: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    times = dict(zip(WHOM, (lab.options.times(3, 1), lab.options.times(2, 1)), strict=True))
    for kind in lab.options.sides:
        cluster = lab.cluster(kind, EXTRA)
        cluster.start(WORKERS)
        names = _create(lab, cluster)
        cluster.settle(names)
        for whom, count in times.items():
            for _ in range(count):
                figures = _lost(cluster, names, whom)
                rows.setdefault((kind, whom), []).append(figures)
                say(f"{kind}, {whom} killed: " + ", ".join(f"{figure:.3g}" for figure in figures))
        cluster.stop()
    return [
        Case(
            f"{whom} killed: {part}" if not part.startswith(" ") else part,
            unit,
            java=[row[place] for row in rows.get(("java", whom), [])],
            kraal=[row[place] for row in rows.get(("kraal", whom), [])],
            wanted=wanted,
        )
        for whom in WHOM
        for place, (part, unit, wanted) in enumerate(PARTS)
    ]


def _create(lab: Lab, cluster: Cluster) -> list[str]:
    topic = lab.topic("lost")
    names = [f"file-{number}" for number in range(12 if lab.options.quick else CONNECTORS)]
    for name in names:
        cluster.workers[0].rest.create(name, source_config(lab.file(1), topic))
    return names


def _lost(cluster: Cluster, names: Sequence[str], whom: str) -> tuple[float, ...]:
    """Kill one worker; return the figures of PARTS. Another one has taken its place afterwards."""
    victim, before = _victim(cluster, whom), cluster.generations()[-1].generation
    tasks = [f"task-{name}-0" for name in names]
    owner = {key: worker for key, worker in owners(cluster.statuses.now(), names).items() if key in tasks}
    lost = victim.rest.worker_id
    killed = time.time()
    cluster.kill(victim)

    def all_elsewhere(now: Mapping[str, Status]) -> bool:
        return all(now[key].state == RUNNING and now[key].worker != lost for key in tasks)

    now = cluster.statuses.wait_until("all tasks ran again", all_elsewhere, START_TIMEOUT_S)
    running = max(now[key].at for key in tasks if owner[key] == lost)
    time.sleep(2.0)
    stopped = {key for key, _ in cluster.statuses.since(killed) if key in owner and owner[key] != lost}
    later = [each for each in cluster.generations() if each.generation > before]
    if not later:
        raise ScriptFailed("The broker's log tells of no new generation after a worker was killed.")
    noticed = later[0]
    cluster.wait_until_in(cluster.launch())
    cluster.settle(names)
    return running - noticed.stable, running - noticed.begun, running - killed, float(len(stopped))


def _victim(cluster: Cluster, whom: str) -> Worker:
    leader = cluster.leader()
    if whom == WHOM[1]:
        return leader
    return next(worker for worker in reversed(cluster.workers) if worker is not leader)
