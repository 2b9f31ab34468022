"""`cluster100`: CPU time per worker for one change, with 10,000 connectors in a simulated cluster of 100 workers.

A time is the CPU time of all workers, divided by the number of workers. It includes two virtual seconds of heartbeats.
The longest message is the message whose handling took longest on any worker. Both values are medians. The configs are
in the config topic when the workers start. Growth compares all connectors with a tenth of them; a factor of ten is
linear.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from actors.messages.herder import CreateConnector, RestartConnector
from kraal.cluster.views import rest as view
from kraal.core.ids import ConnectorName
from kraal.testing import FAKE_SOURCE
from scripts.bench.control.simulated import READ_S, SimulatedCluster, disable_interference, make_name
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Target

WORKERS = 100
SIZES = (1_000, 10_000)
REPETITIONS = 10
"""Number of connectors that are created, of connectors that are restarted, and of workers that are killed."""
DETECTION_TIME_S = 7.0
"""Virtual time after which the other workers have detected that a worker is dead."""
LONGEST_MESSAGE = "longest message"
MAX_GROWTH = 20.0
"""Limit relative to a tenth of the connectors; quadratic growth would give 100."""


def run(lab: Lab) -> list[Case]:
    """Measure both sizes, for Kraal only."""
    sizes = [size // 10 for size in SIZES] if lab.options.quick else list(SIZES)
    small, large = (_measure(size) for size in sizes)
    cases = []
    for (name, unit), figure in large.items():
        cases.append(Case(name.format(f"{sizes[1]:,}"), unit, [], [figure]))
        if LONGEST_MESSAGE not in name:
            growth = figure / small[name, unit]
            cases.append(
                Case(
                    f"  relative to {sizes[0]:,} connectors",
                    "x",
                    [],
                    [growth],
                    wanted=Target(limit=MAX_GROWTH),
                )
            )
    return cases


def _measure(connectors: int) -> dict[tuple[str, str], float]:
    """Return the measured values by name and unit; `{}` in a name stands for the number of connectors."""
    results: dict[tuple[str, str], float] = {}
    with disable_interference():
        cluster = SimulatedCluster()
        cluster.write_configs(connectors)
        cluster.add_workers(WORKERS - 1)
        for name, step, times in _steps(cluster):
            cpu_times_ms, longest = [], []
            for number in range(times):
                cluster.start_measurement()
                start_s = time.process_time()
                step(number)
                cluster.advance_until_all_run()
                cluster.advance(READ_S)
                cpu_times_ms.append((time.process_time() - start_s) * 1000 / WORKERS)
                longest.append(cluster.longest)
            results[f"{name}, per worker", "ms"] = statistics.median(cpu_times_ms)
            longest.sort()
            if times > 1:
                results[f"{name}, {LONGEST_MESSAGE}", "ms"] = longest[len(longest) // 2][0] * 1000
            say(
                f"{name.format(f'{cluster.connectors:,}')}: {statistics.median(cpu_times_ms):.2f} ms;"
                f" {longest[len(longest) // 2][1]}"
            )
        start_s = time.process_time()
        view.connectors_expanded(cluster.embedded.awake[0].snapshot, ["status"])
        results["all statuses in one response ({} connectors)", "ms"] = (time.process_time() - start_s) * 1000
        results["resident memory ({} connectors), per worker", "MB"] = cluster.resident_mb() / WORKERS
    return results


def _steps(cluster: SimulatedCluster) -> tuple[tuple[str, Callable[[int], None], int], ...]:
    """Return the name, the function and the number of repetitions of each step."""

    def create(number: int) -> None:
        name = ConnectorName(f"new-{number}")
        cluster.ask(CreateConnector(name=name, config={"connector.class": FAKE_SOURCE}))
        cluster.connectors += 1

    def restart(number: int) -> None:
        cluster.ask(RestartConnector(name=make_name(number), include_tasks=True, only_failed=False))

    def lose(number: int) -> None:
        cluster.embedded.kill(cluster.embedded.workers[WORKERS - 1 - number])
        cluster.advance(DETECTION_TIME_S)

    return (
        ("start of all workers ({} connectors)", lambda _: None, 1),
        ("create one connector ({} existing)", create, REPETITIONS),
        ("restart one connector ({} existing)", restart, REPETITIONS),
        ("lose one worker ({} connectors)", lose, REPETITIONS),
    )
