"""Tests for the replay of the config topic (KafkaConfigBackingStore)."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.cluster.decisions.task_configs import task_config_entries
from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.compaction import needed_config
from kraal.cluster.state.config_replay import (
    ConnectorChanged,
    ConnectorRemoved,
    Event,
    LoggerChanged,
    RestartRequested,
    SessionKeyChanged,
    TargetChanged,
    TasksChanged,
    apply_config,
)
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.core.records import Record
from tests.golden_files import current

GOLDEN = current("records")
X = ConnectorName("x")
CONFIG_PAIR = ("connector-x", {"properties": {"name": "x"}})
PAUSED_PAIR = ("target-state-x", {"state": "PAUSED", "state.v2": "PAUSED"})
Pair = tuple[str, object]


def task(number: int, value: str = "1") -> Pair:
    return f"task-x-{number}", {"properties": {"v": value}}


def commit(count: int) -> Pair:
    return "commit-x", {"tasks": count}


def records(*pairs: Pair, start: int = 0) -> list[Record]:
    return [
        Record(start + i, key, None if value is None else json.dumps(value).encode())
        for i, (key, value) in enumerate(pairs)
    ]


def replay_records(*pairs: Pair) -> ClusterState:
    result = apply_config(ClusterState(), records(*pairs))
    assert result.skipped == ()
    return result.state


def test_replaying_java_records_matches_java_responses() -> None:
    rows = (GOLDEN / "distributed-configs.jsonl").read_text(encoding="utf-8").strip().split("\n")
    decoded_rows = [json.loads(row) for row in rows]
    log = [Record(r["offset"], r["key"], r["value"] and r["value"].encode()) for r in decoded_rows]
    result = apply_config(ClusterState(), log)
    state = result.state
    assert result.skipped == ()
    assert state.offset == 36
    assert {name: (e.target, e.task_count, e.inconsistent) for name, e in state.connectors.items()} == {
        "my-sink-2": (TargetState.STOPPED, 0, False),
        "early": (TargetState.STOPPED, 0, False),
        "idle": (TargetState.PAUSED, 0, False),
        "bad": (TargetState.STARTED, 1, False),
        "odd é-1": (TargetState.STARTED, 1, False),
    }
    assert state.session_key is not None
    assert LoggerChanged("org.apache.kafka.connect.file", "debug", 19) in result.events
    assert RestartRequested(ConnectorName("my-source"), True, False, 14) in result.events  # noqa: FBT003
    assert ConnectorRemoved(ConnectorName("my-source")) in result.events


def test_task_configs_wait_for_their_commit() -> None:
    state = replay_records(CONFIG_PAIR, task(0), task(1))
    assert state.task_ids(X) == ()
    assert state.deferred[X].keys() == {0, 1}
    commit_result = apply_config(state, records(commit(2), start=3))
    assert commit_result.state.task_ids(X) == (TaskId(X, 0), TaskId(X, 1))
    assert commit_result.state.deferred == {}
    assert commit_result.events == (TasksChanged(X),)
    entry = commit_result.state.connectors[X]
    assert (entry.version, entry.tasks_version, entry.applied) == (0, 3, entry.config)


def test_incomplete_task_configs_run_no_tasks_until_rewritten() -> None:
    """KafkaConfigBackingStore: an incomplete set is not applied, and its deferred entries are dropped."""
    state = replay_records(CONFIG_PAIR, task(1), commit(2), task(0))
    entry = state.connectors[X]
    assert (entry.inconsistent, entry.tasks, entry.task_count, entry.applied) == (True, (), 2, None)
    assert state.deferred[X].keys() == {0}
    rewritten_entry = apply_config(
        state, records(task(0, "2"), task(1, "2"), commit(2), start=4)
    ).state.connectors[X]
    assert (rewritten_entry.inconsistent, rewritten_entry.tasks) == (False, ({"v": "2"}, {"v": "2"}))


def test_empty_task_set_is_complete_and_extra_configs_are_ignored() -> None:
    assert replay_records(CONFIG_PAIR, task(5), commit(0)).connectors[X].tasks == ()
    entry = replay_records(CONFIG_PAIR, task(0), task(5), commit(1)).connectors[X]
    assert (entry.inconsistent, entry.tasks) == (False, ({"v": "1"},))


def test_commit_of_an_unknown_connector_is_ignored() -> None:
    state = replay_records(task(0), commit(1), CONFIG_PAIR)
    assert state.deferred == {}
    assert state.connectors[X].tasks == ()


def test_tombstone_removes_all_state_of_a_connector() -> None:
    log = records(CONFIG_PAIR, task(0), commit(1), task(0), ("connector-x", None), ("target-state-x", None))
    result = apply_config(ClusterState(), log)
    assert result.state == ClusterState(offset=6)
    assert result.events == (ConnectorChanged(X), TasksChanged(X), ConnectorRemoved(X))


def test_deleting_a_missing_connector_causes_no_event() -> None:
    assert apply_config(ClusterState(), records(("connector-x", None))).events == ()


def test_early_target_state_applies_to_its_connector() -> None:
    """KIP-980 writes the initial target state before the config."""
    first_result = apply_config(ClusterState(), records(PAUSED_PAIR))
    assert first_result.events == ()
    assert first_result.state.early_targets == {X: TargetState.PAUSED}
    second_result = apply_config(first_result.state, records(CONFIG_PAIR, start=1))
    assert second_result.events == (ConnectorChanged(X),)
    assert second_result.state.connectors[X].target is TargetState.PAUSED
    assert second_result.state.early_targets == {}


def test_target_state_survives_its_connector_until_its_tombstone() -> None:
    state = replay_records(CONFIG_PAIR, PAUSED_PAIR, ("connector-x", None))
    assert state.early_targets == {X: TargetState.PAUSED}
    assert apply_config(state, records(("target-state-x", None), start=3)).state.early_targets == {}


def test_target_state_tombstone_means_started() -> None:
    state = replay_records(CONFIG_PAIR, PAUSED_PAIR)
    repeated_result = apply_config(state, records(PAUSED_PAIR, start=2))
    assert repeated_result.events == ()
    removal_result = apply_config(repeated_result.state, records(("target-state-x", None), start=3))
    assert removal_result.events == (TargetChanged(X),)
    assert removal_result.state.connectors[X].target is TargetState.STARTED


def test_rewritten_config_is_a_new_version_and_keeps_the_tasks() -> None:
    state = replay_records(CONFIG_PAIR, task(0), commit(1), CONFIG_PAIR)
    entry = state.connectors[X]
    assert (entry.version, entry.tasks_version, len(entry.tasks)) == (3, 2, 1)


def test_applied_config_is_the_config_at_the_commit() -> None:
    entry = replay_records(
        CONFIG_PAIR, task(0), commit(1), ("connector-x", {"properties": {"a": None}})
    ).connectors[X]
    assert (entry.config, entry.applied) == ({"a": None}, {"name": "x"})


def test_only_decodable_records_advance_the_offset() -> None:
    """The offset is one greater than the offset of the last record that could be parsed."""
    log = [Record(0, "connector-x", b"{}"), Record(1, "connector-x", b"{"), Record(2, "elsewhere", b"1")]
    assert apply_config(ClusterState(), log[:2]).state.offset == 1
    result = apply_config(ClusterState(), log)
    assert result.state.offset == 3
    assert [s.offset for s in result.skipped] == [0, 1, 2]
    assert str(result.skipped[0]) == "0: connector-x: properties must be an object, but is null"


def test_fencing_is_pending_from_a_commit_to_the_next_task_count() -> None:
    state = replay_records(CONFIG_PAIR, task(0), commit(1))
    assert state.connectors[X].pending_fencing
    fenced_state = apply_config(state, records(("tasks-fencing-x", {"task-count": 1}), start=3)).state
    assert not fenced_state.connectors[X].pending_fencing
    assert fenced_state.fenced_counts == {X: 1}


def test_session_key_is_stored() -> None:
    key = {"key": "AAE=", "algorithm": "HmacSHA256", "creation-timestamp": 5}
    result = apply_config(ClusterState(), records(("session-key", key)))
    assert result.events == (SessionKeyChanged(),)
    assert result.state.session_key is not None
    assert result.state.session_key.key == b"\x00\x01"


def test_earlier_states_are_immutable() -> None:
    state = replay_records(CONFIG_PAIR, task(0))
    contents_before = (dict(state.connectors), {k: dict(v) for k, v in state.deferred.items()})
    apply_config(
        state, records(task(0, "9"), task(1), commit(2), PAUSED_PAIR, ("connector-x", None), start=2)
    )
    assert (dict(state.connectors), {k: dict(v) for k, v in state.deferred.items()}) == contents_before


names = st.sampled_from(["x", "y-1"])
values = st.sampled_from(
    [
        lambda n, i: (f"connector-{n}", {"properties": {"i": str(i)}}),
        lambda n, _: (f"connector-{n}", None),
        lambda n, i: (f"target-state-{n}", {"state": ["STARTED", "PAUSED"][i % 2]}),
        lambda n, _: (f"target-state-{n}", None),
        lambda n, i: (f"task-{n}-{i % 3}", {"properties": {"i": str(i)}}),
        lambda n, i: (f"task-{n}-{i % 3}", {"properties": {"i": str(i)}}),
        lambda n, i: (f"commit-{n}", {"tasks": i % 3}),
        lambda n, i: (f"tasks-fencing-{n}", {"task-count": i % 3}),
        lambda n, _: (f"restart-connector-{n}", {}),
    ]
)
histories = st.lists(st.tuples(names, values), max_size=40).map(
    lambda steps: records(*(make(name, i) for i, (name, make) in enumerate(steps)))
)


@settings(max_examples=200)
@given(log=histories, batch_size=st.integers(1, 5))
def test_replay_is_independent_of_batch_boundaries(log: list[Record], batch_size: int) -> None:
    expected = apply_config(ClusterState(), log)
    state = ClusterState()
    events: list[Event] = []
    for start in range(0, len(log), batch_size):
        partial_result = apply_config(state, log[start : start + batch_size])
        state = partial_result.state
        events += partial_result.events
    assert state == expected.state
    assert tuple(events) == expected.events


@settings(max_examples=300)
@given(log=histories)
def test_compacted_file_replays_to_the_same_state(log: list[Record]) -> None:
    expected = apply_config(ClusterState(), log).state
    compacted_state = apply_config(ClusterState(), needed_config(log)).state

    def comparable(state: ClusterState) -> object:
        entries = {n: replace(e, applied=None) if e.inconsistent else e for n, e in state.connectors.items()}
        return entries, state.early_targets, state.deferred, state.fenced_counts

    assert comparable(compacted_state) == comparable(expected)


def test_tasks_of_a_paused_connector_survive_compaction() -> None:
    log = records(CONFIG_PAIR, task(0), commit(1), PAUSED_PAIR, CONFIG_PAIR, CONFIG_PAIR)
    assert len(needed_config(log)) == 5
    assert len(apply_config(ClusterState(), needed_config(log)).state.connectors[X].tasks) == 1


@pytest.mark.parametrize("connectors", [1, 2_000])
def test_large_replay_takes_less_than_ten_seconds(connectors: int) -> None:
    log: list[Record] = []
    while len(log) < 100_000:
        name = f"c{len(log) % connectors}"
        body = b'{"properties": {"name": "%s"}}' % name.encode()
        pairs = [(f"connector-{name}", body), *((f"task-{name}-{t}", body) for t in range(3))]
        pairs.append((f"commit-{name}", b'{"tasks": 3}'))
        log += [Record(len(log) + index, key, value) for index, (key, value) in enumerate(pairs)]
    start_s = time.thread_time()
    result = apply_config(ClusterState(), log)
    assert time.thread_time() - start_s < 10
    assert all(len(entry.tasks) == 3 for entry in result.state.connectors.values())


def test_task_config_entries_replay_to_the_tasks() -> None:
    entries = task_config_entries(X, [{"v": "1"}, {"v": None}])
    assert [e.key for e in entries] == ["task-x-0", "task-x-1", "commit-x"]
    log = [*records(CONFIG_PAIR), *(Record(1 + i, e.key, e.value) for i, e in enumerate(entries))]
    assert apply_config(ClusterState(), log).state.connectors[X].tasks == ({"v": "1"}, {"v": None})
