"""KIP-745: REST requests that restart a connector with its tasks, or only failed instances."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.core.errors import StoreError
from tests.kips.stage import Stage, get_states
from web.settings import Settings

NAME = "my-connector"
RESTART = f"/connectors/{NAME}/restart"
EVERYTHING = (0, 1, 2, 3)
"""Number 0 is the connector's own instance; numbers 1, 2, 3 are its tasks 0, 1, 2."""


def create_with_failures(stage: Stage, failed: tuple[int, ...] = ()) -> None:
    """Create a connector with three tasks, and fail some of the four instances."""
    stage.create(NAME, tasks=3)
    for number in failed:
        if number:
            stage.fail_task(NAME, number - 1)
        else:
            stage.fail_connector(NAME)
    stage.advance_until_idle()
    assert stage.states(NAME) == ["FAILED" if n in failed else "RUNNING" for n in EVERYTHING]


def count_starts(stage: Stage, before: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of starts of each of the four instances since."""
    return tuple(now - then for now, then in zip(stage.starts(NAME), before, strict=True))


@pytest.mark.parametrize(
    ("query", "failed", "restarted"),
    [
        ("includeTasks=true&onlyFailed=false", (), EVERYTHING),
        ("includeTasks=true&onlyFailed=false", (0, 2), EVERYTHING),
        ("includeTasks=true", (3,), EVERYTHING),
        ("includeTasks=true&onlyFailed=true", (), ()),
        ("includeTasks=true&onlyFailed=true", (0,), (0,)),
        ("includeTasks=true&onlyFailed=true", (2, 3), (2, 3)),
        ("includeTasks=true&onlyFailed=true", EVERYTHING, EVERYTHING),
        ("includeTasks=false&onlyFailed=true", (), ()),
        ("includeTasks=false&onlyFailed=true", (0, 2), (0,)),
        ("onlyFailed=true", (1, 2), ()),
    ],
)
def test_parameters_select_the_restarted_instances(
    stage: Stage, query: str, failed: tuple[int, ...], restarted: tuple[int, ...]
) -> None:
    """For all combinations of parameters and several failures.

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
    create_with_failures(stage, failed)
    before, starts = stage.status(NAME), stage.starts(NAME)
    response = stage.post(f"{RESTART}?{query}")
    assert response.status == 202
    expected = [before["connector"], *before["tasks"]]
    for number in restarted:
        expected[number]["state"] = "RESTARTING"
    assert response.body == before
    stage.advance_until_idle()
    assert count_starts(stage, starts) == tuple(int(n in restarted) for n in EVERYTHING)
    left = set(failed) - set(restarted)
    assert stage.states(NAME) == ["FAILED" if n in left else "RUNNING" for n in EVERYTHING]


@pytest.mark.parametrize("query", ["", "?includeTasks=false&onlyFailed=false", "?includeTasks=no"])
@pytest.mark.parametrize("failed", [(), (0,), (1, 2)])
def test_restart_without_parameters_restarts_only_the_connector(
    stage: Stage, query: str, failed: tuple[int, ...]
) -> None:
    """This is the form that precedes the KIP.

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
    create_with_failures(stage, failed)
    starts, records = stage.starts(NAME), stage.config_log.end()
    response = stage.post(RESTART + query)
    assert (response.status, response.text) == (204, "")
    assert count_starts(stage, starts) == (1, 0, 0, 0), "the restart has begun before the response"
    assert stage.config_records(after=records) == [], "no record is written"
    stage.advance_until_idle()
    assert count_starts(stage, starts) == (1, 0, 0, 0)
    assert stage.states(NAME) == ["FAILED" if n in failed and n else "RUNNING" for n in EVERYTHING]


@pytest.mark.parametrize("target", ["pause", "stop"])
def test_paused_or_stopped_connector_can_be_restarted(stage: Stage, target: str) -> None:
    """It keeps its target state.

    > the Connector instance is restarted regardless of its current status
    """
    stage.create(NAME)
    stage.put(f"/connectors/{NAME}/{target}")
    stage.advance_until_idle()
    before = stage.states(NAME)
    assert stage.post(RESTART).status == 204
    assert stage.post(f"{RESTART}?includeTasks=true").status == 202
    stage.advance_until_idle()
    assert stage.states(NAME) == before


@pytest.mark.parametrize(
    "query", ["includeTasks=true", "onlyFailed=true", "includeTasks=true&onlyFailed=true"]
)
def test_response_202_follows_the_restart_record(stage: Stage, query: str) -> None:
    """An accepted request survives restarts of the workers.

    > 202 ACCEPTED when the named connector exists and the server has successfully and durably recorded the
    > request to stop and begin restarting

    > signaling that the request to restart some subset of the Connector and/or Task instances was accepted

    > The 202 ACCEPTED response signifies that the request to restart the instances has (at least) been accepted
    > and enqueued for completion.

    > key: "restart-connector-<connectorName>" value: {"include-tasks": <true|false>, "only-failed": <true|false>}
    """
    create_with_failures(stage, (1,))
    records = stage.config_log.end()
    assert stage.post(f"{RESTART}?{query}").status == 202
    flags = {"include-tasks": "includeTasks" in query, "only-failed": "onlyFailed" in query}
    assert stage.config_records(after=records) == [(f"restart-connector-{NAME}", flags)]


@pytest.mark.parametrize(
    "query", ["", "?includeTasks=true", "?onlyFailed=true", "?includeTasks=true&onlyFailed=true"]
)
def test_restart_of_an_unknown_connector_returns_404(stage: Stage, query: str) -> None:
    """With every form of the request.

    > 404 NOT FOUND when the named connector does not exist.
    """
    response = stage.post(f"/connectors/nobody/restart{query}")
    assert (response.status, response.body["message"]) == (404, "Unknown connector: nobody")
    assert stage.config_records("restart-") == []


def test_restart_returns_an_error_after_a_timeout(stage: Stage) -> None:
    """The herder is frozen; the client gets an error after request_timeout_s, 90 s by default.

    > 500 Internal Server Error when the request timed out (takes more than 90 seconds), which means the request
    > could not be durably recorded
    """
    assert Settings(advertised_url="http://x/").request_timeout_s == 90
    stage.create(NAME)
    stage.change_web(request_timeout_s=0.05)
    stage.freeze("herder")
    response = stage.post(f"{RESTART}?includeTasks=true")
    assert response.status == 500
    assert response.body["message"].startswith("Request timed out")


def test_restart_returns_an_error_if_the_log_is_unavailable(stage: Stage) -> None:
    """The config log is unavailable.

    > or because the worker receiving the request has temporarily lost contact with the Kafka cluster.
    """
    stage.create(NAME)
    starts = stage.starts(NAME)

    def fail_append(operation: str) -> None:
        if operation == "append":
            raise StoreError("the brokers are unavailable")

    stage.config_log.fault = fail_append
    assert stage.post(f"{RESTART}?includeTasks=true").status == 500
    stage.advance_until_idle()
    assert stage.starts(NAME) == starts, "a rejected request is not executed"


def remove_fields(body: Any, *fields: str) -> Any:
    """Return a JSON value without fields added by later KIPs."""
    if isinstance(body, dict):
        return {key: remove_fields(value, *fields) for key, value in body.items() if key not in fields}
    return [remove_fields(each, *fields) for each in body] if isinstance(body, list) else body


def test_the_example_of_the_kip(stage: Stage) -> None:
    """Three tasks, two of which have failed.

    > we could use this expanded restart method to request the restart of all failed Connector and/or Task
    > instances:

    > POST /connectors/my-connector/restart?includeTasks=true&onlyFailed=true 202 ACCEPTED

    > the response signals that the Connector instance and task 0 were not going to be restarted.

    > both the Connector instance and task 0 were RUNNING when this call was made.
    """
    stage.create("my-connector", tasks=3)
    for task in (1, 2):
        stage.fail_task("my-connector", task, "Unable to execute HTTP request")
    stage.advance_until_idle()
    at = {each["id"]: each["worker_id"] for each in stage.status(NAME)["tasks"]}
    response = stage.post("/connectors/my-connector/restart?includeTasks=true&onlyFailed=true")
    assert response.status == 202
    assert remove_fields(response.body, "version", "type", "trace") == {
        "name": "my-connector",
        "connector": {"state": "RUNNING", "worker_id": stage.status(NAME)["connector"]["worker_id"]},
        "tasks": [
            {"id": 0, "state": "RUNNING", "worker_id": at[0]},
            {"id": 1, "state": "RESTARTING", "worker_id": at[1]},
            {"id": 2, "state": "RESTARTING", "worker_id": at[2]},
        ],
    }


def test_status_shows_the_progress_of_a_restart(stage: Stage) -> None:
    """The leader's responses show RUNNING, RESTARTING and RUNNING for all four instances.

    > GET /connector/{connectorName}/status

    > The response of this method will be changed to include "RESTARTING" as a possible value for the "state"
    > fields.

    > The state of each restarting instance will eventually transition to RUNNING once when assigned worker
    > (re)starts that instance.

    > The user can monitor this progress with subsequent calls to the GET /connector/{connectorName}/status method
    """
    create_with_failures(stage, (2,))
    path = f"/connectors/{NAME}/status"
    response, bodies = stage.watching("POST", f"{RESTART}?includeTasks=true", watch=path, via=stage.leader())
    for _ in range(100):
        stage.scheduler.advance(0.02)
        bodies.append(stage.status(NAME, response.via))
    seen = [get_states(body) for body in bodies]
    for number in EVERYTHING:
        states = [each[number] for each in seen]
        assert "RESTARTING" in states
        assert states[-1] == "RUNNING"
        assert "UNASSIGNED" not in states
    hidden = [each for body in bodies for each in (body["connector"], *body["tasks"])]
    assert all("trace" not in each for each in hidden if each["state"] == "RESTARTING")
