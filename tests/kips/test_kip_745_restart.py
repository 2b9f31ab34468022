"""KIP-745: one request restarts a connector and its tasks, or what of them has failed. What REST promises."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.core.errors import StoreError
from tests.kips.stage import Stage, states_of
from web.settings import Settings

NAME = "my-connector"
RESTART = f"/connectors/{NAME}/restart"
EVERYTHING = (0, 1, 2, 3)
"""The connector's object is number 0, its tasks 0, 1, 2 are numbers 1, 2, 3."""


def broken(stage: Stage, failed: tuple[int, ...] = ()) -> None:
    """Run a connector with three tasks, and have some of the four fail."""
    stage.create(NAME, tasks=3)
    for number in failed:
        if number:
            stage.fail_task(NAME, number - 1)
        else:
            stage.fail_connector(NAME)
    stage.calm()
    assert stage.states(NAME) == ["FAILED" if n in failed else "RUNNING" for n in EVERYTHING]


def started_since(stage: Stage, before: tuple[int, ...]) -> tuple[int, ...]:
    """Return how often each of the four was started since."""
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
def test_the_parameters_say_what_is_restarted(
    stage: Stage, query: str, failed: tuple[int, ...], restarted: tuple[int, ...]
) -> None:
    """Every combination, with several things failed.

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
    broken(stage, failed)
    before, starts = stage.status(NAME), stage.starts(NAME)
    answer = stage.post(f"{RESTART}?{query}")
    assert answer.status == 202
    shown = [before["connector"], *before["tasks"]]
    for number in restarted:
        shown[number]["state"] = "RESTARTING"
    assert answer.body == before
    stage.calm()
    assert started_since(stage, starts) == tuple(int(n in restarted) for n in EVERYTHING)
    left = set(failed) - set(restarted)
    assert stage.states(NAME) == ["FAILED" if n in left else "RUNNING" for n in EVERYTHING]


@pytest.mark.parametrize("query", ["", "?includeTasks=false&onlyFailed=false", "?includeTasks=no"])
@pytest.mark.parametrize("failed", [(), (0,), (1, 2)])
def test_without_parameters_only_the_connector_is_restarted(
    stage: Stage, query: str, failed: tuple[int, ...]
) -> None:
    """The form from before the KIP.

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
    broken(stage, failed)
    starts, records = stage.starts(NAME), stage.config_log.end()
    answer = stage.post(RESTART + query)
    assert (answer.status, answer.text) == (204, "")
    assert started_since(stage, starts) == (1, 0, 0, 0), "it has begun when the answer comes"
    assert stage.config_records(after=records) == [], "nothing is recorded for it"
    stage.calm()
    assert started_since(stage, starts) == (1, 0, 0, 0)
    assert stage.states(NAME) == ["FAILED" if n in failed and n else "RUNNING" for n in EVERYTHING]


@pytest.mark.parametrize("target", ["pause", "stop"])
def test_a_connector_that_does_not_run_can_be_restarted_too(stage: Stage, target: str) -> None:
    """It comes back as it is wanted.

    > the Connector instance is restarted regardless of its current status
    """
    stage.create(NAME)
    stage.put(f"/connectors/{NAME}/{target}")
    stage.calm()
    before = stage.states(NAME)
    assert stage.post(RESTART).status == 204
    assert stage.post(f"{RESTART}?includeTasks=true").status == 202
    stage.calm()
    assert stage.states(NAME) == before


@pytest.mark.parametrize(
    "query", ["includeTasks=true", "onlyFailed=true", "includeTasks=true&onlyFailed=true"]
)
def test_a_202_means_that_the_request_is_recorded(stage: Stage, query: str) -> None:
    """What was answered survives.

    > 202 ACCEPTED when the named connector exists and the server has successfully and durably recorded the
    > request to stop and begin restarting

    > signaling that the request to restart some subset of the Connector and/or Task instances was accepted

    > The 202 ACCEPTED response signifies that the request to restart the instances has (at least) been accepted
    > and enqueued for completion.

    > key: "restart-connector-<connectorName>" value: {"include-tasks": <true|false>, "only-failed": <true|false>}
    """
    broken(stage, (1,))
    records = stage.config_log.end()
    assert stage.post(f"{RESTART}?{query}").status == 202
    flags = {"include-tasks": "includeTasks" in query, "only-failed": "onlyFailed" in query}
    assert stage.config_records(after=records) == [(f"restart-connector-{NAME}", flags)]


@pytest.mark.parametrize(
    "query", ["", "?includeTasks=true", "?onlyFailed=true", "?includeTasks=true&onlyFailed=true"]
)
def test_an_unknown_connector_is_not_found(stage: Stage, query: str) -> None:
    """In every form.

    > 404 NOT FOUND when the named connector does not exist.
    """
    answer = stage.post(f"/connectors/nobody/restart{query}")
    assert (answer.status, answer.body["message"]) == (404, "Unknown connector: nobody")
    assert stage.config_records("restart-") == []


def test_a_request_that_is_not_recorded_in_time_is_an_error(stage: Stage) -> None:
    """The herder stands still: whoever asked hears so after request_timeout_s, 90 s by default.

    > 500 Internal Server Error when the request timed out (takes more than 90 seconds), which means the request
    > could not be durably recorded
    """
    assert Settings(advertised_url="http://x/").request_timeout_s == 90
    stage.create(NAME)
    stage.change_web(request_timeout_s=0.05)
    stage.freeze("herder")
    answer = stage.post(f"{RESTART}?includeTasks=true")
    assert answer.status == 500
    assert answer.body["message"].startswith("Request timed out")


def test_a_request_that_cannot_be_recorded_is_an_error(stage: Stage) -> None:
    """The log is away.

    > or because the worker receiving the request has temporarily lost contact with the Kafka cluster.
    """
    stage.create(NAME)
    starts = stage.starts(NAME)

    def away(operation: str) -> None:
        if operation == "append":
            raise StoreError("the brokers are away")

    stage.config_log.fault = away
    assert stage.post(f"{RESTART}?includeTasks=true").status == 500
    stage.calm()
    assert stage.starts(NAME) == starts, "what was not accepted is not done"


def without(body: Any, *fields: str) -> Any:
    """Return a JSON value without what later KIPs have added to it."""
    if isinstance(body, dict):
        return {key: without(value, *fields) for key, value in body.items() if key not in fields}
    return [without(each, *fields) for each in body] if isinstance(body, list) else body


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
    stage.calm()
    at = {each["id"]: each["worker_id"] for each in stage.status(NAME)["tasks"]}
    answer = stage.post("/connectors/my-connector/restart?includeTasks=true&onlyFailed=true")
    assert answer.status == 202
    assert without(answer.body, "version", "type", "trace") == {
        "name": "my-connector",
        "connector": {"state": "RUNNING", "worker_id": stage.status(NAME)["connector"]["worker_id"]},
        "tasks": [
            {"id": 0, "state": "RUNNING", "worker_id": at[0]},
            {"id": 1, "state": "RESTARTING", "worker_id": at[1]},
            {"id": 2, "state": "RESTARTING", "worker_id": at[2]},
        ],
    }


def test_the_status_shows_the_progress_of_a_restart(stage: Stage) -> None:
    """From RUNNING by RESTARTING to RUNNING, of all four, as GETs see it on the worker that planned it.

    > GET /connector/{connectorName}/status

    > The response of this method will be changed to include "RESTARTING" as a possible value for the "state"
    > fields.

    > The state of each restarting instance will eventually transition to RUNNING once when assigned worker
    > (re)starts that instance.

    > The user can monitor this progress with subsequent calls to the GET /connector/{connectorName}/status method
    """
    broken(stage, (2,))
    path = f"/connectors/{NAME}/status"
    answer, bodies = stage.watching("POST", f"{RESTART}?includeTasks=true", watch=path, via=stage.leader())
    for _ in range(100):
        stage.scheduler.advance(0.02)
        bodies.append(stage.status(NAME, answer.via))
    seen = [states_of(body) for body in bodies]
    for number in EVERYTHING:
        states = [each[number] for each in seen]
        assert "RESTARTING" in states
        assert states[-1] == "RUNNING"
        assert "UNASSIGNED" not in states
    hidden = [each for body in bodies for each in (body["connector"], *body["tasks"])]
    assert all("trace" not in each for each in hidden if each["state"] == "RESTARTING")
