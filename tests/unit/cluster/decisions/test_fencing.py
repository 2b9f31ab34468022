"""Tests for the fencing of producers before new exactly-once tasks may write (KIP-618)."""

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
CREATION_ENTRIES = [Entry(*encode(ConnectorConfigRecord(X, {"name": "x"})))]


def commit_entries(tasks: int) -> list[Entry]:
    return task_config_entries(X, [{"n": str(n)} for n in range(tasks)])


def task_count_entries(tasks: int) -> list[Entry]:
    return [Entry(*encode(TaskCountRecord(X, tasks)))]


def replay_state(*entry_lists: list[Entry]) -> ClusterState:
    entries = [entry for part in entry_lists for entry in part]
    records = [Record(n, entry.key, entry.value, 0) for n, entry in enumerate(entries)]
    return apply_config(ClusterState(), records).state


def create_plan(*entry_lists: list[Entry]) -> FencingPlan:
    return plan_fencing(replay_state(*entry_lists), X, "g")


def test_tasks_with_a_recorded_count_need_no_fencing() -> None:
    plan = create_plan(CREATION_ENTRIES, commit_entries(2), task_count_entries(2))
    assert (plan.transactional_ids, plan.record) == ((), None)


@pytest.mark.parametrize(
    ("earlier_entries", "tasks", "ids"),
    [
        pytest.param([], 3, (), id="the first tasks have no predecessors"),
        pytest.param(task_count_entries(1), 1, (), id="a single task fences its predecessor itself"),
        pytest.param(task_count_entries(1), 2, ("g-x-0",), id="two tasks after one"),
        pytest.param(task_count_entries(3), 1, ("g-x-0", "g-x-1", "g-x-2"), id="one task after three"),
        pytest.param(task_count_entries(2), 2, ("g-x-0", "g-x-1"), id="two tasks after two"),
    ],
)
def test_new_task_configs_fence_older_tasks(
    earlier_entries: list[Entry], tasks: int, ids: tuple[str, ...]
) -> None:
    plan = create_plan(CREATION_ENTRIES, earlier_entries, commit_entries(tasks))
    assert plan.transactional_ids == ids
    assert [plan.record] == task_count_entries(tasks)


def test_fencing_round_is_outdated_by_newer_task_configs() -> None:
    planned_state, newer_state = (
        replay_state(CREATION_ENTRIES, commit_entries(2)),
        replay_state(CREATION_ENTRIES, commit_entries(2), commit_entries(2)),
    )
    plan = plan_fencing(planned_state, X, "g")
    assert not is_outdated(plan, planned_state)
    assert is_outdated(plan, newer_state)
    assert is_outdated(plan, ClusterState())


DELETION_ENTRIES = [Entry(*encode(ConnectorConfigRecord(X, None)))]


@pytest.mark.parametrize(
    ("earlier_entries", "ids"),
    [
        pytest.param([], (), id="unused name"),
        pytest.param(
            [*CREATION_ENTRIES, *commit_entries(2), *DELETION_ENTRIES],
            (),
            id="tasks without exactly-once support",
        ),
        pytest.param(
            [*CREATION_ENTRIES, *commit_entries(2), *task_count_entries(2), *DELETION_ENTRIES],
            ("g-x-0", "g-x-1"),
            id="two tasks",
        ),
        pytest.param(
            [*CREATION_ENTRIES, *commit_entries(1), *task_count_entries(1), *DELETION_ENTRIES],
            ("g-x-0",),
            id="one task",
        ),
        pytest.param(
            [
                *CREATION_ENTRIES,
                *commit_entries(1),
                *task_count_entries(1),
                *commit_entries(3),
                *DELETION_ENTRIES,
            ],
            ("g-x-0",),
            id="later tasks that never started",
        ),
    ],
)
def test_task_count_of_a_deleted_connector_determines_its_producers(
    earlier_entries: list[Entry], ids: tuple[str, ...]
) -> None:
    assert previous_producers(replay_state(earlier_entries), X, "g") == ids
