"""What several herders write into a journal: of one process, of two, or of a group. Every state once."""

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
    LevelSet,
    Restarted,
)
from kraal.journal.events import EventKind
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.worker import EmbeddedWorker
from tests.unit.actors.journal_of import (
    CONFIG,
    NAME,
    SEEDS,
    T0,
    T1,
    USER,
    entries,
    events,
    journal,
    recorded,
    running,
    stored,
    told,
)


class TestOfALaterProcess:
    """The log has the states of an earlier one."""

    def test_states_are_as_stored_one_each(self) -> None:
        before = running()
        before.fake.fail(T0, "OSError: no disk")
        before.run()
        before.close()
        worker = EmbeddedWorker(
            config_log=before.config_log, status_log=before.status_log, offsets=before.offsets
        )
        for each in (NAME, T0, T1):
            causes = [entry.cause for entry in entries(worker, each)]
            assert (causes[0], causes.count("as stored")) == ("as stored", 1)
        assert told(worker, T0)[0][0] == "UNASSIGNED"
        assert events(worker, EventKind.STATE) != []
        assert "as stored" not in str(journal(worker).events.after(None, 1_000))
        assert events(worker, EventKind.CONFIG) == []

    def test_instances_left_running_by_a_previous_process_are_explained(self) -> None:
        before = running()
        log = before.status_log  # the process is killed: no more statuses
        worker = EmbeddedWorker(config_log=before.config_log, status_log=log, offsets=before.offsets)
        assert [(state, cause) for state, cause, _ in told(worker, T0)] == [
            ("RUNNING", "as stored"),
            ("UNASSIGNED", "its worker had ended without stopping it"),
            ("RUNNING", "started"),
        ]

    def test_the_time_of_its_config_is_known(self) -> None:
        before = running()
        worker = EmbeddedWorker(config_log=before.config_log, status_log=before.status_log)
        found = journal(worker).configs.last_write(NAME)
        known = journal(before).configs.last_write(NAME)
        assert found is not None
        assert known is not None
        assert (found.ms, found.by) == (known.ms, "")


STEPS: Sequence[Ask[Any]] = (
    PatchConfig(name=NAME, patch={"tasks.max": "3"}),
    RestartConnector(name=NAME, include_tasks=True, only_failed=False),
    SetTargetState(name=NAME, target=TargetState.PAUSED),
    SetTargetState(name=NAME, target=TargetState.STARTED),
    RestartTask(task=T0),
)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("deaths", [1, 4])
def test_the_death_of_a_herder_loses_no_state_and_doubles_none(seed: int, deaths: int) -> None:
    worker = running(seed)
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
    expected = stored(worker.status_log)
    assert expected.keys() >= {NAME, T0, T1}
    for instance, states in expected.items():
        assert recorded(worker, instance) == states
    restarts = [text for text, _ in events(worker, EventKind.WORKER) if "restarted" in text]
    assert len(restarts) == deaths
    written = apply_config(ClusterState(), worker.config_log.read(0, 100_000)).events
    changes = [event for event in written if isinstance(event, ConnectorChanged | TargetChanged)]
    assert len(events(worker, EventKind.CONFIG) + events(worker, EventKind.TARGET)) == len(changes)


def test_a_herder_that_dies_before_it_reads_an_effect_leaves_its_author_to_the_next() -> None:
    worker = running()
    patch: Config = {"topic": "other"}
    [reader] = [each for each in worker.scheduler.addresses() if each.name == "config reader"]
    worker.scheduler.freeze(reader)
    answer = worker.assembly.herder.question(PatchConfig(name=NAME, patch=patch))
    worker.run()  # written, and not yet read
    worker.crash("herder")
    worker.run()
    with pytest.raises(ActorDied), journal(worker).authors.asking(ConfigWritten(NAME, patch), USER):
        answer.result(timeout=0)
    worker.scheduler.freeze(reader, frozen=False)
    worker.advance(10)
    assert told(worker, NAME)[-1] == ("RUNNING", "config changed", USER)
    assert events(worker, EventKind.CONFIG)[1:] == [("config changed: topic", USER)]
    assert [each.changed for each in journal(worker).configs.read(NAME).entries] == [("topic",)]


def at_rest(cluster: EmbeddedCluster) -> None:
    """Wait until everything runs, and every worker has read it."""
    cluster.settle(within_s=60)
    cluster.advance(5)


class TestOfACluster:
    """Each worker sees all states; causes that only one knows are on its page."""

    @staticmethod
    def cluster(seed: int = 0, workers: int = 2) -> EmbeddedCluster:
        cluster = EmbeddedCluster(workers, seed=seed)
        cluster.settle()
        cluster.create(NAME, CONFIG)
        at_rest(cluster)
        return cluster

    @pytest.mark.parametrize("seed", SEEDS)
    def test_every_worker_records_the_same_states(self, seed: int) -> None:
        cluster = self.cluster(seed)
        for step in STEPS:
            cluster.request(step)
            at_rest(cluster)
        expected = stored(cluster.status_log)
        for worker in cluster.alive:
            for instance, states in expected.items():
                assert recorded(worker, instance) == states

    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_request_has_its_author_on_the_workers_that_got_it(self, seed: int) -> None:
        cluster = self.cluster(seed)
        leader = cluster.leader
        [follower] = [worker for worker in cluster.alive if worker is not leader]
        restart = RestartConnector(name=NAME, include_tasks=True, only_failed=False)
        with journal(leader).authors.asking(Restarted(NAME, include_tasks=True), USER):
            cluster.request(restart, via=leader)  # answered when it was read
        at_rest(cluster)
        assert told(leader, T0)[-1] == ("RUNNING", "restarted", USER)
        assert told(follower, T0)[-1] == ("RUNNING", "restarted", "another worker")

    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_forwarded_restart_of_a_task_has_its_author_on_the_way(self, seed: int) -> None:
        cluster = self.cluster(seed)
        [owner] = [worker for worker in cluster.alive if T0 in worker.engine.running]
        [other] = [worker for worker in cluster.alive if worker is not owner]
        with journal(other).authors.asking(Restarted(T0), USER) as stay:
            cluster.request(RestartTask(task=T0), via=other)
            stay()
        at_rest(cluster)
        assert told(other, T0)[-2:] == [("UNASSIGNED", "restarted", USER), ("RUNNING", "restarted", USER)]
        assert told(owner, T0)[-1] == ("RUNNING", "restarted", "")

    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_worker_that_dies_and_one_that_joins_are_reasons(self, seed: int) -> None:
        cluster = self.cluster(seed)
        leader = cluster.leader
        [follower] = [worker for worker in cluster.alive if worker is not leader]
        cluster.kill(follower)
        at_rest(cluster)
        moved = [each for each in (NAME, T0, T1) if len(entries(leader, each)) > 1]
        assert moved
        for each in moved:
            state, cause, _ = told(leader, each)[-1]
            assert state == "RUNNING"
            assert cause.startswith("assigned in generation ")
            assert "left: http://" in cause
        cluster.add()
        at_rest(cluster)
        given_up = [
            entry
            for each in (NAME, T0, T1)
            for entry in entries(leader, each)
            if entry.cause == "given up for a rebalance"
        ]
        assert given_up
        assert {entry.state for entry in given_up} == {"UNASSIGNED"}
        assert any("joined: http://" in text for text, _ in events(leader, EventKind.REBALANCE))

    def test_a_lost_group_is_an_event(self) -> None:
        cluster = self.cluster()
        [worker, _] = cluster.alive
        worker.assembly.herder.tell(GroupLost("the broker does not answer"))
        cluster.advance(0.1)
        assert events(worker, EventKind.REBALANCE)[-1] == (
            "lost membership of the group: the broker does not answer",
            "",
        )

    def test_a_level_of_all_workers_is_an_event(self) -> None:
        cluster = self.cluster()
        first, second = cluster.alive
        with journal(first).authors.asking(LevelSet("kraal.x"), USER):
            cluster.request(SetLoggerLevel(namespace="kraal.x", level="DEBUG"), via=first)
        cluster.advance(5)
        assert events(first, EventKind.LOGGER) == [("The level of kraal.x was set to DEBUG", USER)]
        assert events(second, EventKind.LOGGER) == [
            ("The level of kraal.x was set to DEBUG", "another worker")
        ]
