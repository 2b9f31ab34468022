"""Tests that the work of a standalone worker depends only on the latest cluster state."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.wanted_work import AllWork, assign_all_work
from kraal.core.ids import ConnectorName, TaskId

NAMES = tuple(map(ConnectorName, "abc"))


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)), min_size=1, max_size=6))
def test_work_depends_only_on_the_latest_state(counts: list[dict[ConnectorName, int]]) -> None:
    work, entries = AllWork(), dict[tuple[ConnectorName, int], ConnectorEntry]()
    for task_counts in counts:
        for name, tasks in task_counts.items():
            entry = ConnectorEntry(name=name, config={}, tasks=({},) * tasks, task_count=tasks)
            entries.setdefault((name, tasks), entry)
        work = assign_all_work(
            ClusterState(connectors={n: entries[n, t] for n, t in task_counts.items()}), work
        )
        assert work.assignment.connectors == set(task_counts)
        assert work.assignment.tasks == {TaskId(n, k) for n, t in task_counts.items() for k in range(t)}
