"""Tests for KIP-745: REST requests that restart a connector with its tasks, or only failed instances."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.core.errors import StoreError
from tests.kips.connect_cluster import ConnectCluster, get_states
from web.settings import Settings

NAME = "my-connector"
RESTART_PATH = f"/connectors/{NAME}/restart"
ALL_INSTANCES = (0, 1, 2, 3)
"""Numbers of all instances: 0 is the connector's own instance; 1, 2 and 3 are tasks 0, 1 and 2."""


def create_with_failures(connect: ConnectCluster, failed_instances: tuple[int, ...] = ()) -> None:
    """Create a connector with three tasks, and fail some of the four instances."""
    connect.create(NAME, tasks=3)
    for number in failed_instances:
        if number:
            connect.fail_task(NAME, number - 1)
        else:
            connect.fail_connector(NAME)
    connect.advance_until_idle()
    assert connect.states(NAME) == ["FAILED" if n in failed_instances else "RUNNING" for n in ALL_INSTANCES]


def count_starts(connect: ConnectCluster, earlier_starts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of starts of each instance since `starts` returned `earlier_starts`."""
    return tuple(later - earlier for later, earlier in zip(connect.starts(NAME), earlier_starts, strict=True))


@pytest.mark.parametrize(
    ("query", "failed_instances", "restarted_instances"),
    [
        ("includeTasks=true&onlyFailed=false", (), ALL_INSTANCES),
        ("includeTasks=true&onlyFailed=false", (0, 2), ALL_INSTANCES),
        ("includeTasks=true", (3,), ALL_INSTANCES),
        ("includeTasks=true&onlyFailed=true", (), ()),
        ("includeTasks=true&onlyFailed=true", (0,), (0,)),
        ("includeTasks=true&onlyFailed=true", (2, 3), (2, 3)),
        ("includeTasks=true&onlyFailed=true", ALL_INSTANCES, ALL_INSTANCES),
        ("includeTasks=false&onlyFailed=true", (), ()),
        ("includeTasks=false&onlyFailed=true", (0, 2), (0,)),
        ("onlyFailed=true", (1, 2), ()),
    ],
)
def test_parameters_select_the_restarted_instances(
    connect: ConnectCluster,
    query: str,
    failed_instances: tuple[int, ...],
    restarted_instances: tuple[int, ...],
) -> None:
    """The parameters are combined with different failed instances.

    > begin to restart a combination of the Connector and Task instances associated with the named connector.

    > POST /connectors/{connectorName}/restart?includeTasks=<true|false>&onlyFailed=<true|false>

    > the "includeTasks" parameter specifies whether to restart the connector instance and task instances
    > ("includeTasks=true") or just the connector instance ("includeTasks=false")

    > the "onlyFailed" parameter specifies whether to restart just the instances with a FAILED status
    > ("onlyFailed=true") or all instances ("onlyFailed=false")

    > The query parameters must be used to restart any other combination of the Connector and/or Task instances

    > When these new query parameters are used with "includeTasks" and/or "onlyFailed" set to true, a successful
    > response will be 202 ACCEPTED

    > A response body will be returned, and it is similar to the GET /connector/{connectorName}/status response
    > except that the "state" field is set to RESTARTING for all instances that will eventually be restarted.

    > all Connector and/or Task objects specified in the request will eventually be restarted.

    > it will eventually be performed in its entirety.

    > The Connect distributed and standalone runtimes will be changed to support restarting a combination of the
    > Connector and Task instances for a named connector, based upon the new query parameters.
    """
    create_with_failures(connect, failed_instances)
    expected_body, starts = connect.status(NAME), connect.starts(NAME)
    response = connect.post(f"{RESTART_PATH}?{query}")
    assert response.status == 202
    expected_statuses = [expected_body["connector"], *expected_body["tasks"]]
    for number in restarted_instances:
        expected_statuses[number]["state"] = "RESTARTING"
    assert response.body == expected_body
    connect.advance_until_idle()
    assert count_starts(connect, starts) == tuple(int(n in restarted_instances) for n in ALL_INSTANCES)
    still_failed_instances = set(failed_instances) - set(restarted_instances)
    assert connect.states(NAME) == [
        "FAILED" if n in still_failed_instances else "RUNNING" for n in ALL_INSTANCES
    ]


@pytest.mark.parametrize("query", ["", "?includeTasks=false&onlyFailed=false", "?includeTasks=no"])
@pytest.mark.parametrize("failed_instances", [(), (0,), (1, 2)])
def test_restart_without_parameters_restarts_only_the_connector(
    connect: ConnectCluster, query: str, failed_instances: tuple[int, ...]
) -> None:
    """The request without parameters is older than the KIP.

    > POST /connectors/{connectorName}/restart

    > two (2) new optional boolean query parameters that default to "false"

    > and defaults to "false".

    > invocations without them result in the same old behavior of this REST API method: the Connector instance is
    > restarted regardless of its current status, and no Task instances are restarted.

    > will still be compatible with the old behavior

    > 204 NO CONTENT when the named connector exists and the server has successfully stopped and begun restarting
    > only the Connector object (e.g., "includeTasks=false" and "onlyFailed=false").

    > No response body will be returned (to align with the existing behavior).

    > Restarting a named connector with the default query parameters results in always restarting only the
    > Connector instance, which is the same behavior as in previous releases.
    """
    create_with_failures(connect, failed_instances)
    starts, end_offset = connect.starts(NAME), connect.config_log.end()
    response = connect.post(RESTART_PATH + query)
    assert (response.status, response.text) == (204, "")
    assert count_starts(connect, starts) == (1, 0, 0, 0), "the restart has begun before the response"
    assert connect.config_records(after=end_offset) == [], "no record must be written"
    connect.advance_until_idle()
    assert count_starts(connect, starts) == (1, 0, 0, 0)
    assert connect.states(NAME) == [
        "FAILED" if n in failed_instances and n else "RUNNING" for n in ALL_INSTANCES
    ]


@pytest.mark.parametrize("target", ["pause", "stop"])
def test_paused_or_stopped_connector_can_be_restarted(connect: ConnectCluster, target: str) -> None:
    """The connector keeps its target state.

    > the Connector instance is restarted regardless of its current status
    """
    connect.create(NAME)
    connect.put(f"/connectors/{NAME}/{target}")
    connect.advance_until_idle()
    states = connect.states(NAME)
    assert connect.post(RESTART_PATH).status == 204
    assert connect.post(f"{RESTART_PATH}?includeTasks=true").status == 202
    connect.advance_until_idle()
    assert connect.states(NAME) == states


@pytest.mark.parametrize(
    "query", ["includeTasks=true", "onlyFailed=true", "includeTasks=true&onlyFailed=true"]
)
def test_response_202_follows_the_restart_record(connect: ConnectCluster, query: str) -> None:
    """The config log contains the record when the response arrives.

    > 202 ACCEPTED when the named connector exists and the server has successfully and durably recorded the
    > request to stop and begin restarting

    > signaling that the request to restart some subset of the Connector and/or Task instances was accepted

    > The 202 ACCEPTED response signifies that the request to restart the instances has (at least) been accepted
    > and enqueued for completion.

    > key: "restart-connector-<connectorName>" value: {"include-tasks": <true|false>, "only-failed": <true|false>}
    """
    create_with_failures(connect, (1,))
    end_offset = connect.config_log.end()
    assert connect.post(f"{RESTART_PATH}?{query}").status == 202
    flags = {"include-tasks": "includeTasks" in query, "only-failed": "onlyFailed" in query}
    assert connect.config_records(after=end_offset) == [(f"restart-connector-{NAME}", flags)]


@pytest.mark.parametrize(
    "query", ["", "?includeTasks=true", "?onlyFailed=true", "?includeTasks=true&onlyFailed=true"]
)
def test_restart_of_an_unknown_connector_returns_404(connect: ConnectCluster, query: str) -> None:
    """Every form of the request is rejected.

    > 404 NOT FOUND when the named connector does not exist.
    """
    response = connect.post(f"/connectors/nobody/restart{query}")
    assert (response.status, response.body["message"]) == (404, "Unknown connector: nobody")
    assert connect.config_records("restart-") == []


def test_restart_returns_an_error_after_a_timeout(connect: ConnectCluster) -> None:
    """The herder is frozen; the client gets an error after request_timeout_s (90 s by default).

    > 500 Internal Server Error when the request timed out (takes more than 90 seconds), which means the request
    > could not be durably recorded
    """
    assert Settings(advertised_url="http://x/").request_timeout_s == 90
    connect.create(NAME)
    connect.change_rest_settings(request_timeout_s=0.05)
    connect.freeze("herder")
    response = connect.post(f"{RESTART_PATH}?includeTasks=true")
    assert response.status == 500
    assert response.body["message"].startswith("Request timed out")


def test_restart_returns_an_error_if_the_log_is_unavailable(connect: ConnectCluster) -> None:
    """The config log is unavailable.

    > or because the worker receiving the request has temporarily lost contact with the Kafka cluster.
    """
    connect.create(NAME)
    starts = connect.starts(NAME)

    def fail_append(operation: str) -> None:
        if operation == "append":
            raise StoreError("the brokers are unavailable")

    connect.config_log.fault = fail_append
    assert connect.post(f"{RESTART_PATH}?includeTasks=true").status == 500
    connect.advance_until_idle()
    assert connect.starts(NAME) == starts, "a rejected request is not executed"


def remove_fields(body: Any, *fields: str) -> Any:
    """Return a JSON value without `fields`, at any depth."""
    if isinstance(body, dict):
        return {key: remove_fields(value, *fields) for key, value in body.items() if key not in fields}
    return [remove_fields(item, *fields) for item in body] if isinstance(body, list) else body


def test_example_of_the_kip_returns_the_documented_response(connect: ConnectCluster) -> None:
    """Two of three tasks have failed.

    > we could use this expanded restart method to request the restart of all failed Connector and/or Task
    > instances:

    > POST /connectors/my-connector/restart?includeTasks=true&onlyFailed=true 202 ACCEPTED

    > the response signals that the Connector instance and task 0 were not going to be restarted.

    > both the Connector instance and task 0 were RUNNING when this call was made.
    """
    connect.create("my-connector", tasks=3)
    for task in (1, 2):
        connect.fail_task("my-connector", task, "Unable to execute HTTP request")
    connect.advance_until_idle()
    worker_ids = {
        task_status["id"]: task_status["worker_id"] for task_status in connect.status(NAME)["tasks"]
    }
    response = connect.post("/connectors/my-connector/restart?includeTasks=true&onlyFailed=true")
    assert response.status == 202
    assert remove_fields(response.body, "version", "type", "trace") == {
        "name": "my-connector",
        "connector": {"state": "RUNNING", "worker_id": connect.status(NAME)["connector"]["worker_id"]},
        "tasks": [
            {"id": 0, "state": "RUNNING", "worker_id": worker_ids[0]},
            {"id": 1, "state": "RESTARTING", "worker_id": worker_ids[1]},
            {"id": 2, "state": "RESTARTING", "worker_id": worker_ids[2]},
        ],
    }


def test_status_shows_the_progress_of_a_restart(connect: ConnectCluster) -> None:
    """The leader's responses show RESTARTING and finally RUNNING for all four instances.

    > GET /connector/{connectorName}/status

    > The response of this method will be changed to include "RESTARTING" as a possible value for the "state"
    > fields.

    > The state of each restarting instance will eventually transition to RUNNING once when assigned worker
    > (re)starts that instance.

    > The user can monitor this progress with subsequent calls to the GET /connector/{connectorName}/status method
    """
    create_with_failures(connect, (2,))
    path = f"/connectors/{NAME}/status"
    response, bodies = connect.request_and_watch(
        "POST", f"{RESTART_PATH}?includeTasks=true", watch=path, via=connect.leader()
    )
    for _ in range(100):
        connect.scheduler.advance(0.02)
        bodies.append(connect.status(NAME, response.via))
    observed_states = [get_states(body) for body in bodies]
    for number in ALL_INSTANCES:
        states = [instance_states[number] for instance_states in observed_states]
        assert "RESTARTING" in states
        assert states[-1] == "RUNNING"
        assert "UNASSIGNED" not in states
    statuses = [status for body in bodies for status in (body["connector"], *body["tasks"])]
    assert all("trace" not in status for status in statuses if status["state"] == "RESTARTING")
