"""Tests for KIP-52: requests that pause, resume and restart connectors and tasks.

The available copy of the KIP shows the differences between two versions. Where two words run together, the second one
is current (`POSTPUT` means PUT).
"""

from __future__ import annotations

import pytest

from kraal.testing._simulation.plugins import FakeSourceConnector
from tests.kips.connect_cluster import ConnectCluster
from tests.kips.modes import ThreeWorkers

NAME = "numbers"
CONNECTOR_PATH = f"/connectors/{NAME}"


def put_and_wait(connect: ConnectCluster, action: str) -> int:
    """PUT a target state, and wait until the workers are idle; return the status code."""
    response = connect.put(f"{CONNECTOR_PATH}/{action}")
    assert response.text == ""
    connect.advance_until_idle()
    return response.status


# -- pause and resume --------------------------------------------------------------------------------------


def test_pause_suspends_the_connector_and_its_tasks(connect: ConnectCluster) -> None:
    """The connector stops, and its tasks write nothing.

    > Method: POSTPUT

    > Path: /connectors/{connector}/pause

    > This API asynchronously causes the connector and its tasks to suspend processing.

    > 202 (Accepted) on successful pause initiation

    > users of this endpoint will need to poll the connector's /status endpoint to verify that the expected state
    > transition has completed.

    > Pausing the connector requires all of the connector's tasks to transition
    """
    connect.create(NAME, tasks=2)
    assert connect.post(f"{CONNECTOR_PATH}/pause").status == 405
    assert connect.put(f"{CONNECTOR_PATH}/pause").status == 202
    for _ in range(100):  # poll until the transition is complete
        if set(connect.states(NAME)) == {"PAUSED"}:
            break
        connect.scheduler.advance(0.05)
    connect.advance_until_idle()  # all workers have read the target state
    assert connect.states(NAME) == ["PAUSED"] * 3
    assert FakeSourceConnector.calls[-1] == (NAME, "stop")
    connect.feed(NAME, 0, 10)
    connect.advance_until_idle()
    assert connect.get_written_numbers(NAME, 0) == []


def test_resume_continues_without_loss(connect: ConnectCluster) -> None:
    """All records are written.

    > Method: POSTPUT

    > Path: /connectors/{connector}/resume

    > 202 (Accepted) on on successful resume initiation
    """
    connect.create(NAME, tasks=2)
    connect.feed(NAME, 0, 5)
    connect.advance_until_idle()
    put_and_wait(connect, "pause")
    connect.feed(NAME, 0, 5)
    connect.advance_until_idle()
    assert connect.get_written_numbers(NAME, 0) == list(range(5))
    assert connect.post(f"{CONNECTOR_PATH}/resume").status == 405
    assert put_and_wait(connect, "resume") == 202
    assert connect.states(NAME) == ["RUNNING"] * 3
    assert connect.get_written_numbers(NAME, 0) == list(range(10))


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_repeated_pause_or_resume_is_a_noop(connect: ConnectCluster, action: str) -> None:
    """The second request has no effect.

    > If the connector is already paused, this is a no-op.

    > or if the command is a no-op
    """
    connect.create(NAME, tasks=2)
    assert put_and_wait(connect, action) == 202
    starts_before, calls = connect.starts(NAME), list(FakeSourceConnector.calls)
    states, end = connect.states(NAME), connect.status_log.end()
    assert put_and_wait(connect, action) == 202
    assert (connect.starts(NAME), connect.states(NAME)) == (starts_before, states)
    assert FakeSourceConnector.calls == calls
    assert connect.status_log.end() == end


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_pause_and_resume_of_an_unknown_connector_return_404(connect: ConnectCluster, action: str) -> None:
    """Nothing is written to the config log.

    > or if the command is a no-op, 404 if the connector doesn't exist
    """
    response = connect.put(f"/connectors/nobody/{action}")
    assert (response.status, response.body["message"]) == (404, "Unknown connector nobody")
    assert connect.config_records("target-state-") == []


@pytest.mark.parametrize("is_graceful", [True, False])
def test_paused_state_survives_restarts_of_workers(connect: ConnectCluster, *, is_graceful: bool) -> None:
    """The state also survives restarts of the connector and its tasks.

    > The paused state is persistent, which means that the connector will stay paused even after cluster
    > restartsrebalances or is restarted.
    """
    connect.create(NAME, tasks=2)
    assert put_and_wait(connect, "pause") == 202
    connect.restart_workers(is_graceful=is_graceful)
    assert connect.states(NAME) == ["PAUSED"] * 3
    assert connect.post(f"{CONNECTOR_PATH}/restart").status == 204
    assert connect.post(f"{CONNECTOR_PATH}/restart?includeTasks=true").status == 202
    assert connect.post(f"{CONNECTOR_PATH}/tasks/0/restart").status == 204
    connect.advance_until_idle()
    assert connect.states(NAME) == ["PAUSED"] * 3
    assert put_and_wait(connect, "resume") == 202
    assert connect.states(NAME) == ["RUNNING"] * 3


def test_target_state_is_written_to_the_config_log(connect: ConnectCluster) -> None:
    """The record has the key and the fields of Connect's record; `state.v2` is newer than the KIP.

    > The record value will contain a simple object with a "state" property indicating the state of the connector and
    > will be serialized using the internal value converter (the same as we do for config objects themselves).
    """
    connect.create(NAME)
    put_and_wait(connect, "pause")
    put_and_wait(connect, "resume")
    key = f"target-state-{NAME}"
    assert connect.config_records("target-state-") == [
        (key, {"state": "PAUSED", "state.v2": "PAUSED"}),
        (key, {"state": "STARTED", "state.v2": "STARTED"}),
    ]


def test_pause_during_a_rebalance_takes_effect_afterwards(distributed: ThreeWorkers) -> None:
    """All workers report PAUSED after the rebalance.

    > if the cluster is rebalancing at the time of the command, the transition won't take effect until after the
    > rebalance has completed.
    """
    distributed.create(NAME, tasks=4)
    distributed.cluster.add()
    distributed.scheduler.advance(0.1)
    assert distributed.put(f"{CONNECTOR_PATH}/pause").status == 202
    distributed.cluster.settle(30)
    for via in distributed.workers():
        assert distributed.states(NAME, via) == ["PAUSED"] * 5
    assert len({task["worker_id"] for task in distributed.status(NAME)["tasks"]}) > 1


# -- restart -----------------------------------------------------------------------------------------------


def test_restart_of_a_failed_connector_returns_204(connect: ConnectCluster) -> None:
    """Only the connector's instance is restarted. No record is written to the config log.

    > Path: /connectors/{connector}/restart

    > This API asynchronously synchronously restarts the connector task.

    > on 204 on successful restart initiation, 404 if the connector doesn't exist

    > The restart API addresses the problem of restarting a failed or defunct connector.

    > so there is no need to persist them indefinitely.
    """
    connect.create(NAME, tasks=2)
    connect.fail_connector(NAME)
    connect.advance_until_idle()
    assert connect.states(NAME) == ["FAILED", "RUNNING", "RUNNING"]
    starts_before, end = connect.starts(NAME), connect.config_log.end()
    response = connect.post(f"{CONNECTOR_PATH}/restart")
    assert (response.status, response.text) == (204, "")
    assert connect.starts(NAME) == (starts_before[0] + 1, *starts_before[1:])
    assert connect.config_log.end() == end
    connect.advance_until_idle()
    assert connect.states(NAME) == ["RUNNING"] * 3
    assert connect.post("/connectors/nobody/restart").status == 404


def test_task_restart_does_not_restart_other_tasks(connect: ConnectCluster) -> None:
    """One of three tasks is restarted.

    > Method: POST

    > Path: /connectors/{connector}/tasks/{task}/restart

    > This API asynchronously synchronously restarts a specific worker task.

    > on 204 on successful restart initiation, 404 if the connector doesn't exist

    > Task restarts are one-time commands which either complete or fail at the time of the request, so there is no
    > need to persist them indefinitely.
    """
    connect.create(NAME, tasks=3)
    connect.fail_task(NAME, 1)
    connect.advance_until_idle()
    starts_before, end = connect.starts(NAME), connect.config_log.end()
    response = connect.post(f"{CONNECTOR_PATH}/tasks/1/restart")
    assert (response.status, response.text) == (204, "")
    assert connect.starts(NAME) == (*starts_before[:2], starts_before[2] + 1, starts_before[3])
    assert connect.config_log.end() == end
    connect.advance_until_idle()
    assert connect.states(NAME) == ["RUNNING"] * 4
    assert connect.post("/connectors/nobody/tasks/0/restart").status == 404
    assert connect.post(f"{CONNECTOR_PATH}/tasks/3/restart").status == 404


def test_failed_task_restart_returns_500(connect: ConnectCluster) -> None:
    """The failure is reported at the time of the request.

    > which either complete or fail at the time of the request
    """
    connect.create(NAME, tasks=2)
    connect.fail_opening(NAME, 1, "Broken: not to be opened")
    response = connect.post(f"{CONNECTOR_PATH}/tasks/1/restart")
    assert (response.status, response.body["message"]) == (500, f"Failed to start task: {NAME}-1")


@pytest.mark.parametrize("kind", ["connector", "task"])
def test_restart_is_forwarded_to_the_owner(distributed: ThreeWorkers, kind: str) -> None:
    """A follower forwards the request through the leader.

    > Query parameter: from_leader forward: indicates whether the restart was sent by the leadercan be forwarded

    > Query parameter: from_leaderforward: indicates whether the restart was sent by the leadercan be forwarded

    > use the existing HTTP forwarding mechanism to send the restart to the current worker which is hosting the task.

    > This generally requires two hops: one to the leader since it is the only worker which knows the full task
    > assignments, and one to the worker which hosts the task at the moment.

    > When the restart request is received on the worker hosting the task, it responds to the request and begins the
    > restart.

    > we can break the loop by including a flag in the request

    > the worker receiving it will not bother forwarding the request back to the leader
    """
    distributed.create(NAME, tasks=3)
    leader = distributed.leader()
    task = next(n for n in range(3) if distributed.owner(NAME, n) != leader)
    path = f"{CONNECTOR_PATH}/restart" if kind == "connector" else f"{CONNECTOR_PATH}/tasks/{task}/restart"
    owner = distributed.owner(NAME, None if kind == "connector" else task)
    for url in distributed.workers():
        starts_before = distributed.starts(NAME)
        request_count = len(distributed.forwarded_requests)
        assert distributed.request("POST", path, via=url).status == 204
        assert sum(distributed.starts(NAME)) == sum(starts_before) + 1
        assert distributed.owner(NAME, None if kind == "connector" else task) == owner
        if url == owner:
            expected = []
        elif url == leader:
            expected = [(owner, "forward=true")]
        else:
            expected = [(leader, "forward=true"), (owner, "forward=false")]
            expected = expected[:1] if owner == leader else expected
        assert distributed.forwarded_requests[request_count:] == expected
        distributed.advance_until_idle()
    other_worker = next(url for url in distributed.workers() if url not in (owner, leader))
    request_count = len(distributed.forwarded_requests)
    response = distributed.request("POST", f"{path}?forward=false", via=other_worker)
    assert response.status == 409, "Connect's response; the KIP has 404"
    assert distributed.forwarded_requests[request_count:] == []


def test_restart_during_an_endless_rebalance_returns_409(distributed: ThreeWorkers) -> None:
    """A restart waits for the end of a rebalance, and is rejected after a timeout with a 409 that clients can retry.

    > we return an error to the user so that the restart can be tried again.
    """
    distributed.create(NAME, tasks=4)
    config = {**distributed.get(f"{CONNECTOR_PATH}/config").body, "tasks.max": "6"}
    assert distributed.put(f"{CONNECTOR_PATH}/config", config).status == 200
    assert distributed.post(f"{CONNECTOR_PATH}/tasks/0/restart").status == 204, (
        "the restart must wait for the end of the rebalance"
    )
    assert distributed.put(f"{CONNECTOR_PATH}/config", {**config, "tasks.max": "5"}).status == 200
    distributed.cluster.broker.stop()
    distributed.cluster.advance(30)
    response = distributed.post(f"{CONNECTOR_PATH}/tasks/0/restart")
    assert (response.status, response.headers.get("retry-after")) == (409, "1"), (
        "the rebalance must not have ended"
    )
    distributed.cluster.broker.start()
    distributed.cluster.settle(60)
    assert distributed.post(f"{CONNECTOR_PATH}/tasks/0/restart").status == 204
