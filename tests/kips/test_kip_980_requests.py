"""Tests for KIP-980: `initial_state` in POST /connectors, its records, and the started instances."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.cluster.decisions import commands
from kraal.core.errors import StoreError
from kraal.core.ids import ConnectorName, TargetState
from kraal.core.records import Entry
from kraal.protocol.records import TargetStateRecord, encode
from kraal.testing._simulation.plugins import FAKE_SINK, FakeSourceConnector
from tests.kips.connect_cluster import ConnectCluster, Response, fake_config
from tests.kips.modes import ThreeWorkers

NAME = "file-sink-test"
NON_RUNNING_STATES = ["PAUSED", "STOPPED"]


def create_connector(
    connect: ConnectCluster, initial_state: Any, name: str = NAME, **config: str
) -> Response:
    """POST a connector with an `initial_state`."""
    body = {"name": name, "config": {**fake_config(2), **config}, "initial_state": initial_state}
    return connect.post("/connectors", body)


@pytest.mark.parametrize(
    ("initial_state", "expected_state", "task_count"),
    [
        ("RUNNING", "RUNNING", 2),
        ("running", "RUNNING", 2),
        ("PAUSED", "PAUSED", 0),
        ("Paused", "PAUSED", 0),
        ("STOPPED", "STOPPED", 0),
        ("sToPpEd", "STOPPED", 0),
    ],
)
def test_connector_starts_in_its_initial_state(
    connect: ConnectCluster, initial_state: str, expected_state: str, task_count: int
) -> None:
    """Values are case-insensitive.

    > A new optional field "initial_state" will be added to the request body format for the POST /connectors endpoint

    > The new optional field "initial_state" can have a value of "RUNNING", "PAUSED" or "STOPPED" (case-insensitive).

    > This method of creating connectors can currently be used in both the distributed mode as well as the standalone
    > mode.

    > Can create a connector in the PAUSED state in standalone mode

    > Can create a connector in the STOPPED state in standalone mode

    > Can create a connector in the PAUSED state in distributed mode

    > Can create a connector in the STOPPED state in distributed mode

    > since it's still a valid connector state and has been present for a lot longer than the STOPPED state, we allow
    > it
    """
    assert create_connector(connect, initial_state).status == 201
    connect.advance_until_idle()
    assert connect.states(NAME) == [expected_state] * (1 + task_count)


def test_example_of_the_kip_creates_a_stopped_connector(connect: ConnectCluster) -> None:
    """The fake sink replaces the file sink.

    > "name": "file-sink-test", "config": { "connector.class":

    > "file": "test.txt", "topics": "test-topic", "tasks.max": "1" }, "initial_state": "STOPPED"
    """
    config = {"connector.class": FAKE_SINK, "file": "test.txt", "topics": "test-topic", "tasks.max": "1"}
    body = {"name": "file-sink-test", "config": config, "initial_state": "STOPPED"}
    response = connect.post("/connectors", body)
    assert response.status == 201
    assert response.body == {
        "name": "file-sink-test",
        "config": {**config, "name": "file-sink-test"},
        "tasks": [],
        "type": "sink",
    }
    connect.advance_until_idle()
    assert connect.states("file-sink-test") == ["STOPPED"]


@pytest.mark.parametrize("value", ["STARTED", "UNASSIGNED", "", "paused!", 1, True])
def test_invalid_initial_state_returns_400(connect: ConnectCluster, value: object) -> None:
    """The error lists the valid values.

    > If the value of the "initial_state" field is invalid, a 400 Bad Request response will be returned.
    """
    response = create_connector(connect, value)
    assert response.status == 400
    assert "RUNNING, PAUSED, STOPPED" in response.body["message"]
    assert connect.config_records("connector-") == []


@pytest.mark.parametrize("body", [{}, {"initial_state": None}])
def test_connector_without_initial_state_runs(connect: ConnectCluster, body: dict[str, None]) -> None:
    """No target state is written.

    > If the field is omitted in the request body, the connector will be created in the RUNNING state by default
    > (preserving the existing behavior).

    > When a connector is created for the first time, there will be no target state initially and the connector is
    > transitioned to the default target state of started / running.

    > is optional and if omitted, the default behavior mirrors the existing behavior (i.e. the connector will be
    > created in a RUNNING state).

    > Creating a connector with no explicit state specified results in a RUNNING state connector
    """
    assert connect.post("/connectors", {"name": NAME, "config": fake_config(2), **body}).status == 201
    connect.advance_until_idle()
    assert connect.states(NAME) == ["RUNNING"] * 3
    assert connect.config_records("target-state-") == []


@pytest.mark.parametrize("state", NON_RUNNING_STATES)
def test_connector_and_tasks_start_only_after_resume(connect: ConnectCluster, state: str) -> None:
    """Neither the connector's instance nor a task starts earlier.

    > no tasks will be spawned for the connector until it is resumed via the PUT /connectors/{connector}/resume
    > endpoint.

    > the connector will be assigned to a worker post group rebalance and the connector thread will be created but the
    > actual [Connector](#) instance won't be started.

    > No tasks will be created for such connectors until they're resumed.

    > No tasks are spawned for a connector created in the PAUSED or STOPPED state

    > Can resume a connector created in the PAUSED or STOPPED state
    """
    create_connector(connect, state)
    connect.advance_until_idle()
    assert connect.status(NAME)["connector"]["worker_id"] in {url[7:-1] for url in connect.workers()}
    assert connect.get(f"/connectors/{NAME}/tasks").body == []
    assert FakeSourceConnector.calls == []
    assert connect.put(f"/connectors/{NAME}/resume").status == 202
    connect.advance_until_idle()
    assert connect.states(NAME) == ["RUNNING"] * 3
    assert connect.starts(NAME) == (1, 1, 1)


@pytest.mark.parametrize("state", NON_RUNNING_STATES)
def test_connector_can_be_deleted_before_its_first_start(connect: ConnectCluster, state: str) -> None:
    """A new connector with the same name starts in the default state.

    > Can delete a connector created in the PAUSED or STOPPED state
    """
    create_connector(connect, state)
    connect.advance_until_idle()
    assert connect.request("DELETE", f"/connectors/{NAME}").status == 204
    connect.advance_until_idle()
    assert connect.get("/connectors").body == []
    assert connect.get(f"/connectors/{NAME}/status").status == 404
    assert create_connector(connect, None).status == 201
    connect.advance_until_idle()
    assert connect.states(NAME) == ["RUNNING"] * 3


@pytest.mark.parametrize(
    ("state", "record"),
    [
        ("RUNNING", {"state": "STARTED", "state.v2": "STARTED"}),
        ("PAUSED", {"state": "PAUSED", "state.v2": "PAUSED"}),
        ("STOPPED", {"state": "PAUSED", "state.v2": "STOPPED"}),
    ],
)
def test_target_state_is_written_first_and_atomically(
    connect: ConnectCluster, state: str, record: object
) -> None:
    """An append is one batch, or one transaction if leaders write in transactions.

    > it will write the appropriate target state to the config topic along with the connector configuration.

    > the target state and the connector configuration will be written atomically in a single transaction.

    > the target state will be written to the config topic before the connector configuration.

    > the connector's configuration is initially written to the cluster's config topic.

    > the connector's target state will be updated prior to the connector being started if a valid "initial_state" is
    > specified in the connector creation request

    > The target state written to the config topic will use the convention established in [KIP-875](#) ("state" and
    > "state.v2")
    """
    appends = []
    connect.config_log.fault = lambda operation: appends.append(operation) if operation == "append" else None
    end = connect.config_log.end()
    assert create_connector(connect, state, **{"fake.tasks": "0"}).status == 201
    [first, second] = connect.config_records(after=end)[:2]
    assert first == (f"target-state-{NAME}", record)
    assert second[0] == f"connector-{NAME}"
    assert len(appends) == (1 if state != "RUNNING" else len(appends))


def test_death_of_the_leader_before_the_config_record_starts_no_instance(connect: ConnectCluster) -> None:
    """Only the target state was written before the restart. The config record follows later.

    > the connector won't be brought up in the wrong state.

    > Target states for unknown connectors are essentially ignored
    """
    target = encode(TargetStateRecord(ConnectorName(NAME), TargetState.STOPPED))
    connect.config_log.append([Entry(*target)])
    connect.restart_workers(is_graceful=False)
    assert connect.get("/connectors").body == []
    assert connect.get(f"/connectors/{NAME}/status").status == 404
    config = {"name": NAME, **fake_config(2)}
    entry = commands.put(ConnectorName(NAME), config)
    connect.config_log.append(entry)
    connect.restart_workers(is_graceful=False)
    assert connect.states(NAME) == ["STOPPED"]
    assert FakeSourceConnector.calls == []


def test_failed_creation_writes_no_records(connect: ConnectCluster) -> None:
    """Either all records are written or none.

    > written atomically
    """

    def fail_append(operation: str) -> None:
        if operation == "append":
            raise StoreError("the brokers are unavailable")

    connect.config_log.fault = fail_append
    assert create_connector(connect, "STOPPED").status == 500
    connect.config_log.fault = lambda _: None
    assert connect.config_records("target-state-") == []
    assert connect.config_records("connector-") == []


@pytest.mark.parametrize("action", ["pause", "resume", "stop"])
def test_state_changes_are_written_as_target_states(connect: ConnectCluster, action: str) -> None:
    """The requests require an existing connector.

    > The PUT /connectors/{connector}/pause , PUT /connectors/{connector}/resume , PUT /connectors/{connector}/stop
    > endpoints work by writing a target state to the config topic

    > and can only be used for connectors that already exist in the cluster.

    > the target state is read asynchronously by the background thread on each worker and applied to the connector and
    > its tasks.
    """
    assert connect.put(f"/connectors/{NAME}/{action}").status == 404
    assert connect.config_records("target-state-") == []
    connect.create(NAME, tasks=2)
    assert connect.put(f"/connectors/{NAME}/{action}").status in (202, 204)
    connect.advance_until_idle()
    target_state, expected_states = {
        "pause": ("PAUSED", ["PAUSED"] * 3),
        "resume": ("STARTED", ["RUNNING"] * 3),
        "stop": ("STOPPED", ["STOPPED"]),
    }[action]
    [(key, value)] = connect.config_records("target-state-")
    assert (key, value["state.v2"]) == (f"target-state-{NAME}", target_state)
    assert connect.states(NAME) == expected_states


def test_follower_forwards_creation_to_the_leader(distributed: ThreeWorkers) -> None:
    """The request includes the initial state.

    > When the leader Connect worker (distributed mode only) receives a create connector request (such requests made to
    > non-leader workers are first forwarded to the leader internally) with a valid non-null "initial_state" field

    > when a new connector configuration is detected, a group rebalance is triggered which will result in the connector
    > being assigned to a worker in the cluster and then started.
    """
    generations = {worker.snapshot.generation for worker in distributed.cluster.alive}
    for number, worker in enumerate(distributed.cluster.alive):
        body = {"name": f"c{number}", "config": fake_config(2), "initial_state": "PAUSED"}
        assert distributed.request("POST", "/connectors", body, via=worker.url).status == 201
        distributed.advance_until_idle()
        assert distributed.states(f"c{number}") == ["PAUSED"]
        assert len(distributed.cluster.owners(ConnectorName(f"c{number}"))) == 0, "assigned but not started"
        assert min(w.snapshot.generation for w in distributed.cluster.alive) > max(generations)
        generations = {w.snapshot.generation for w in distributed.cluster.alive}
        distributed.put(f"/connectors/c{number}/resume")
        distributed.advance_until_idle()
        assert distributed.states(f"c{number}") == ["RUNNING"] * 3


def test_offsets_can_be_modified_before_the_first_start_only_if_stopped(connect: ConnectCluster) -> None:
    """The request is rejected for a PAUSED connector.

    > The only difference between creating a connector in the `PAUSED` state versus the `STOPPED` state is that offsets
    > modification will only be possible in the `STOPPED` state.

    > Can modify the offsets for a connector created in the `STOPPED` state
    """
    for state, status in (("PAUSED", 400), ("STOPPED", 200)):
        name = f"{NAME}-{state}"
        assert create_connector(connect, state, name).status == 201
        connect.advance_until_idle()
        offsets = {"partition": {"task": 0}, "offset": {"position": 7}}
        response = connect.request("PATCH", f"/connectors/{name}/offsets", {"offsets": [offsets]})
        assert response.status == status, response
        body = connect.get(f"/connectors/{name}/offsets").body
        assert body == {"offsets": [offsets] if status == 200 else []}
