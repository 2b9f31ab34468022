"""Tests for the changes between two snapshots, by kind and connector."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kraal.cluster.assignment.leader import GroupPlan
from kraal.cluster.decisions.auto_restart import FailureHistory
from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.status_replay import apply_status, put_entry
from kraal.cluster.state.statuses import StatusState
from kraal.cluster.state.wanted_work import Incarnation
from kraal.cluster.views.changes import MAX_CHARACTERS, MAX_NAMES, Names, add, changes
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.ids import (
    ConnectorName,
    Generation,
    Instance,
    State,
    TaskId,
    TopicName,
    WorkerId,
)
from kraal.core.records import Record
from kraal.protocol.status_records import Status

A, B = ConnectorName("a"), ConnectorName("b")


def entry(name: ConnectorName) -> ConnectorEntry:
    return ConnectorEntry(name=name, config={"name": name})


def with_status(status: StatusState, instance: Instance, state: State = State.RUNNING) -> StatusState:
    entry = put_entry(
        instance, Status(state=state, worker_id=WorkerId("w:1"), generation=Generation(1), version="1")
    )
    record = Record(offset=status.offset + 1, key=entry.key, value=entry.value, timestamp_ms=1)
    return apply_status(status, [record]).state


SNAPSHOT = Snapshot(
    worker_id=WorkerId("w:1"),
    live=True,
    config=ClusterState(connectors={A: entry(A), B: entry(B)}),
    status=with_status(with_status(StatusState(topics={A: frozenset({TopicName("t")})}), A), B),
)


def changes_with(**changed_fields: Any) -> dict[str, Any]:
    return dict(changes(SNAPSHOT, replace(SNAPSHOT, number=1, **changed_fields)))


def test_snapshots_differing_only_in_offset_have_no_changes() -> None:
    assert changes_with() == dict(changes(SNAPSHOT, SNAPSHOT)) == {}
    assert changes_with(config=replace(SNAPSHOT.config, offset=7)) == {}, "only a session key was written"


@pytest.mark.parametrize("instance", [A, TaskId(A, 0)])
def test_status_record_changes_the_states_of_its_connector(instance: Instance) -> None:
    assert changes_with(status=with_status(SNAPSHOT.status, instance, State.FAILED)) == {"states": {A}}


def test_config_changes_are_detected() -> None:
    config_with_new_connector = ClusterState(
        connectors={**SNAPSHOT.config.connectors, ConnectorName("c"): entry(A)}
    )
    assert changes_with(config=config_with_new_connector) == {"configs": {"c"}}
    config_with_new_entry = ClusterState(connectors={A: entry(A), B: SNAPSHOT.config.connectors[B]})
    assert changes_with(config=config_with_new_entry) == {"configs": {A}}
    assert changes_with(config=ClusterState(connectors={A: SNAPSHOT.config.connectors[A]})) == {
        "configs": {B}
    }


def test_restarts_change_states() -> None:
    assert changes_with(restarting=frozenset({TaskId(B, 3)})) == {"states": {B}}
    assert changes_with(
        watched={TaskId(A, 1): FailureHistory(incarnation=Incarnation(1), config_version=0)}
    ) == {"states": {A}}


def test_topic_changes_are_detected() -> None:
    status = replace(SNAPSHOT.status, topics={A: frozenset({TopicName("t"), TopicName("u")})})
    assert changes_with(status=status) == {"topics": {A}}


@pytest.mark.parametrize(
    "changed_fields",
    [
        {"generation": Generation(2)},
        {"leader_url": "http://w:2/"},
        {"is_leader": True},
        {"ready": True},
        {"kafka_cluster_id": "k"},
        {"plan": GroupPlan.__new__(GroupPlan)},
    ],
    ids=lambda changed_fields: next(iter(changed_fields)),
)
def test_group_changes_affect_no_connector(changed_fields: dict[str, Any]) -> None:
    assert changes_with(**changed_fields) == {"cluster": frozenset()}


def test_changes_of_several_kinds_are_separate() -> None:
    changes = changes_with(
        status=with_status(SNAPSHOT.status, A, State.PAUSED),
        config=ClusterState(connectors={A: SNAPSHOT.config.connectors[A], B: entry(B)}),
        generation=Generation(5),
    )
    assert changes == {"states": {A}, "configs": {B}, "cluster": frozenset()}


def test_too_many_names_become_none() -> None:
    names = [ConnectorName(f"c{number}") for number in range(MAX_NAMES + 1)]
    config_within_limit = ClusterState(
        connectors={**SNAPSHOT.config.connectors, **{name: entry(name) for name in names[1:]}}
    )
    assert changes_with(config=config_within_limit) == {"configs": set(names[1:])}
    config_above_limit = ClusterState(
        connectors={**SNAPSHOT.config.connectors, **{name: entry(name) for name in names}}
    )
    assert changes_with(config=config_above_limit) == {"configs": None}


def test_too_long_names_become_none() -> None:
    kinds: dict[str, Names] = {}
    add(kinds, "states", frozenset({ConnectorName("x" * MAX_CHARACTERS)}))
    assert kinds["states"] is not None
    add(kinds, "states", frozenset({A}))
    assert kinds == {"states": None}
    add(kinds, "states", frozenset({B}))
    assert kinds == {"states": None}, "None is not replaced by later names"
