"""`cluster1000`: the cost of a rebalance, with 1,000 connectors in simulated clusters of 10 to 1,000 workers.

A follower is killed, and another worker joins, three times each; then the leader is killed. The CPU time of each
worker is measured from the moment when the coordinator begins the rebalance until all connectors and tasks run and all
statuses are read. Heartbeats and empty reads are not included. Values are medians; for followers, a value is also the
median of all followers. The time from the kill until all connectors and tasks run is virtual and independent of the
machine. The broker's work is not simulated, but the sizes of the requests that it receives are exact. Growth compares
the largest cluster with a cluster of a tenth of its workers; a factor of ten is linear.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from kraal.testing._simulation.group import HEARTBEAT_INTERVAL_S
from scripts.bench.control.simulated import READ_S, SimulatedCluster, disable_interference
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Target

SIZES: Final = (10, 100, 300, 1_000)
CONNECTORS: Final = 1_000
REPETITIONS: Final = 3
"""Number of followers that are killed, and of workers that join."""
CHECK_INTERVAL_S: Final = 0.02
"""Virtual seconds between two checks of whether all connectors and tasks run."""
MAX_GROWTH: Final = 20.0
"""Limit relative to a tenth of the workers; quadratic growth would give 100."""
GROWTH_LIMITED_NAMES: Final = (": CPU time of the leader", ": CPU time of a follower", "of the group")
"""Substrings of the names of values whose growth is limited."""

Name = tuple[str, str]
"""Name and unit of a value."""


def run(lab: Lab) -> list[Case]:
    """Measure each size, for Kraal only, in a separate process, whose memory is measured."""
    quick = lab.options.quick
    sizes = [max(3, size // 10) for size in SIZES] if quick else SIZES
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        connectors = CONNECTORS // 10 if quick else CONNECTORS
        return cases({size: pool.submit(measure, size, connectors).result() for size in sizes})


def cases(figures: Mapping[int, Mapping[Name, float]]) -> list[Case]:
    """Return the values by number of workers, and their growth from a tenth of the largest number to the largest."""
    largest = max(figures)
    tenth = largest // 10
    rows = []
    for name, unit in figures[largest]:
        rows += [Case(f"{name}: {size:,} workers", unit, [], [figures[size][name, unit]]) for size in figures]
        if any(words in name for words in GROWTH_LIMITED_NAMES):
            growth = figures[largest][name, unit] / figures[tenth][name, unit]
            label = f"  {largest:,} relative to {tenth:,} workers"
            rows.append(Case(label, "x", [], [growth], wanted=Target(limit=MAX_GROWTH)))
    return rows


def measure(workers: int, connectors: int) -> dict[Name, float]:
    """Run the rebalances in a simulated cluster; return the measured values by name and unit."""
    with disable_interference():
        cluster = SimulatedCluster()
        start_s = time.process_time()
        cluster.add_workers(workers - 1, over_s=HEARTBEAT_INTERVAL_S)
        cluster.advance_until_all_run()
        cluster.write_configs(connectors)
        cluster.advance_until_all_run()
        cluster.advance(READ_S)
        start_ms = (time.process_time() - start_s) * 1000 / workers
        results: defaultdict[Name, list[float]] = defaultdict(list)
        results["start of all connectors, per worker", "ms"].append(start_ms)
        results["resident memory, per worker", "MB"].append(cluster.resident_mb() / workers)
        say(
            f"{workers:,} workers: {start_ms:.0f} ms each to start, {cluster.resident_mb():,.0f} MB in all, "
            f"{cluster.embedded.broker.generation} generations"
        )
        for _ in range(REPETITIONS):
            _add_costs(results, "loss of a worker", _lose_follower(cluster))
            _add_sizes(results, cluster)
            _add_costs(results, "join of a worker", _join(cluster))
        _add_costs(results, "loss of the leader", _lose_leader(cluster))
        for (name, unit), values in results.items():
            say(f"{workers:,} workers: {name}: {', '.join(f'{value:.3g}' for value in values)} {unit}")
        return {name: statistics.median(values) for name, values in results.items()}


@dataclass(frozen=True, slots=True)
class _Rebalance:
    """The cost of one change of the members."""

    leader_s: float
    followers_s: list[float]
    joined_s: float
    """CPU time of the worker that joined, since its start; 0 if none joined."""
    virtual_s: float
    """Virtual time from the change until all connectors and tasks run."""
    longest: tuple[float, str]
    """Seconds and description of the message that took longest on any worker."""


def _lose_follower(cluster: SimulatedCluster) -> _Rebalance:
    leader = cluster.embedded.leader
    return _rebalance(cluster, next(worker for worker in cluster.embedded.alive if worker is not leader).kill)


def _lose_leader(cluster: SimulatedCluster) -> _Rebalance:
    return _rebalance(cluster, cluster.embedded.leader.kill)


def _join(cluster: SimulatedCluster) -> _Rebalance:
    return _rebalance(cluster, cluster.embedded.add)


def _rebalance(cluster: SimulatedCluster, change: Callable[[], object]) -> _Rebalance:
    """Change the members and measure the rebalance; a joining worker is not counted as a follower."""
    start_s, before = cluster.now_s, cluster.embedded.alive
    cluster.start_measurement(by_worker=True)
    change()
    cluster.advance_until_rebalance()
    cpu_s_before_rebalance = dict(cluster.cpu_s)
    cluster.start_measurement(by_worker=True)
    virtual_s = cluster.advance_until_all_run(CHECK_INTERVAL_S) - start_s
    cluster.advance(READ_S)
    leader, cpu_s, alive = cluster.embedded.leader, cluster.cpu_s, cluster.embedded.alive
    rebalance = _Rebalance(
        leader_s=cpu_s[leader.name],
        followers_s=[cpu_s[worker.name] for worker in before if worker.alive and worker is not leader],
        joined_s=sum(
            cpu_s[worker.name] + cpu_s_before_rebalance.get(worker.name, 0.0)
            for worker in alive
            if worker not in before
        ),
        virtual_s=virtual_s,
        longest=cluster.longest,
    )
    cluster.start_measurement()
    return rebalance


def _add_costs(results: defaultdict[Name, list[float]], change: str, rebalance: _Rebalance) -> None:
    results[f"{change}: CPU time of the leader", "ms"].append(rebalance.leader_s * 1000)
    results[f"{change}: longest message", "ms"].append(rebalance.longest[0] * 1000)
    results[f"{change}: CPU time of a follower", "ms"].append(statistics.median(rebalance.followers_s) * 1000)
    if rebalance.joined_s:
        results[f"{change}: CPU time of the joining worker", "ms"].append(rebalance.joined_s * 1000)
    results[f"{change}: until all tasks run, virtual time", "s"].append(rebalance.virtual_s)
    say(f"  {change}: {rebalance.longest[1]}; slowest follower {max(rebalance.followers_s) * 1000:.1f} ms")


def _add_sizes(results: defaultdict[Name, list[float]], cluster: SimulatedCluster) -> None:
    """Add the sizes of the messages of the last rebalance, in which each worker reported all its work."""
    broker = cluster.embedded.broker
    offer_sizes = {
        member: {o.name: len(o.metadata) for o in offers} for member, offers in broker.offers.items()
    }
    joins = [sum(sizes.values()) for sizes in offer_sizes.values()]
    reports = sum(
        size for sizes in offer_sizes.values() for name, size in sizes.items() if name == broker.protocol
    )
    assigned = sum(map(len, broker.assignments.values()))
    results["metadata of one worker's join, all protocols", "KB"].append(statistics.median(joins) / 1000)
    results["metadata of the group, sent to the leader", "KB"].append(reports / 1000)
    results["assignment of the group, sent by the leader", "KB"].append(assigned / 1000)
