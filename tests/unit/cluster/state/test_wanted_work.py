"""All work of a standalone worker is derived from the cluster state, independent of earlier states."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.wanted_work import AllWork, assign_all_work
from kraal.core.ids import ConnectorName, TaskId

NAMES = tuple(map(ConnectorName, "abc"))


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)), min_size=1, max_size=6))
def test_herder_receives_the_latest_assignment(counts: list[dict[ConnectorName, int]]) -> None:
    work, entries = AllWork(), dict[tuple[ConnectorName, int], ConnectorEntry]()
    for wanted in counts:
        for name, tasks in wanted.items():
            entry = ConnectorEntry(name=name, config={}, tasks=({},) * tasks, task_count=tasks)
            entries.setdefault((name, tasks), entry)
        work = assign_all_work(ClusterState(connectors={n: entries[n, t] for n, t in wanted.items()}), work)
        assert work.assignment.connectors == set(wanted)
        assert work.assignment.tasks == {TaskId(n, k) for n, t in wanted.items() for k in range(t)}
