from __future__ import annotations

from itertools import pairwise

from scripts.bench.control.cluster1000 import cases, measured
from scripts.bench.control.simulated import READ_S, SimulatedCluster

WORKERS, CONNECTORS = 3, 12


def started() -> SimulatedCluster:
    cluster = SimulatedCluster()
    cluster.add_workers(WORKERS - 1, over_s=0.5)
    cluster.until_all_run()
    cluster.write_configs(CONNECTORS)
    cluster.until_all_run()
    return cluster


def test_all_connectors_and_tasks_run_once() -> None:
    cluster = started()
    running = [instance for worker in cluster.embedded.workers for instance in worker.running]
    assert len(running) == len(set(running)) == 2 * CONNECTORS
    cluster.embedded.check()


def test_the_work_of_a_killed_worker_runs_elsewhere_after_its_session() -> None:
    cluster = started()
    cluster.advance(READ_S)
    dead, killed_s = cluster.embedded.workers[-1], cluster.now_s
    lost = dead.running
    dead.kill()
    cluster.until_rebalance()
    assert 5.0 < cluster.now_s - killed_s <= 6.0
    assert lost - {instance for worker in cluster.embedded.alive for instance in worker.running} == lost
    assert cluster.until_all_run() - killed_s < 7.5
    assert lost <= {instance for worker in cluster.embedded.alive for instance in worker.running}


def test_a_worker_that_joins_has_work_when_all_run() -> None:
    cluster = started()
    cluster.add_workers(1)
    cluster.until_rebalance()
    cluster.until_all_run()
    assert {len(worker.running) for worker in cluster.embedded.workers} == {2 * CONNECTORS // (WORKERS + 1)}


def test_time_is_divided_by_workers_while_it_is_watched() -> None:
    cluster = started()
    cluster.watch(by_worker=True)
    cluster.embedded.workers[-1].kill()
    cluster.until_rebalance()
    cluster.until_all_run()
    names = {worker.name for worker in cluster.embedded.alive}
    assert names <= cluster.spent.keys()
    assert all(cluster.spent[name] > 0 for name in names)
    cluster.watch()
    cluster.advance(1.0)
    assert not cluster.spent


def test_figures_have_every_size_and_the_growth_from_a_tenth_of_the_workers() -> None:
    figures = {3: measured(3, 6), 30: measured(30, 6)}
    found = cases(figures)
    assert figures[3].keys() == figures[30].keys()
    assert len(found) == 2 * len(figures[3]) + 8
    grown = {before.name: case for before, case in pairwise(found) if case.unit == "x"}
    reports = grown["metadata of the group, sent to the leader: 30 workers"].kraal[0]
    assert 5 < reports < 15
    assert figures[30]["metadata of one worker's join, all protocols", "KB"] < 1
