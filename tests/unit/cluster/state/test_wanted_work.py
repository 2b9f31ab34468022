"""All work of a standalone worker follows from the cluster state, whatever the state before it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.wanted_work import Everything, everything
from kraal.core.ids import ConnectorName, TaskId

NAMES = tuple(map(ConnectorName, "abc"))


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3)), min_size=1, max_size=6))
def test_everything_follows_from_the_latest_state(counts: list[dict[ConnectorName, int]]) -> None:
    work, entries = Everything(), dict[tuple[ConnectorName, int], ConnectorEntry]()
    for wanted in counts:
        for name, tasks in wanted.items():
            entry = ConnectorEntry(name=name, config={}, tasks=({},) * tasks, task_count=tasks)
            entries.setdefault((name, tasks), entry)
        work = everything(ClusterState(connectors={n: entries[n, t] for n, t in wanted.items()}), work)
        assert work.assignment.connectors == set(wanted)
        assert work.assignment.tasks == {TaskId(n, k) for n, t in wanted.items() for k in range(t)}
