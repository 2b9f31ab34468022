"""KIP-52: pause, resume, restart.

The available page shows the difference between two versions; where two words run together, the second one is current
(`POSTPUT` means PUT).
"""

from __future__ import annotations

import pytest

from kraal.testing._simulation.plugins import FakeSourceConnector
from tests.kips.modes import ThreeWorkers
from tests.kips.stage import Stage

NAME = "numbers"
ONE = f"/connectors/{NAME}"


def put_and_wait(stage: Stage, action: str) -> int:
    """PUT a target state; return the status code."""
    response = stage.put(f"{ONE}/{action}")
    assert response.text == ""
    stage.advance_until_idle()
    return response.status


# -- pause and resume --------------------------------------------------------------------------------------


def test_pause_suspends_the_connector_and_its_tasks(stage: Stage) -> None:
    """The connector stops, and its tasks write nothing.

    > Method: POSTPUT

    > Path: /connectors/{connector}/pause

    > This API asynchronously causes the connector and its tasks to suspend processing.

    > 202 (Accepted) on successful pause initiation

    > users of this endpoint will need to poll the connector's /status endpoint to verify that the expected state
    > transition has completed.

    > Pausing the connector requires all of the connector's tasks to transition
    """
    stage.create(NAME, tasks=2)
    assert stage.post(f"{ONE}/pause").status == 405
    assert stage.put(f"{ONE}/pause").status == 202
    for _ in range(100):  # poll until the transition is complete
        if set(stage.states(NAME)) == {"PAUSED"}:
            break
        stage.scheduler.advance(0.05)
    stage.advance_until_idle()  # all workers have read it
    assert stage.states(NAME) == ["PAUSED"] * 3
    assert FakeSourceConnector.calls[-1] == (NAME, "stop")
    stage.feed(NAME, 0, 10)
    stage.advance_until_idle()
    assert stage.get_written(NAME, 0) == []


def test_resume_continues_without_loss(stage: Stage) -> None:
    """All records are written.

    > Method: POSTPUT

    > Path: /connectors/{connector}/resume

    > 202 (Accepted) on on successful resume initiation
    """
    stage.create(NAME, tasks=2)
    stage.feed(NAME, 0, 5)
    stage.advance_until_idle()
    put_and_wait(stage, "pause")
    stage.feed(NAME, 0, 5)
    stage.advance_until_idle()
    assert stage.get_written(NAME, 0) == list(range(5))
    assert stage.post(f"{ONE}/resume").status == 405
    assert put_and_wait(stage, "resume") == 202
    assert stage.states(NAME) == ["RUNNING"] * 3
    assert stage.get_written(NAME, 0) == list(range(10))


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_repeated_pause_or_resume_is_a_noop(stage: Stage, action: str) -> None:
    """The second request changes nothing.

    > If the connector is already paused, this is a no-op.

    > or if the command is a no-op
    """
    stage.create(NAME, tasks=2)
    assert put_and_wait(stage, action) == 202
    before, calls = stage.starts(NAME), list(FakeSourceConnector.calls)
    states, end = stage.states(NAME), stage.status_log.end()
    assert put_and_wait(stage, action) == 202
    assert (stage.starts(NAME), stage.states(NAME)) == (before, states)
    assert FakeSourceConnector.calls == calls
    assert stage.status_log.end() == end


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_pause_and_resume_of_an_unknown_connector_return_404(stage: Stage, action: str) -> None:
    """Nothing is written to the config log.

    > or if the command is a no-op, 404 if the connector doesn't exist
    """
    response = stage.put(f"/connectors/nobody/{action}")
    assert (response.status, response.body["message"]) == (404, "Unknown connector nobody")
    assert stage.config_records("target-state-") == []


@pytest.mark.parametrize("orderly", [True, False])
def test_paused_state_survives_restarts_of_workers(stage: Stage, *, orderly: bool) -> None:
    """It also survives restarts of the connector and its tasks.

    > The paused state is persistent, which means that the connector will stay paused even after cluster
    > restartsrebalances or is restarted.
    """
    stage.create(NAME, tasks=2)
    assert put_and_wait(stage, "pause") == 202
    stage.restart_workers(orderly=orderly)
    assert stage.states(NAME) == ["PAUSED"] * 3
    assert stage.post(f"{ONE}/restart").status == 204
    assert stage.post(f"{ONE}/restart?includeTasks=true").status == 202
    assert stage.post(f"{ONE}/tasks/0/restart").status == 204
    stage.advance_until_idle()
    assert stage.states(NAME) == ["PAUSED"] * 3
    assert put_and_wait(stage, "resume") == 202
    assert stage.states(NAME) == ["RUNNING"] * 3


def test_target_state_is_written_to_the_config_log(stage: Stage) -> None:
    """The key and the newer field have the names of Connect.

    > The record value will contain a simple object with a "state" property indicating the state of the connector and
    > will be serialized using the internal value converter (the same as we do for config objects themselves).
    """
    stage.create(NAME)
    put_and_wait(stage, "pause")
    put_and_wait(stage, "resume")
    key = f"target-state-{NAME}"
    assert stage.config_records("target-state-") == [
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
    assert distributed.put(f"{ONE}/pause").status == 202
    distributed.cluster.settle(30)
    for via in distributed.workers():
        assert distributed.states(NAME, via) == ["PAUSED"] * 5
    assert len({task["worker_id"] for task in distributed.status(NAME)["tasks"]}) > 1


# -- restart -----------------------------------------------------------------------------------------------


def test_restart_of_a_failed_connector_returns_204(stage: Stage) -> None:
    """Any worker accepts the request.

    > Path: /connectors/{connector}/restart

    > This API asynchronously synchronously restarts the connector task.

    > on 204 on successful restart initiation, 404 if the connector doesn't exist

    > The restart API addresses the problem of restarting a failed or defunct connector.

    > so there is no need to persist them indefinitely.
    """
    stage.create(NAME, tasks=2)
    stage.fail_connector(NAME)
    stage.advance_until_idle()
    assert stage.states(NAME) == ["FAILED", "RUNNING", "RUNNING"]
    before, end = stage.starts(NAME), stage.config_log.end()
    response = stage.post(f"{ONE}/restart")
    assert (response.status, response.text) == (204, "")
    assert stage.starts(NAME) == (before[0] + 1, *before[1:])
    assert stage.config_log.end() == end
    stage.advance_until_idle()
    assert stage.states(NAME) == ["RUNNING"] * 3
    assert stage.post("/connectors/nobody/restart").status == 404


def test_task_restart_does_not_restart_other_tasks(stage: Stage) -> None:
    """One of three tasks is restarted.

    > Method: POST

    > Path: /connectors/{connector}/tasks/{task}/restart

    > This API asynchronously synchronously restarts a specific worker task.

    > on 204 on successful restart initiation, 404 if the connector doesn't exist

    > Task restarts are one-time commands which either complete or fail at the time of the request, so there is no
    > need to persist them indefinitely.
    """
    stage.create(NAME, tasks=3)
    stage.fail_task(NAME, 1)
    stage.advance_until_idle()
    before, end = stage.starts(NAME), stage.config_log.end()
    response = stage.post(f"{ONE}/tasks/1/restart")
    assert (response.status, response.text) == (204, "")
    assert stage.starts(NAME) == (*before[:2], before[2] + 1, before[3])
    assert stage.config_log.end() == end
    stage.advance_until_idle()
    assert stage.states(NAME) == ["RUNNING"] * 4
    assert stage.post("/connectors/nobody/tasks/0/restart").status == 404
    assert stage.post(f"{ONE}/tasks/3/restart").status == 404


def test_failed_task_restart_returns_500(stage: Stage) -> None:
    """The failure is reported at the time of the request.

    > which either complete or fail at the time of the request
    """
    stage.create(NAME, tasks=2)
    stage.fail_opening(NAME, 1, "Broken: not to be opened")
    response = stage.post(f"{ONE}/tasks/1/restart")
    assert (response.status, response.body["message"]) == (500, f"Failed to start task: {NAME}-1")


@pytest.mark.parametrize("what", ["connector", "task"])
def test_restart_is_forwarded_to_the_owner(distributed: ThreeWorkers, what: str) -> None:
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
    path = f"{ONE}/restart" if what == "connector" else f"{ONE}/tasks/{task}/restart"
    owner = distributed.owner(NAME, None if what == "connector" else task)
    for url in distributed.workers():
        before = distributed.starts(NAME)
        hops = len(distributed.forwarded)
        assert distributed.request("POST", path, via=url).status == 204
        assert sum(distributed.starts(NAME)) == sum(before) + 1
        assert distributed.owner(NAME, None if what == "connector" else task) == owner
        if url == owner:
            expected = []
        elif url == leader:
            expected = [(owner, "forward=true")]
        else:
            expected = [(leader, "forward=true"), (owner, "forward=false")]
            expected = expected[:1] if owner == leader else expected
        assert distributed.forwarded[hops:] == expected
        distributed.advance_until_idle()
    stranger = next(url for url in distributed.workers() if url not in (owner, leader))
    hops = len(distributed.forwarded)
    response = distributed.request("POST", f"{path}?forward=false", via=stranger)
    assert response.status == 409, "Connect's response; the KIP has 404"
    assert distributed.forwarded[hops:] == []


def test_restart_during_an_endless_rebalance_returns_409(distributed: ThreeWorkers) -> None:
    """A restart waits for the end of a rebalance; after a timeout it is a conflict that clients can retry.

    > we return an error to the user so that the restart can be tried again.
    """
    distributed.create(NAME, tasks=4)
    config = {**distributed.get(f"{ONE}/config").body, "tasks.max": "6"}
    assert distributed.put(f"{ONE}/config", config).status == 200
    assert distributed.post(f"{ONE}/tasks/0/restart").status == 204, "waits for the end of the rebalance"
    assert distributed.put(f"{ONE}/config", {**config, "tasks.max": "5"}).status == 200
    distributed.cluster.broker.stop()
    distributed.cluster.advance(30)
    refused = distributed.post(f"{ONE}/tasks/0/restart")
    assert (refused.status, refused.headers.get("retry-after")) == (409, "1"), "the rebalance does not end"
    distributed.cluster.broker.start()
    distributed.cluster.settle(60)
    assert distributed.post(f"{ONE}/tasks/0/restart").status == 204
