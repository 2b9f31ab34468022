"""`restart-cluster`: POST /connectors/X/restart?includeTasks=true to the leader and a follower of three workers.

X is an idle FileStreamSource; connections are persistent. "Response" is the time from the POST to the 202. "RUNNING
again" is the time from the POST until the latest status of the connector and of its task in the status topic is a new
RUNNING.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from scripts.bench.control.restart import INVERSE_GOLDEN_RATIO, WARM_UPS
from scripts.bench.lab import Lab, say, source_config
from scripts.bench.report import Case, Target
from scripts.harness.clusters import Cluster
from scripts.harness.group import RUNNING, Status
from scripts.harness.workers import START_TIMEOUT_S, Worker

NAME = "idle"
LIMITS_MS = {"leader": 20.0, "follower": 50.0}
"""Limit in milliseconds by role of the worker that receives the requests."""


def run(lab: Lab) -> list[Case]:
    """Restart an idle connector repeatedly in a cluster of each kind."""
    rows: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for kind in lab.options.sides:
        cluster = lab.cluster(kind)
        cluster.start(3)
        cluster.workers[0].rest.create(NAME, source_config(lab.file(10), lab.topic("restart")))
        cluster.settle([NAME])
        leader = cluster.leader()
        workers_by_role = {"leader": leader, "follower": next(w for w in cluster.workers if w is not leader)}
        for role, worker in workers_by_role.items():
            rows[kind, role] = _measure_restarts(cluster, worker, lab.options.times(20, 5))
            say(f"{kind}, {role}: {len(rows[kind, role])} restarts")
        cluster.stop()
    cases = []
    for role, limit in LIMITS_MS.items():
        java, kraal = (rows.get((kind, role), []) for kind in ("java", "kraal"))
        for name, number, wanted in ((f"{role}: response", 0, limit), ("  RUNNING again", 1, 150.0)):
            cases.append(
                Case(
                    name,
                    "ms",
                    [row[number] for row in java],
                    [row[number] for row in kraal],
                    wanted=Target(limit=wanted),
                )
            )
    return cases


def _measure_restarts(cluster: Cluster, worker: Worker, times: int) -> list[tuple[float, float]]:
    """Return milliseconds until the response, and until connector and task were RUNNING again."""
    keys = (f"connector-{NAME}", f"task-{NAME}-0")
    durations_ms = []
    for number in range(WARM_UPS + times):
        start_s = time.time()

        def is_running_again(statuses: Mapping[str, Status], start_s: float = start_s) -> bool:
            return all(statuses[key].state == RUNNING and statuses[key].at > start_s for key in keys)

        worker.rest.restart(NAME)
        response_s = time.time()
        cluster.statuses.wait_until(f"{NAME} was RUNNING again", is_running_again, START_TIMEOUT_S)
        time.sleep(0.2 + number * INVERSE_GOLDEN_RATIO % 1.0)
        statuses = cluster.statuses.wait_until(f"{NAME} stayed RUNNING", is_running_again, START_TIMEOUT_S)
        if number >= WARM_UPS:
            durations_ms.append(
                ((response_s - start_s) * 1000, (max(statuses[key].at for key in keys) - start_s) * 1000)
            )
    return durations_ms
