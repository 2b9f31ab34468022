"""Tests for the replay of the status topic (KafkaStatusBackingStore), and for topic tracking (KIP-558)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.status_replay import (
    apply_status,
    find_status,
    newer_statuses,
    put_entry,
    reset_topics,
    safe_to_put,
    stale_statuses,
    stale_topics,
    status_entries,
    tombstones,
    topic_entry,
)
from kraal.cluster.state.statuses import StatusState
from kraal.core.ids import ConnectorName, Generation, Instance, State, TaskId, TopicName, WorkerId
from kraal.core.records import Entry, Record
from kraal.protocol.status_records import Status
from tests.golden_files import current

GOLDEN = current("records")
X = ConnectorName("x")
T0, T1 = TaskId(X, 0), TaskId(X, 1)
ME, OTHER = WorkerId("me:1"), WorkerId("other:1")
LINES = TopicName("lines")


def status(state: State, worker: WorkerId = ME, generation: int = 1) -> Status:
    return Status(state=state, worker_id=worker, generation=Generation(generation))


def log(*entries: Entry, start: int = 0) -> list[Record]:
    return [Record(start + i, e.key, e.value) for i, e in enumerate(entries)]


def replay_entries(*entries: Entry) -> StatusState:
    return apply_status(StatusState(), log(*entries)).state


def test_replaying_java_records_matches_java_responses() -> None:
    rows = [json.loads(r) for r in (GOLDEN / "distributed-status.jsonl").read_text().strip().split("\n")]
    result = apply_status(
        StatusState(), [Record(i, r["key"], r["value"] and r["value"].encode()) for i, r in enumerate(rows)]
    )
    assert result.skipped == ()
    states = {
        name: (s.connector and s.connector.state.value, {n: t.state.value for n, t in s.tasks.items()})
        for name, s in result.state.statuses.items()
    }
    assert states == {
        "my-sink-2": ("STOPPED", {}),
        "early": ("STOPPED", {}),
        "idle": ("PAUSED", {}),
        "bad": ("RUNNING", {0: "RUNNING"}),
        "odd é-1": ("RUNNING", {0: "RUNNING"}),
    }
    assert result.state.topics[ConnectorName("my-sink-2")] == {"lines"}
    assert ConnectorName("my-source") not in result.state.topics


@pytest.mark.parametrize(
    ("stored_status", "late_generation", "expected"),
    [
        pytest.param((State.RUNNING, 5), 4, State.RUNNING, id="older generation"),
        pytest.param((State.RUNNING, 5), 5, State.RUNNING, id="same generation"),
        pytest.param((State.RUNNING, 5), 6, State.UNASSIGNED, id="newer generation"),
        pytest.param((State.FAILED, 5), 4, State.UNASSIGNED, id="only RUNNING is protected"),
    ],
)
def test_late_unassigned_status_does_not_replace_running(
    stored_status: tuple[State, int], late_generation: int, expected: State
) -> None:
    state = replay_entries(
        put_entry(T0, status(stored_status[0], OTHER, stored_status[1])),
        put_entry(T0, status(State.UNASSIGNED, ME, late_generation)),
    )
    replayed_status = find_status(state, T0)
    assert replayed_status is not None
    assert replayed_status.state is expected


@pytest.mark.parametrize(
    ("stored_status", "worker", "generation", "is_safe"),
    [
        pytest.param(None, ME, 1, True, id="no stored status"),
        pytest.param(status(State.RUNNING, ME, 9), ME, 1, True, id="own status"),
        pytest.param(status(State.RUNNING, OTHER, 3), ME, 3, True, id="the same generation"),
        pytest.param(status(State.RUNNING, OTHER, 4), ME, 3, False, id="status of a newer owner"),
    ],
)
@pytest.mark.parametrize("instance", [X, T0], ids=["connector", "task"])
def test_safe_put_does_not_replace_a_newer_owners_status(
    instance: Instance, stored_status: Status | None, worker: WorkerId, generation: int, *, is_safe: bool
) -> None:
    state = StatusState() if stored_status is None else replay_entries(put_entry(instance, stored_status))
    assert safe_to_put(state, instance, worker, Generation(generation)) is is_safe
    for new_state, is_always_put in ((State.FAILED, False), (State.UNASSIGNED, False), (State.RUNNING, True)):
        entries = status_entries(state, instance, status(new_state, worker, generation))
        assert bool(entries) is (is_safe or is_always_put)


def test_connector_tombstone_removes_task_statuses() -> None:
    state = replay_entries(
        put_entry(X, status(State.RUNNING)),
        put_entry(T0, status(State.RUNNING)),
        *tombstones(["status-connector-x"]),
    )
    assert state.statuses == {}


def test_invalid_record_advances_the_offset() -> None:
    result = apply_status(StatusState(), [Record(4, "status-connector-x", b"{}"), Record(7, "?", b"{")])
    assert result.state.offset == 7
    assert [str(s).split(":")[0] for s in result.skipped] == ["4", "7"]


def test_applied_records_are_reported_by_instance() -> None:
    entries = [
        put_entry(X, status(State.RUNNING)),
        put_entry(T0, status(State.RUNNING)),
        topic_entry(LINES, T0, 5),
    ]
    late_entry = put_entry(T0, status(State.UNASSIGNED, OTHER, 0))
    assert apply_status(StatusState(), log(*entries, late_entry)).changed == (X, T0)


@pytest.mark.parametrize(
    ("since_ms", "newer_instances"),
    [(4, {T0, T1}), (5, {T0, T1}), (6, {T1}), (7, {T1}), (8, set()), (-1, set())],
)
def test_newer_statuses_are_selected_by_record_time(since_ms: int, newer_instances: set[Instance]) -> None:
    entries = [put_entry(T0, status(State.RUNNING)), put_entry(T1, status(State.RUNNING))]
    records = [Record(n, e.key, e.value, 5 + 2 * n) for n, e in enumerate(entries)]
    state = apply_status(StatusState(), records).state
    assert newer_statuses(state, [X, T0, T1], since_ms) == newer_instances


def test_statuses_of_unconfigured_instances_are_stale() -> None:
    state = replay_entries(
        *(put_entry(i, status(State.RUNNING)) for i in (X, T1, T0)),
        put_entry(ConnectorName("gone"), status(State.RUNNING)),
        put_entry(TaskId(ConnectorName("gone"), 0), status(State.RUNNING)),
    )
    config = ClusterState(connectors={X: ConnectorEntry(name=X, config={}, tasks=({},), task_count=1)})
    empty_states = (ClusterState(), StatusState())
    stale_keys = stale_statuses(config, state, clean_states=empty_states)
    assert stale_keys == ["status-task-x-1", "status-connector-gone", "status-task-gone-0"]
    clean_state = apply_status(state, log(*tombstones(stale_keys), start=9)).state
    assert stale_statuses(config, clean_state, clean_states=empty_states) == []
    assert find_status(clean_state, T0) is not None


def test_only_changed_connectors_are_checked_for_stale_statuses() -> None:
    state = replay_entries(*(put_entry(i, status(State.RUNNING)) for i in (X, T1, T0)))
    two_tasks = ClusterState(connectors={X: ConnectorEntry(name=X, config={}, tasks=({}, {}), task_count=2)})
    one_task = ClusterState(connectors={X: ConnectorEntry(name=X, config={}, tasks=({},), task_count=1)})
    assert stale_statuses(one_task, state, clean_states=(two_tasks, state)) == ["status-task-x-1"]
    assert stale_statuses(ClusterState(), state, clean_states=(two_tasks, state)) == [
        "status-connector-x",
        "status-task-x-0",
        "status-task-x-1",
    ]
    late_state = apply_status(state, log(put_entry(TaskId(X, 2), status(State.UNASSIGNED)), start=9)).state
    assert stale_statuses(two_tasks, late_state, clean_states=(two_tasks, state)) == ["status-task-x-2"]


def test_topics_are_stored_until_reset() -> None:
    """KIP-558: "the set of topic names that the connector has been using since its creation or ... reset"."""
    state = replay_entries(
        topic_entry(LINES, T0, 5), topic_entry(LINES, T1, 6), topic_entry(TopicName("a"), T0, 7)
    )
    assert state.topics == {X: {"lines", "a"}}
    entries = reset_topics(state, X)
    assert entries == [
        Entry("status-topic-a:connector-x", None),
        Entry("status-topic-lines:connector-x", None),
    ]
    assert apply_status(state, log(*entries, start=3)).state.topics == {}


def test_topics_of_a_deleted_connector_are_stale() -> None:
    """KIP-558: "this request can be reapplied after the deletion of the connector"."""
    state = replay_entries(
        put_entry(X, status(State.RUNNING)), topic_entry(LINES, T0, 5), *tombstones(["status-connector-x"])
    )
    assert reset_topics(state, X) == stale_topics(ClusterState(), state) != []
    assert stale_topics(ClusterState(connectors={X: ConnectorEntry(name=X, config={})}), state) == []


instances = st.sampled_from([X, T0, T1])
steps = st.one_of(
    st.builds(
        lambda i, s, w, g: put_entry(i, status(s, w, g)),
        instances,
        st.sampled_from(list(State)),
        st.sampled_from([ME, OTHER]),
        st.integers(0, 3),
    ),
    st.sampled_from(["status-connector-x", "status-task-x-0", "status-topic-lines:connector-x"]).map(
        lambda key: Entry(key, None)
    ),
    st.just(topic_entry(LINES, T0, 1)),
)


@settings(max_examples=200)
@given(entries=st.lists(steps, max_size=30), batch_size=st.integers(1, 4))
def test_replay_is_independent_of_batch_boundaries(entries: list[Entry], batch_size: int) -> None:
    records = log(*entries)
    expected = apply_status(StatusState(), records)
    state = StatusState()
    changed_instances: list[Instance] = []
    for start in range(0, len(records), batch_size):
        partial_result = apply_status(state, records[start : start + batch_size])
        state = partial_result.state
        changed_instances += partial_result.changed
    assert (state, tuple(changed_instances)) == (expected.state, expected.changed)
