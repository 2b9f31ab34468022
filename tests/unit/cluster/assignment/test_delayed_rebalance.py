"""Tests for spreading new instances and handling lost instances, as in IncrementalCooperativeAssignorTest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraal.cluster.assignment.delayed_rebalance import (
    LostAssignmentsPlan,
    backoff_ms,
    handle_lost_assignments,
)
from kraal.cluster.assignment.fair_share import deal_round_robin, find_surplus, spread
from kraal.cluster.assignment.rebalance import AssignorState, Pause
from kraal.core.ids import ConnectorName
from kraal.protocol.group import ConnectorOrTask

MAX_DELAY_MS = 300_000
HALF_DELAY_MS = MAX_DELAY_MS // 2
START_MS = 7_000


def make_load(first: int, connectors: int, first_task: int, tasks: int) -> tuple[ConnectorOrTask, ...]:
    return (
        *(ConnectorOrTask(ConnectorName(f"c{n}")) for n in range(first, first + connectors)),
        *(ConnectorOrTask(ConnectorName("t"), n) for n in range(first_task, first_task + tasks)),
    )


LOADS = {"w0": make_load(0, 2, 0, 4), "w1": make_load(2, 2, 4, 4), "w2": make_load(4, 2, 8, 4)}
LOST_INSTANCES = frozenset(LOADS["w1"])
LOADS_WITHOUT_W1 = {"w0": LOADS["w0"], "w2": LOADS["w2"]}


class LostJobsScenario:
    """A leader that repeatedly handles one set of lost instances."""

    def __init__(self, max_delay_ms: int = MAX_DELAY_MS) -> None:
        self.max_delay_ms = max_delay_ms
        self.now_ms = START_MS
        self.state = AssignorState(members=frozenset(LOADS))

    def plan_round(
        self, current: dict[str, tuple[ConnectorOrTask, ...]], *, later_ms: int = 0
    ) -> LostAssignmentsPlan:
        self.now_ms += later_ms
        plan = handle_lost_assignments(
            LOST_INSTANCES, current, self.state, now_ms=self.now_ms, max_delay_ms=self.max_delay_ms
        )
        self.state = replace(plan.state, members=frozenset(current))
        return plan


def is_delayed_plan(plan: LostAssignmentsPlan, *candidates: str, delay_ms: int) -> bool:
    pause = Pause(candidates=candidates, until_ms=START_MS + MAX_DELAY_MS, delay_ms=delay_ms)
    return plan.state.pause == pause and not plan.reassign and not plan.to_candidates


@pytest.mark.parametrize(
    "name_format", [pytest.param("c{}", id="connectors"), pytest.param("t-{}", id="tasks")]
)
def test_new_instances_are_spread_over_balanced_workers(name_format: str) -> None:
    instances = [name_format.format(n) for n in range(6, 11)]
    instances_by_worker = spread({"w0": 2, "w1": 2, "w2": 2}, instances)
    assert instances_by_worker == {
        "w0": [instances[0], instances[3]],
        "w1": [instances[1], instances[4]],
        "w2": [instances[2]],
    }


def test_new_instances_fill_up_less_loaded_workers() -> None:
    sizes = {"w0": 2, "w1": 3, "w2": 4, "w3": 0}
    instances_by_worker = spread(sizes, range(9, 24))
    assert {
        name: sizes[name] + len(instances) for name, instances in instances_by_worker.items()
    } == dict.fromkeys(sizes, 6)


def test_equally_loaded_workers_are_ordered_by_id() -> None:
    assert spread({"b": 0, "a": 0}, "x") == {"a": ["x"], "b": []}


def test_initially_less_loaded_worker_precedes_equally_loaded_workers() -> None:
    assert spread({"a": 1, "b": 0}, "wxyz") == {"b": ["w", "x", "z"], "a": ["y"]}


def test_bouncing_worker_receives_all_lost_work() -> None:
    scenario = LostJobsScenario()
    assert is_delayed_plan(scenario.plan_round(LOADS_WITHOUT_W1), delay_ms=MAX_DELAY_MS)
    assert is_delayed_plan(
        scenario.plan_round({**LOADS_WITHOUT_W1, "w1": ()}, later_ms=HALF_DELAY_MS),
        "w1",
        delay_ms=HALF_DELAY_MS,
    )
    plan = scenario.plan_round({**LOADS_WITHOUT_W1, "w1": ()}, later_ms=HALF_DELAY_MS)
    assert {name: set(instances) for name, instances in plan.to_candidates.items()} == {
        "w1": set(LOST_INSTANCES)
    }
    assert not plan.reassign
    assert plan.state.pause == Pause()


def test_work_of_a_departed_worker_is_reassigned_as_new() -> None:
    scenario = LostJobsScenario()
    assert is_delayed_plan(scenario.plan_round(LOADS_WITHOUT_W1), delay_ms=MAX_DELAY_MS)
    assert is_delayed_plan(
        scenario.plan_round(LOADS_WITHOUT_W1, later_ms=HALF_DELAY_MS), delay_ms=HALF_DELAY_MS
    )
    plan = scenario.plan_round(LOADS_WITHOUT_W1, later_ms=HALF_DELAY_MS)
    assert (plan.reassign, plan.to_candidates, plan.state.pause) == (LOST_INSTANCES, {}, Pause())


def test_candidates_share_lost_work_regardless_of_load() -> None:
    scenario = LostJobsScenario()
    assert is_delayed_plan(scenario.plan_round({**LOADS_WITHOUT_W1, "w3": ()}), "w3", delay_ms=MAX_DELAY_MS)
    loads_with_candidates = {**LOADS_WITHOUT_W1, "w3": (), "w1": ()}
    assert is_delayed_plan(
        scenario.plan_round(loads_with_candidates, later_ms=HALF_DELAY_MS), "w3", "w1", delay_ms=HALF_DELAY_MS
    )
    loads_with_busy_candidates = {
        **LOADS_WITHOUT_W1,
        "w3": make_load(8, 2, 12, 4),
        "w1": make_load(6, 2, 8, 4),
    }
    plan = scenario.plan_round(loads_with_busy_candidates, later_ms=HALF_DELAY_MS)
    assert {instance for instances in plan.to_candidates.values() for instance in instances} == LOST_INSTANCES
    assert {name: len(instances) for name, instances in plan.to_candidates.items()} == {"w3": 3, "w1": 3}
    assert plan.state.pause == Pause()


def test_candidate_that_left_receives_no_work() -> None:
    scenario = LostJobsScenario()
    assert is_delayed_plan(scenario.plan_round(LOADS_WITHOUT_W1), delay_ms=MAX_DELAY_MS)
    assert is_delayed_plan(
        scenario.plan_round({**LOADS_WITHOUT_W1, "w1": ()}, later_ms=HALF_DELAY_MS),
        "w1",
        delay_ms=HALF_DELAY_MS,
    )
    plan = scenario.plan_round(LOADS_WITHOUT_W1, later_ms=HALF_DELAY_MS)
    assert (plan.reassign, plan.to_candidates, plan.state.pause) == (LOST_INSTANCES, {}, Pause())


def test_zero_max_delay_reassigns_lost_work_as_new() -> None:
    plan = LostJobsScenario(max_delay_ms=0).plan_round(LOADS_WITHOUT_W1)
    assert (plan.reassign, plan.to_candidates, plan.state.pause) == (LOST_INSTANCES, {}, Pause())


def test_lost_work_is_not_delayed_if_no_member_left() -> None:
    plan = LostJobsScenario().plan_round({**LOADS_WITHOUT_W1, "w1": ()})
    assert (plan.reassign, plan.state.pause) == (LOST_INSTANCES, Pause())


def test_delay_ends_without_lost_work() -> None:
    state = AssignorState(pause=Pause(candidates=("w1",), until_ms=9, delay_ms=9))
    plan = handle_lost_assignments(frozenset(), LOADS_WITHOUT_W1, state, now_ms=1, max_delay_ms=9)
    assert plan == LostAssignmentsPlan(state=AssignorState())


@pytest.mark.parametrize(
    ("max_delay_ms", "delays_ms"),
    [
        pytest.param(300_000, [40, 1_600, 64_000, 300_000, 300_000], id="five minutes"),
        pytest.param(1, [1, 1, 1, 1, 1], id="a millisecond"),
        pytest.param(0, [0, 0, 0, 0, 0], id="no delay"),
        pytest.param(20, [20, 20, 20, 20, 20], id="below the initial backoff"),
        pytest.param(2**31 - 1, [40, 1_600, 64_000, 2_560_000, 102_400_000], id="largest int"),
    ],
)
def test_successive_revocations_back_off(max_delay_ms: int, delays_ms: list[int]) -> None:
    assert [backoff_ms(count, max_delay_ms) for count in range(1, 6)] == delays_ms
    assert backoff_ms(10**9, max_delay_ms) == max_delay_ms


@pytest.mark.parametrize(
    ("current", "total", "expected"),
    [
        pytest.param({"a": "12", "b": "3"}, 3, {}, id="in balance"),
        pytest.param({"a": "1234", "b": ""}, 4, {"a": "12"}, id="half of the instances, from the front"),
        pytest.param({"a": "123", "b": "456", "c": ""}, 6, {"a": "1", "b": "4"}, id="two instances each"),
        pytest.param({"a": "12", "b": "34", "c": ""}, 4, {"b": "3"}, id="the first worker may keep one more"),
        pytest.param({"a": "12", "b": ""}, 8, {}, id="room for unassigned instances"),
        pytest.param({"a": "1", "b": ""}, 1, {}, id="one instance for two workers"),
    ],
)
def test_surplus_exceeds_the_fair_share(
    current: dict[str, str], total: int, expected: dict[str, str]
) -> None:
    assert find_surplus(current, total) == expected


def test_deal_is_round_robin() -> None:
    assert deal_round_robin(["a", "b"], "xyz") == {"a": ["x", "z"], "b": ["y"]}
