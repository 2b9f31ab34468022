"""Tests that several herders (of one process, successive processes or a group) record every state once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actors.messages.herder import (
    GroupLost,
    PatchConfig,
    RestartConnector,
    RestartTask,
    SetLoggerLevel,
    SetTargetState,
)
from actors.runtime.mailbox import Ask
from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.config_replay import ConnectorChanged, TargetChanged, apply_config
from kraal.core.errors import ActorDied
from kraal.core.ids import Config, TargetState
from kraal.journal.authors import (
    ConfigWritten,
    InstanceRestarted,
    LoggerLevelSet,
)
from kraal.journal.events import EventKind
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.worker import EmbeddedWorker
from tests.unit.actors.journal_helpers import (
    CONFIG,
    NAME,
    SEEDS,
    T0,
    T1,
    USER,
    entries,
    events,
    explained_states,
    journal,
    recorded_states,
    running_worker,
    stored_states,
)


class TestLaterProcess:
    """Tests for a worker that reads statuses written by an earlier process."""

    def test_stored_states_are_recorded_once(self) -> None:
        earlier_worker = running_worker()
        earlier_worker.fake.fail(T0, "OSError: no disk")
        earlier_worker.run()
        earlier_worker.close()
        worker = EmbeddedWorker(
            config_log=earlier_worker.config_log,
            status_log=earlier_worker.status_log,
            offsets=earlier_worker.offsets,
        )
        for instance in (NAME, T0, T1):
            causes = [entry.cause for entry in entries(worker, instance)]
            assert (causes[0], causes.count("as stored")) == ("as stored", 1)
        assert explained_states(worker, T0)[0][0] == "UNASSIGNED"
        assert events(worker, EventKind.STATE) != []
        assert "as stored" not in str(journal(worker).events.after(None, 1_000))
        assert events(worker, EventKind.CONFIG) == []

    def test_instances_left_running_by_a_previous_process_are_explained(self) -> None:
        earlier_worker = running_worker()
        log = earlier_worker.status_log  # the process was killed, so it wrote no further statuses
        worker = EmbeddedWorker(
            config_log=earlier_worker.config_log, status_log=log, offsets=earlier_worker.offsets
        )
        assert [(state, cause) for state, cause, _ in explained_states(worker, T0)] == [
            ("RUNNING", "as stored"),
            ("UNASSIGNED", "its worker exited without stopping it"),
            ("RUNNING", "started"),
        ]

    def test_time_of_a_stored_config_is_recorded(self) -> None:
        earlier_worker = running_worker()
        worker = EmbeddedWorker(config_log=earlier_worker.config_log, status_log=earlier_worker.status_log)
        last_write = journal(worker).configs.last_write(NAME)
        original_write = journal(earlier_worker).configs.last_write(NAME)
        assert last_write is not None
        assert original_write is not None
        assert (last_write.ms, last_write.by) == (original_write.ms, "")


STEPS: Sequence[Ask[Any]] = (
    PatchConfig(name=NAME, patch={"tasks.max": "3"}),
    RestartConnector(name=NAME, include_tasks=True, only_failed=False),
    SetTargetState(name=NAME, target=TargetState.PAUSED),
    SetTargetState(name=NAME, target=TargetState.STARTED),
    RestartTask(task=T0),
)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("deaths", [1, 4])
def test_herder_death_neither_loses_nor_duplicates_states(seed: int, deaths: int) -> None:
    worker = running_worker(seed)
    for number, step in enumerate(STEPS):
        future = worker.assembly.herder.question(step)
        for _ in range(3 * seed):
            worker.scheduler.step()
        if number < deaths:
            worker.crash("herder")
        worker.advance(10)
        assert future.done()
    worker.fake.fail(T1, "OSError: no disk")
    worker.run()
    expected = stored_states(worker.status_log)
    assert expected.keys() >= {NAME, T0, T1}
    for instance, states in expected.items():
        assert recorded_states(worker, instance) == states
    restarts = [text for text, _ in events(worker, EventKind.WORKER) if "restarted" in text]
    assert len(restarts) == deaths
    config_events = apply_config(ClusterState(), worker.config_log.read(0, 100_000)).events
    changes = [event for event in config_events if isinstance(event, ConnectorChanged | TargetChanged)]
    assert len(events(worker, EventKind.CONFIG) + events(worker, EventKind.TARGET)) == len(changes)


def test_author_of_an_unread_effect_survives_the_herder() -> None:
    worker = running_worker()
    patch: Config = {"topic": "other"}
    [reader] = [address for address in worker.scheduler.addresses() if address.name == "config reader"]
    worker.scheduler.freeze(reader)
    request = worker.assembly.herder.question(PatchConfig(name=NAME, patch=patch))
    worker.run()  # the record is written, but has not been read
    worker.crash("herder")
    worker.run()
    with pytest.raises(ActorDied), journal(worker).authors.asking(ConfigWritten(NAME, patch), USER):
        request.result(timeout=0)
    worker.scheduler.freeze(reader, frozen=False)
    worker.advance(10)
    assert explained_states(worker, NAME)[-1] == ("RUNNING", "config changed", USER)
    assert events(worker, EventKind.CONFIG)[1:] == [("config changed: topic", USER)]
    assert [version.changed for version in journal(worker).configs.read(NAME).entries] == [("topic",)]


def wait_until_settled(cluster: EmbeddedCluster) -> None:
    """Wait until all instances run and every worker has read their statuses."""
    cluster.settle(within_s=60)
    cluster.advance(5)


class TestCluster:
    """Tests that each worker records all states, but local causes are recorded on one worker only."""

    @staticmethod
    def cluster(seed: int = 0, workers: int = 2) -> EmbeddedCluster:
        cluster = EmbeddedCluster(workers, seed=seed)
        cluster.settle()
        cluster.create(NAME, CONFIG)
        wait_until_settled(cluster)
        return cluster

    @pytest.mark.parametrize("seed", SEEDS)
    def test_every_worker_records_the_same_states(self, seed: int) -> None:
        cluster = self.cluster(seed)
        for step in STEPS:
            cluster.request(step)
            wait_until_settled(cluster)
        expected = stored_states(cluster.status_log)
        for worker in cluster.alive:
            for instance, states in expected.items():
                assert recorded_states(worker, instance) == states

    @pytest.mark.parametrize("seed", SEEDS)
    def test_author_is_recorded_on_workers_that_received_the_request(self, seed: int) -> None:
        cluster = self.cluster(seed)
        leader = cluster.leader
        [follower] = [worker for worker in cluster.alive if worker is not leader]
        restart = RestartConnector(name=NAME, include_tasks=True, only_failed=False)
        with journal(leader).authors.asking(InstanceRestarted(NAME, include_tasks=True), USER):
            cluster.request(restart, via=leader)  # the request completes when the record is read
        wait_until_settled(cluster)
        assert explained_states(leader, T0)[-1] == ("RUNNING", "restarted", USER)
        assert explained_states(follower, T0)[-1] == ("RUNNING", "restarted", "another worker")

    @pytest.mark.parametrize("seed", SEEDS)
    def test_author_of_a_forwarded_task_restart_is_recorded(self, seed: int) -> None:
        cluster = self.cluster(seed)
        [owner] = [worker for worker in cluster.alive if T0 in worker.engine.running]
        [other_worker] = [worker for worker in cluster.alive if worker is not owner]
        with journal(other_worker).authors.asking(InstanceRestarted(T0), USER) as keep_author:
            cluster.request(RestartTask(task=T0), via=other_worker)
            keep_author()
        wait_until_settled(cluster)
        assert explained_states(other_worker, T0)[-2:] == [
            ("UNASSIGNED", "restarted", USER),
            ("RUNNING", "restarted", USER),
        ]
        assert explained_states(owner, T0)[-1] == ("RUNNING", "restarted", "")

    @pytest.mark.parametrize("seed", SEEDS)
    def test_leaving_and_joining_workers_are_rebalance_reasons(self, seed: int) -> None:
        cluster = self.cluster(seed)
        leader = cluster.leader
        [follower] = [worker for worker in cluster.alive if worker is not leader]
        cluster.kill(follower)
        wait_until_settled(cluster)
        moved_instances = [instance for instance in (NAME, T0, T1) if len(entries(leader, instance)) > 1]
        assert moved_instances
        for instance in moved_instances:
            state, cause, _ = explained_states(leader, instance)[-1]
            assert state == "RUNNING"
            assert cause.startswith("assigned in generation ")
            assert "left: http://" in cause
        cluster.add()
        wait_until_settled(cluster)
        revoked_entries = [
            entry
            for instance in (NAME, T0, T1)
            for entry in entries(leader, instance)
            if entry.cause == "revoked in a rebalance"
        ]
        assert revoked_entries
        assert {entry.state for entry in revoked_entries} == {"UNASSIGNED"}
        assert any("joined: http://" in text for text, _ in events(leader, EventKind.REBALANCE))

    def test_loss_of_the_group_is_an_event(self) -> None:
        cluster = self.cluster()
        [worker, _] = cluster.alive
        worker.assembly.herder.tell(GroupLost("the broker does not respond"))
        cluster.advance(0.1)
        assert events(worker, EventKind.REBALANCE)[-1] == (
            "lost membership of the group: the broker does not respond",
            "",
        )

    def test_cluster_wide_log_level_is_an_event(self) -> None:
        cluster = self.cluster()
        first_worker, second_worker = cluster.alive
        with journal(first_worker).authors.asking(LoggerLevelSet("kraal.x"), USER):
            cluster.request(SetLoggerLevel(namespace="kraal.x", level="DEBUG"), via=first_worker)
        cluster.advance(5)
        assert events(first_worker, EventKind.LOGGER) == [("The level of kraal.x was set to DEBUG", USER)]
        assert events(second_worker, EventKind.LOGGER) == [
            ("The level of kraal.x was set to DEBUG", "another worker")
        ]
