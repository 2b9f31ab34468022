"""Tests for KIP-745: restarts in both modes, in standalone mode only, and in a group."""

from __future__ import annotations

import pytest

from kraal.cluster.decisions.restart import RestartRequest, restart_entry
from kraal.core.ids import ConnectorName, State
from kraal.testing._simulation.plugins import FakeSourceConnector
from tests.kips.connect_cluster import ConnectCluster, get_states
from tests.kips.modes import ThreeWorkers

NAME = "my-connector"
RESTART_PATH = f"/connectors/{NAME}/restart"
RESTART_ALL = f"{RESTART_PATH}?includeTasks=true"
RESTART_FAILED = f"{RESTART_PATH}?includeTasks=true&onlyFailed=true"


def list_written_states(connect: ConnectCluster, after: int) -> dict[str, list[str]]:
    """Return the states of every instance in the status log from offset `after`, in order."""
    states_by_key: dict[str, list[str]] = {}
    for key, value in connect.status_records(after=after):
        if not key.startswith("status-topic-"):
            states_by_key.setdefault(key, []).append(value["state"])
    return states_by_key


# -- both modes --------------------------------------------------------------------------------------------


def test_each_instance_is_stopped_restarting_and_running(connect: ConnectCluster) -> None:
    """The worker that runs the instance writes these states to the status log.

    > The restart requests will result in the state of each targeted Connector and Task instances being initially
    > set to RESTARTING, and will reuse the worker's existing logic to stop and (asynchronously) start

    > A new RESTARTING state will be added to the AbstractStatus.State enumeration

    > Only the herders will explicitly set the RESTARTING state in the state store

    > the states of each instance will transition to RUNNING when the instance is restarted.
    """
    connect.create(NAME)
    status = connect.status(NAME)
    end, call_count = connect.status_log.end(), len(FakeSourceConnector.calls)
    assert connect.post(RESTART_ALL).status == 202
    connect.advance_until_idle()
    keys = [f"status-connector-{NAME}", *(f"status-task-{NAME}-{n}" for n in range(3))]
    assert list_written_states(connect, end) == {key: [State.RESTARTING, State.RUNNING] for key in keys}
    assert [method for _, method in FakeSourceConnector.calls[call_count:]][:2] == ["stop", "start"]
    owners = [status["connector"]["worker_id"], *(task["worker_id"] for task in status["tasks"])]
    for key, owner in zip(keys, owners, strict=True):
        assert [value["worker_id"] for _, value in connect.status_records(key, after=end)] == [owner] * 2


def test_status_is_running_only_when_the_instance_runs(connect: ConnectCluster) -> None:
    """A task that fails to start is never RUNNING.

    > That existing logic does not wait for the instances to complete their startup, and it will transition this
    > state to RUNNING when the instance is actually started.
    """
    connect.create(NAME)
    end = connect.status_log.end()
    connect.fail_opening(NAME, 1, "Broken: not to be opened")
    assert connect.post(RESTART_ALL).status == 202
    connect.advance_until_idle()
    assert list_written_states(connect, end)[f"status-task-{NAME}-1"] == [State.RESTARTING, State.FAILED]
    assert connect.states(NAME) == ["RUNNING", "RUNNING", "FAILED", "RUNNING"]


def test_starting_worker_ignores_old_restart_requests(connect: ConnectCluster) -> None:
    """The record remains in the log, and every instance is started once.

    > Note that if a worker is restarted before it processes the restart request, it may skip its share of the
    > restart request since the worker will restart all of its assigned Connector and Task instances as part of
    > its normal startup process.

    > If the worker reads the restart request as part of worker startup, it can ignore the restart request
    """
    connect.create(NAME)
    assert connect.post(RESTART_ALL).status == 202
    connect.advance_until_idle()
    starts_before, end = connect.starts(NAME), connect.status_log.end()
    connect.restart_workers(is_graceful=False)
    assert tuple(
        later - earlier for later, earlier in zip(connect.starts(NAME), starts_before, strict=True)
    ) == (
        1,
        1,
        1,
        1,
    )
    assert State.RESTARTING not in {
        state for states in list_written_states(connect, end).values() for state in states
    }
    assert connect.states(NAME) == ["RUNNING"] * 4


def test_restart_records_do_not_affect_other_config_records(connect: ConnectCluster) -> None:
    """The configs are unchanged after the log has been read again.

    > The "restart request" written to the config topic, which already is where the connector and task config
    > records, task state change records, and session key records are written.

    > The "restart request" records will not conflict with any other types of config records, will be compatible
    > with the compacted topic
    """
    connect.create(NAME)
    connect.create("connector", tasks=1)
    infos_before = connect.get("/connectors?expand=info").body
    for name in (NAME, "connector"):
        assert connect.post(f"/connectors/{name}/restart?includeTasks=true").status == 202
    connect.advance_until_idle()
    keys = [key for key, _ in connect.config_records()]
    assert {"connector-connector", "restart-connector-connector", f"task-{NAME}-0"} <= set(keys)
    assert all(value is not None for _, value in connect.config_records("restart-")), (
        "no tombstones are written"
    )
    connect.restart_workers()
    assert connect.get("/connectors?expand=info").body == infos_before


# -- standalone --------------------------------------------------------------------------------------------


def test_standalone_completes_the_restart_before_its_response(standalone: ConnectCluster) -> None:
    """Nothing changes after the response.

    > The standalone runtime will ensure that each restart request is processed completely before the response is
    > returned, even though the new API contract does not require this.

    > Restart all targeted instances, which will transition the states to RUNNING.
    """
    standalone.create(NAME)
    standalone.fail_task(NAME, 1)
    standalone.advance_until_idle()
    starts_before = standalone.starts(NAME)
    response = standalone.post(RESTART_FAILED)
    assert get_states(response.body) == ["RUNNING", "RUNNING", "RESTARTING", "RUNNING"]
    assert standalone.states(NAME) == ["RUNNING"] * 4
    assert standalone.starts(NAME) == (
        starts_before[0],
        starts_before[1],
        starts_before[2] + 1,
        starts_before[3],
    )


def test_standalone_stops_all_instances_before_it_starts_any(standalone: ConnectCluster) -> None:
    """The restart has three consecutive steps.

    > Get the current states of the Connector and Task instances and determine which the herder will target for
    > restart.

    > If at least one instance is to be restarted:

    > Stop and await all targeted instances.

    > Set the RESTARTING state for these targeted instances.

    > Build a ConnectorStateInfo result based upon the original status, with "state=RESTARTING" for all instances
    > that were restarted.
    """
    standalone.create(NAME)
    standalone.fail_task(NAME, 0, "Broken: original")
    standalone.advance_until_idle()
    end = standalone.status_log.end()
    assert get_states(standalone.post(RESTART_PATH + "?onlyFailed=true").body) == [
        "RUNNING",
        "FAILED",
        "RUNNING",
        "RUNNING",
    ]
    assert standalone.status_log.end() == end, "no instance has failed"
    response = standalone.post(RESTART_ALL)
    assert get_states(response.body) == ["RESTARTING"] * 4
    assert response.body["tasks"][0]["trace"] == "Broken: original"
    states = [value["state"] for _, value in standalone.status_records(after=end)]
    assert states == [State.RESTARTING] * 4 + [State.RUNNING] * 4


# -- a group -----------------------------------------------------------------------------------------------


def test_group_writes_the_request_and_shows_restarting_immediately(distributed: ThreeWorkers) -> None:
    """A GET on the same worker immediately after the 202 also shows RESTARTING.

    > Write a new "restart request" command to the config topic.

    > Get the current states of the Connector and Task instances and determine which the herder will target for
    > restart.

    > Set the RESTARTING state for all targeted instances.

    > Build and return a ConnectorStateInfo result based upon the current connector status, except with
    > "state=RESTARTING" for all restarted instances that are targeted for restart.
    """
    distributed.create(NAME)
    leader, end = distributed.leader(), distributed.config_log.end()
    response = distributed.request("POST", RESTART_ALL, via=leader)
    assert len(distributed.config_records("restart-connector-", after=end)) == 1
    assert get_states(response.body) == ["RESTARTING"] * 4
    assert distributed.states(NAME, via=leader) == ["RESTARTING"] * 4


def test_every_worker_restarts_its_own_instances(distributed: ThreeWorkers) -> None:
    """The instances run on three workers and do not move.

    > all the workers in the Connect cluster will (eventually) see the restart request.

    > the DistributedHerder will enqueue the request to be processed

    > use the current connector status and the herder's current assignments to determine which of its Connector
    > and Task instances are to be restarted, and will then stop and restart them.
    """
    distributed.create(NAME, tasks=5)
    owners = [distributed.owner(NAME), *(distributed.owner(NAME, n) for n in range(5))]
    assert len(set(owners)) == 3
    starts_before = distributed.starts(NAME)
    assert distributed.post(RESTART_ALL).status == 202
    distributed.advance_until_idle()
    assert distributed.starts(NAME) == tuple(count + 1 for count in starts_before)
    assert [distributed.owner(NAME), *(distributed.owner(NAME, n) for n in range(5))] == owners


def test_instance_that_fails_before_the_request_is_read_is_restarted(
    distributed: ThreeWorkers,
) -> None:
    """A follower reads the request late, after one of its tasks has failed.

    > However, if either of these instances were to fail before their assigned workers process the restart
    > request, they too would be restarted.

    > use the current connector status
    """
    distributed.create(NAME, tasks=5)
    leader = distributed.leader()
    task = next(n for n in range(5) if distributed.owner(NAME, n) != leader)
    late_worker, starts_before = distributed.owner(NAME, task), distributed.starts(NAME)
    distributed.freeze("config reader", url=late_worker)
    response = distributed.request("POST", RESTART_FAILED, via=leader)
    assert "RESTARTING" not in get_states(response.body), "no instance has failed yet"
    distributed.fail_task(NAME, task)
    distributed.scheduler.advance(1)
    distributed.freeze("config reader", url=late_worker, frozen=False)
    distributed.advance_until_idle()
    assert distributed.starts(NAME)[1 + task] == starts_before[1 + task] + 1
    assert distributed.states(NAME) == ["RUNNING"] * 6


def test_death_of_a_worker_before_reading_the_request_restarts_its_instances(
    distributed: ThreeWorkers,
) -> None:
    """The instances of the dead worker start on other workers, which is equivalent.

    > since the worker will subsequently attempt to start all of its assigned Connector and Task instances,
    > effectively achieving the goal of restarting the instances assigned to that worker.
    """
    distributed.create(NAME, tasks=5)
    leader = distributed.cluster.leader
    dying_worker = next(worker for worker in distributed.cluster.alive if worker is not leader)
    starts_before = distributed.starts(NAME)
    distributed.freeze("config reader", url=dying_worker.url)
    assert distributed.request("POST", RESTART_ALL, via=leader.url).status == 202
    distributed.cluster.kill(dying_worker)
    distributed.cluster.add()
    distributed.cluster.settle(30)
    assert all(
        later > earlier for later, earlier in zip(distributed.starts(NAME), starts_before, strict=True)
    )
    assert distributed.states(NAME) == ["RUNNING"] * 6


@pytest.mark.parametrize("change", ["more tasks", "joining worker"])
def test_restart_during_a_rebalance_runs_no_instance_twice(distributed: ThreeWorkers, change: str) -> None:
    """The simulated group checks after every step that no instance runs twice.

    > the herder will not concurrently process any assignment changes while it is executing the restart requests.
    """
    distributed.create(NAME, tasks=4)
    distributed.scheduler.advance(0.05 * distributed.seed)
    entry = restart_entry(RestartRequest(name=ConnectorName(NAME), include_tasks=True))
    if change == "more tasks":
        config = {**distributed.get(f"/connectors/{NAME}/config").body, "tasks.max": "6"}
        assert distributed.put(f"/connectors/{NAME}/config", config).status == 200
    else:
        distributed.cluster.add()
    for _ in range(5):
        distributed.config_log.append([entry])
        distributed.cluster.advance(0.1)
    distributed.cluster.settle(30)
    assert set(distributed.states(NAME)) == {"RUNNING"}


def collect_conflicts(connect: ThreeWorkers, path: str, via: str) -> set[str]:
    """Repeat a request while time advances; return the messages of all responses with status 409."""
    messages: set[str] = set()
    for _ in range(60):
        response = connect.request("POST", path, via=via)
        if response.status == 409:
            messages.add(response.body["message"])
        connect.cluster.advance(0.02)
    return messages


def test_restart_is_a_conflict_if_the_coordinator_is_lost_during_a_rebalance(
    distributed: ThreeWorkers,
) -> None:
    """A restart waits for the end of a rebalance, and is rejected if the coordinator becomes unavailable.

    > 409 CONFLICT when a rebalance is needed, forthcoming, or underway while restarting any of the Connector
    > and/or Task objects

    > or that the worker assigned the Connector cannot be found.
    """
    distributed.create(NAME, tasks=4)
    leader = distributed.leader()
    if distributed.owner(NAME) == leader:
        distributed.create("other", tasks=1)
    name = NAME if distributed.owner(NAME) != leader else "other"
    assert distributed.owner(name) != leader
    config = {**distributed.get(f"/connectors/{NAME}/config").body, "tasks.max": "6"}
    assert distributed.put(f"/connectors/{NAME}/config", config).status == 200
    assert distributed.request("POST", f"/connectors/{name}/restart", via=leader).status == 204, (
        "the restart must wait for the end of the rebalance"
    )
    assert distributed.put(f"/connectors/{NAME}/config", {**config, "tasks.max": "5"}).status == 200
    distributed.cluster.broker.stop()
    distributed.cluster.advance(30)
    messages = collect_conflicts(distributed, f"/connectors/{name}/restart", leader)
    assert messages
    assert all("momentarily" in text or "conflicting operation" in text for text in messages)
    distributed.cluster.broker.start()
    distributed.cluster.settle(60)
    assert distributed.request("POST", f"/connectors/{name}/restart", via=leader).status == 204


def test_restart_without_a_leader_fails(distributed: ThreeWorkers) -> None:
    """The group's coordinator is unavailable.

    > the reason may mention that the Connect cluster's leader is not known
    """
    distributed.create(NAME)
    distributed.cluster.broker.stop()
    distributed.cluster.advance(30)
    for url in distributed.workers():
        response = distributed.request("POST", RESTART_ALL, via=url)
        assert response.status == 409
        assert "no known leader URL" in response.body["message"]
        assert response.headers["retry-after"] == "1"
