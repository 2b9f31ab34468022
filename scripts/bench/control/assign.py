"""`assign`: the leader's incremental cooperative assignment for 100 workers, computed in this process.

The first round assigns all connectors and tasks; the second round reassigns the work of one lost worker. Both rounds
are also measured with 10 static workers (KIP-987), whose listed work runs on other workers before the second round.
Connect's own assignor is measured with 10,000 tasks. Growth is the factor by which time or memory (tracemalloc's peak)
grows with ten times as many tasks, divided by the growth of n log n.
"""

from __future__ import annotations

import gc
import math
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from kraal.cluster.assignment.incremental import assign_incrementally
from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round
from kraal.cluster.assignment.static import assign_statically
from kraal.core.ids import ConnectorName
from kraal.protocol.group import CONNECTOR, ConnectorOrTask
from scripts.bench.control import assign_java
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Target
from scripts.harness.processes import ScriptFailed

MEMBERS = 100
SIZES = (1_000, 10_000, 100_000)
JAVA_SIZE = 10_000
TASKS_PER_CONNECTOR = 10
LIMIT_MS = 150.0
MAX_GROWTH = 1.25
"""Limit relative to n log n, which allows for cache misses; n squared would give 8."""

STATIC_MEMBERS = 10
"""Number of static members. Each lists every hundredth connector, and the last also lists those of the others."""

ROUNDS = ("initial assignment", "lost worker")
STATIC_ROUNDS = ("10 static workers, initial assignment", "10 static workers, late join")
"""Rounds with static workers (KIP-987), which Java does not support."""


def run(lab: Lab) -> list[Case]:
    """Compute the assignment of each size several times."""
    times = lab.options.times(15, 3)
    java: dict[str, list[float]] = {}
    if "java" in lab.options.sides:
        java = assign_java.measure(lab, MEMBERS, JAVA_SIZE, TASKS_PER_CONNECTOR, times, ROUNDS)
    kraal: dict[tuple[str, int], list[float]] = {}
    memory: dict[tuple[str, int], float] = {}
    if "kraal" in lab.options.sides:
        for size in SIZES:
            for name, assign in _rounds(size).items():
                kraal[name, size] = _measure_ms(assign, times if size <= JAVA_SIZE else max(3, times // 3))
                memory[name, size] = _measure_peak(assign)
                say(f"{size:,} tasks, {name}: {min(kraal[name, size]):.1f} ms")
    names = (*ROUNDS, *STATIC_ROUNDS)
    return [case for name in names for case in _cases(name, java.get(name, []), kraal, memory)]


def _cases(
    name: str,
    java: list[float],
    kraal: dict[tuple[str, int], list[float]],
    memory: dict[tuple[str, int], float],
) -> list[Case]:
    cases = []
    for size in SIZES:
        is_java_size = size == JAVA_SIZE
        wanted = Target(limit=LIMIT_MS) if is_java_size else Target()
        durations_ms = kraal.get((name, size), [])
        cases.append(
            Case(f"{name}: {size:,} tasks", "ms", java if is_java_size else [], durations_ms, wanted=wanted)
        )
        peak = [memory[name, size] / 2**20] if (name, size) in memory else []
        cases.append(Case("  memory", "MiB", [], peak))
    min_times = {size: min(kraal[name, size]) for size in SIZES if (name, size) in kraal}
    peaks = {size: memory[name, size] for size in SIZES if (name, size) in memory}
    for resource, figures in (("time", min_times), ("memory", peaks)):
        growth = _compute_growth(figures)
        cases.append(
            Case(f"  growth of {resource}, maximum", "x n log n", [], growth, wanted=Target(limit=MAX_GROWTH))
        )
    return cases


def _rounds(size: int) -> dict[str, Callable[[], Outcome]]:
    """Return, for each round, a function that computes the assignment."""
    connectors = [ConnectorName(f"connector-{number:06d}") for number in range(size // TASKS_PER_CONNECTOR)]
    configured = frozenset(
        ConnectorOrTask(name, task) for name in connectors for task in range(CONNECTOR, TASKS_PER_CONNECTOR)
    )
    members = [f"worker-{number:03d}" for number in range(MEMBERS)]
    first = Round(
        members=dict.fromkeys(members, ()),
        configured=configured,
        last_completed_generation=-1,
        generation=1,
        now_ms=0,
        max_delay_ms=0,
    )
    after = assign_incrementally(first, AssignorState())
    if sum(map(len, after.owned.values())) != len(configured):
        raise ScriptFailed("The first round did not assign all connectors and tasks.")
    second = Round(
        members={member: after.owned[member] for member in members[1:]},
        configured=configured,
        last_completed_generation=1,
        generation=2,
        now_ms=1_000,
        max_delay_ms=0,
    )
    lists = _make_static_lists(members[-STATIC_MEMBERS:], connectors)
    static = replace(first, lists=lists)
    late_join = replace(second, members={**second.members, members[0]: ()}, lists=lists)
    has_unassigned = sum(map(len, assign_statically(static, AssignorState()).owned.values())) < len(
        configured
    )
    if has_unassigned or not any(assign_statically(late_join, after.state).revoked.values()):
        raise ScriptFailed("The static rounds left work unassigned, or the late join revoked none.")
    return {
        ROUNDS[0]: lambda: assign_incrementally(first, AssignorState()),
        ROUNDS[1]: lambda: assign_incrementally(second, after.state),
        STATIC_ROUNDS[0]: lambda: assign_statically(static, AssignorState()),
        STATIC_ROUNDS[1]: lambda: assign_statically(late_join, after.state),
    }


def _make_static_lists(
    members: list[str], connectors: list[ConnectorName]
) -> dict[str, frozenset[ConnectorOrTask]]:
    """Return the static assignment of each member: every hundredth connector with its tasks.

    The static assignment of the last member also includes those of all others.
    """
    lists = {
        member: frozenset(
            ConnectorOrTask(name, task)
            for name in connectors[number::100]
            for task in range(CONNECTOR, TASKS_PER_CONNECTOR)
        )
        for number, member in enumerate(members)
    }
    return {**lists, members[-1]: frozenset().union(*lists.values())}


def _measure_ms(assign: Callable[[], Outcome], times: int) -> list[float]:
    assign()
    durations_ms = []
    for _ in range(times):
        gc.collect()
        start_s = time.perf_counter()
        assign()
        durations_ms.append((time.perf_counter() - start_s) * 1000)
    return durations_ms


def _measure_peak(assign: Callable[[], Outcome]) -> float:
    gc.collect()
    tracemalloc.start()
    assign()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return float(peak)


def _compute_growth(figures: dict[int, float]) -> list[float]:
    """Return the largest growth between two sizes, relative to n log n; empty if there are no values."""
    growth = [
        (figures[large] / figures[small]) / (large * math.log(large) / (small * math.log(small)))
        for small, large in pairwise(figures)
    ]
    return [max(growth)] if growth else []
