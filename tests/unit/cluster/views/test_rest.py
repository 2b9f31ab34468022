"""Tests for responses to GET requests (ConnectorsResource)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.statuses import ConnectorStatuses, StatusState
from kraal.cluster.views import rest as view
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.errors import NotFound
from kraal.core.ids import ConnectorName, Generation, State, TaskId, TopicName, WorkerId
from kraal.protocol.status_records import Status

X, NEW, MISSING = ConnectorName("x"), ConnectorName("new"), ConnectorName("nope")


def status(state: State, trace: str | None = None) -> Status:
    return Status(
        state=state, worker_id=WorkerId("w:1"), generation=Generation(1), trace=trace, version="4.3.0"
    )


SNAPSHOT = Snapshot(
    worker_id=WorkerId("w:1"),
    config=ClusterState(
        connectors={
            X: ConnectorEntry(
                name=X, config={"name": "x", "n": None}, tasks=({"t": "0"}, {"t": "1"}), task_count=2
            ),
            NEW: ConnectorEntry(name=NEW, config={"name": "new"}, task_count=1, inconsistent=True),
        }
    ),
    status=StatusState(
        statuses={
            X: ConnectorStatuses(
                connector=status(State.RUNNING),
                tasks={1: status(State.UNASSIGNED), 0: status(State.FAILED, "boom\n\tat x")},
            )
        },
        topics={X: frozenset({TopicName("b"), TopicName("a")})},
    ),
    types={X: "source"},
)


def to_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def test_expanded_list_can_contain_causes_instead_of_traces() -> None:
    trace = "java.lang.Exception: a\n\tat x\nCaused by: java.io.IOException: disk\n\tat y"
    statuses = ConnectorStatuses(
        connector=status(State.FAILED, "boom\n\tat x"), tasks={0: status(State.FAILED, trace)}
    )
    snapshot = replace(SNAPSHOT, status=StatusState(statuses={X: statuses}))
    connector = view.connectors_expanded(snapshot, ["status"], causes=True)[X]
    assert to_json(connector) == (
        '{"status":{"name":"x","connector":{"state":"FAILED","worker_id":"w:1","version":"4.3.0","trace":"boom"},'
        '"tasks":[{"id":0,"state":"FAILED","worker_id":"w:1","version":"4.3.0",'
        '"trace":"java.io.IOException: disk"}],"type":"source"}}'
    )
    assert view.connectors_expanded(snapshot, ["status"])[X] == {"status": view.connector_status(snapshot, X)}


def test_status_has_connects_fields_in_order() -> None:
    assert to_json(view.connector_status(SNAPSHOT, X)) == (
        '{"name":"x","connector":{"state":"RUNNING","worker_id":"w:1","version":"4.3.0"},"tasks":['
        '{"id":0,"state":"FAILED","worker_id":"w:1","version":"4.3.0","trace":"boom\\n\\tat x"},'
        '{"id":1,"state":"UNASSIGNED","worker_id":"w:1","version":null}],"type":"source"}'
    )


def test_restarting_instance_is_shown_without_version_and_trace() -> None:
    """KIP-745: a restart that is requested is shown instead of the stored status."""
    restarting_snapshot = replace(SNAPSHOT, restarting=frozenset({TaskId(X, 0)}))
    assert to_json(view.task_status(restarting_snapshot, TaskId(X, 0))) == (
        '{"id":0,"state":"RESTARTING","worker_id":"w:1","version":null}'
    )
    assert (
        view.connector_status(restarting_snapshot, X)["connector"]
        == view.connector_status(SNAPSHOT, X)["connector"]
    )


def test_info_lists_runnable_tasks() -> None:
    assert to_json(view.connector_info(SNAPSHOT, X)) == (
        '{"name":"x","config":{"name":"x","n":null},'
        '"tasks":[{"connector":"x","task":0},{"connector":"x","task":1}],"type":"source"}'
    )
    assert to_json(view.connector_info(SNAPSHOT, NEW)) == (
        '{"name":"new","config":{"name":"new"},"tasks":[],"type":"unknown"}'
    )


def test_inconsistent_tasks_are_listed_with_null_configs() -> None:
    assert to_json(view.task_infos(SNAPSHOT, X)) == (
        '[{"id":{"connector":"x","task":0},"config":{"t":"0"}},{"id":{"connector":"x","task":1},"config":{"t":"1"}}]'
    )
    assert to_json(view.task_infos(SNAPSHOT, NEW)) == '[{"id":{"connector":"new","task":0},"config":null}]'


@pytest.mark.parametrize(
    ("expand", "names", "keys"),
    [
        pytest.param(["status"], ["x"], ["status"], id="connectors without a status are omitted"),
        pytest.param(["info"], ["x", "new"], ["info"], id="info"),
        pytest.param(["info", "status"], ["x"], ["status", "info"], id="both"),
        pytest.param(["other"], ["x", "new"], [], id="an unknown expansion"),
    ],
)
def test_connectors_are_listed_with_requested_expansions(
    expand: list[str], names: list[str], keys: list[str]
) -> None:
    expanded_connectors = view.connectors_expanded(SNAPSHOT, expand)
    assert list(expanded_connectors) == names
    assert all(isinstance(parts, dict) and list(parts) == keys for parts in expanded_connectors.values())
    assert view.connector_names(SNAPSHOT) == ["x", "new"]


@pytest.mark.parametrize(
    ("get", "message"),
    [
        pytest.param(lambda: view.connector_info(SNAPSHOT, MISSING), "Connector nope not found", id="info"),
        pytest.param(
            lambda: view.connector_config(SNAPSHOT, MISSING), "Connector nope not found", id="config"
        ),
        pytest.param(lambda: view.task_infos(SNAPSHOT, MISSING), "Connector nope not found", id="tasks"),
        pytest.param(
            lambda: view.connector_status(SNAPSHOT, MISSING),
            "No status found for connector nope",
            id="status",
        ),
        pytest.param(
            lambda: view.task_status(SNAPSHOT, TaskId(X, 7)), "No status found for task x-7", id="task status"
        ),
    ],
)
def test_missing_resources_are_reported_with_connects_messages(
    get: Callable[[], object], message: str
) -> None:
    with pytest.raises(NotFound, match=f"^{message}$"):
        get()


def test_active_topics_are_sorted_and_empty_for_an_unknown_connector() -> None:
    """The response has the format of KIP-558."""
    assert view.active_topics(SNAPSHOT, X) == {"x": {"topics": ["a", "b"]}}
    assert view.active_topics(SNAPSHOT, MISSING) == {"nope": {"topics": []}}


def test_config_is_returned_unchanged() -> None:
    assert to_json(view.connector_config(SNAPSHOT, X)) == '{"name":"x","n":null}'


def test_new_connector_is_unassigned() -> None:
    assert view.connector_status(SNAPSHOT, NEW) == {
        "name": "new", "connector": {"state": "UNASSIGNED", "worker_id": ""}, "tasks": [], "type": "unknown"
    }  # fmt: skip
