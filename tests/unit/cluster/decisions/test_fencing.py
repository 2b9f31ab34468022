"""Whose producers are fenced before new tasks may write exactly once: KIP-618."""

from __future__ import annotations

import pytest

from kraal.cluster.decisions.fencing import FencingPlan, is_outdated, plan_fencing, previous_producers
from kraal.cluster.decisions.task_configs import task_config_entries
from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.config_replay import apply_config
from kraal.core.ids import ConnectorName
from kraal.core.records import Entry, Record
from kraal.protocol.records import ConnectorConfigRecord, TaskCountRecord, encode

X = ConnectorName("x")
CREATED = [Entry(*encode(ConnectorConfigRecord(X, {"name": "x"})))]


def committed(tasks: int) -> list[Entry]:
    return task_config_entries(X, [{"n": str(n)} for n in range(tasks)])


def counted(tasks: int) -> list[Entry]:
    return [Entry(*encode(TaskCountRecord(X, tasks)))]


def state_of(*parts: list[Entry]) -> ClusterState:
    entries = [entry for part in parts for entry in part]
    records = [Record(n, entry.key, entry.value, 0) for n, entry in enumerate(entries)]
    return apply_config(ClusterState(), records).state


def plan_of(*parts: list[Entry]) -> FencingPlan:
    return plan_fencing(state_of(*parts), X, "g")


def test_tasks_with_a_recorded_count_need_no_fencing() -> None:
    plan = plan_of(CREATED, committed(2), counted(2))
    assert (plan.transactional_ids, plan.record) == ((), None)


@pytest.mark.parametrize(
    ("before", "tasks", "ids"),
    [
        pytest.param([], 3, (), id="the first tasks have no predecessors"),
        pytest.param(counted(1), 1, (), id="one task replaces one by its own id"),
        pytest.param(counted(1), 2, ("g-x-0",), id="two after one"),
        pytest.param(counted(3), 1, ("g-x-0", "g-x-1", "g-x-2"), id="one after three"),
        pytest.param(counted(2), 2, ("g-x-0", "g-x-1"), id="as many as before"),
    ],
)
def test_a_new_set_of_tasks_has_the_older_ones_fenced(
    before: list[Entry], tasks: int, ids: tuple[str, ...]
) -> None:
    plan = plan_of(CREATED, before, committed(tasks))
    assert plan.transactional_ids == ids
    assert [plan.record] == counted(tasks)


def test_a_round_is_outdated_once_there_are_other_task_configs() -> None:
    before, after = state_of(CREATED, committed(2)), state_of(CREATED, committed(2), committed(2))
    plan = plan_fencing(before, X, "g")
    assert not is_outdated(plan, before)
    assert is_outdated(plan, after)
    assert is_outdated(plan, ClusterState())


DELETED = [Entry(*encode(ConnectorConfigRecord(X, None)))]


@pytest.mark.parametrize(
    ("before", "ids"),
    [
        pytest.param([], (), id="a name that never had a connector"),
        pytest.param([*CREATED, *committed(2), *DELETED], (), id="tasks that never wrote exactly once"),
        pytest.param([*CREATED, *committed(2), *counted(2), *DELETED], ("g-x-0", "g-x-1"), id="two tasks"),
        pytest.param([*CREATED, *committed(1), *counted(1), *DELETED], ("g-x-0",), id="a single task too"),
        pytest.param(
            [*CREATED, *committed(1), *counted(1), *committed(3), *DELETED],
            ("g-x-0",),
            id="more tasks that never started",
        ),
    ],
)
def test_the_task_count_of_a_deleted_connector_tells_its_producers(
    before: list[Entry], ids: tuple[str, ...]
) -> None:
    assert previous_producers(state_of(before), X, "g") == ids
