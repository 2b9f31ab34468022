from __future__ import annotations

from itertools import pairwise

from scripts.bench.control.cluster1000 import cases, measure
from scripts.bench.control.simulated import READ_S, SimulatedCluster

WORKERS, CONNECTORS = 3, 12


def start_cluster() -> SimulatedCluster:
    cluster = SimulatedCluster()
    cluster.add_workers(WORKERS - 1, over_s=0.5)
    cluster.advance_until_all_run()
    cluster.write_configs(CONNECTORS)
    cluster.advance_until_all_run()
    return cluster


def test_every_connector_and_task_runs_once() -> None:
    cluster = start_cluster()
    running_instances = [instance for worker in cluster.embedded.workers for instance in worker.running]
    assert len(running_instances) == len(set(running_instances)) == 2 * CONNECTORS
    cluster.embedded.check()


def test_work_of_a_killed_worker_moves_after_its_session() -> None:
    cluster = start_cluster()
    cluster.advance(READ_S)
    killed_worker, killed_s = cluster.embedded.workers[-1], cluster.now_s
    lost_instances = killed_worker.running
    killed_worker.kill()
    cluster.advance_until_rebalance()
    assert 5.0 < cluster.now_s - killed_s <= 6.0
    assert not lost_instances & {i for worker in cluster.embedded.alive for i in worker.running}
    assert cluster.advance_until_all_run() - killed_s < 7.5
    assert lost_instances <= {instance for worker in cluster.embedded.alive for instance in worker.running}


def test_joining_worker_receives_its_share() -> None:
    cluster = start_cluster()
    cluster.add_workers(1)
    cluster.advance_until_rebalance()
    cluster.advance_until_all_run()
    assert {len(worker.running) for worker in cluster.embedded.workers} == {2 * CONNECTORS // (WORKERS + 1)}


def test_cpu_time_is_measured_per_worker() -> None:
    cluster = start_cluster()
    cluster.start_measurement(by_worker=True)
    cluster.embedded.workers[-1].kill()
    cluster.advance_until_rebalance()
    cluster.advance_until_all_run()
    names = {worker.name for worker in cluster.embedded.alive}
    assert names <= cluster.cpu_s.keys()
    assert all(cluster.cpu_s[name] > 0 for name in names)
    cluster.start_measurement()
    cluster.advance(1.0)
    assert not cluster.cpu_s


def test_cases_contain_every_size_and_the_growth() -> None:
    figures = {3: measure(3, 6), 30: measure(30, 6)}
    rows = cases(figures)
    assert figures[3].keys() == figures[30].keys()
    assert len(rows) == 2 * len(figures[3]) + 8
    growth_cases = {before.name: case for before, case in pairwise(rows) if case.unit == "x"}
    growth_factor = growth_cases["metadata of the group, sent to the leader: 30 workers"].kraal[0]
    assert 5 < growth_factor < 15
    assert figures[30]["metadata of one worker's join, all protocols", "KB"] < 1
