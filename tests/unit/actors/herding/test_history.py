"""What the herder writes into the journal: every state once, with its cause and who asked for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actors.messages.herder import (
    DeleteConnector,
    GroupLost,
    PatchConfig,
    RestartConnector,
    RestartTask,
    SetLoggerLevel,
    SetTargetState,
)
from actors.messages.offsets import ResetOffsets
from actors.runtime.mailbox import Ask
from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.config_replay import ConnectorChanged, TargetChanged, apply_config
from kraal.cluster.state.status_replay import apply_status
from kraal.cluster.state.statuses import StatusState
from kraal.core.ids import Config, ConnectorName, Instance, State, TargetState, TaskId, connector_of
from kraal.journal.authors import (
    ConfigWritten,
    Deleted,
    Effect,
    LevelSet,
    OffsetsChanged,
    Restarted,
    TargetSet,
)
from kraal.journal.causes import REMOVED
from kraal.journal.events import EventKind
from kraal.journal.journal import Journal
from kraal.journal.states import StateEntry
from kraal.protocol.status_records import Status
from kraal.stores.api import Log
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.cluster_worker import ClusterWorker
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
T0, T1, T2 = (TaskId(NAME, number) for number in range(3))
CONFIG: dict[str, str | None] = {"connector.class": FAKE_SOURCE, "tasks.max": "2"}
SEEDS = range(6)
USER = "PUT from 10.0.0.7"


def journal(worker: EmbeddedWorker | ClusterWorker) -> Journal:
    return worker.assembly.journal


def entries(worker: EmbeddedWorker | ClusterWorker, instance: Instance) -> list[StateEntry]:
    task = instance.task if isinstance(instance, TaskId) else None
    kept = journal(worker).states.kept(connector_of(instance)).entries
    return [entry for entry in kept if entry.task == task]


def told(worker: EmbeddedWorker | ClusterWorker, instance: Instance) -> list[tuple[str, str, str]]:
    """Return the states of an instance with their causes and authors."""
    return [(entry.state, entry.cause, entry.by) for entry in entries(worker, instance)]


def events(worker: EmbeddedWorker | ClusterWorker, kind: EventKind) -> list[tuple[str, str]]:
    found = journal(worker).events.after(None, 10_000)
    return [(event.text, event.by) for event in found if event.kind is kind]


def asked(worker: EmbeddedWorker, message: Ask[Any], effect: Effect, by: str = USER) -> None:
    """Ask as REST does for a user, and let the worker come to rest."""
    with journal(worker).authors.asking(effect, by):
        worker.ask(message)
    worker.run()


def running(seed: int = 0, **properties: str) -> EmbeddedWorker:
    worker = EmbeddedWorker(seed=seed, properties=properties)
    with journal(worker).authors.asking(ConfigWritten(NAME, CONFIG), "POST from 10.0.0.1"):
        worker.create(NAME, CONFIG)
    return worker


class TestCauses:
    """Of one worker."""

    @pytest.mark.parametrize("seed", SEEDS)
    def test_of_a_creation(self, seed: int) -> None:
        worker = running(seed)
        for each in (NAME, T0, T1):
            assert told(worker, each) == [("RUNNING", "created", "POST from 10.0.0.1")]
        assert events(worker, EventKind.CONFIG) == [("created", "POST from 10.0.0.1")]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_of_a_changed_config(self, seed: int) -> None:
        worker = running(seed)
        patch: Config = {"tasks.max": "3", "topic": "numbers"}
        asked(worker, PatchConfig(name=NAME, patch=patch), ConfigWritten(NAME, patch))
        for each in (NAME, T0, T1):
            assert told(worker, each)[1:] == [
                ("UNASSIGNED", "config changed", USER),
                ("RUNNING", "config changed", USER),
            ]
        assert told(worker, T2) == [("RUNNING", "config changed", USER)]
        assert events(worker, EventKind.CONFIG)[1:] == [("config changed: tasks.max, topic", USER)]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_of_a_pause_a_resume_and_a_stop(self, seed: int) -> None:
        worker = running(seed)
        for target in (TargetState.PAUSED, TargetState.STARTED, TargetState.STOPPED, TargetState.STARTED):
            by = f"PUT {target} from 10.0.0.7"
            asked(worker, SetTargetState(name=NAME, target=target), TargetSet(NAME, target), by)
        words = [
            ("PAUSED", "paused", "PUT PAUSED from 10.0.0.7"),
            ("RUNNING", "resumed", "PUT STARTED from 10.0.0.7"),
            ("STOPPED", "stopped", "PUT STOPPED from 10.0.0.7"),
            ("RUNNING", "resumed", "PUT STARTED from 10.0.0.7"),
        ]
        assert told(worker, NAME)[1:] == words
        removed = ("REMOVED", "stopped", "PUT STOPPED from 10.0.0.7")
        assert told(worker, T0)[1:] == [*words[:2], removed, words[3]]
        assert events(worker, EventKind.TARGET) == [(text, by) for _, text, by in words]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_of_restarts(self, seed: int) -> None:
        worker = running(seed)
        restart = RestartConnector(name=NAME, include_tasks=True, only_failed=False)
        asked(worker, restart, Restarted(NAME, include_tasks=True))
        asked(worker, RestartTask(task=T0), Restarted(T0), "POST from 10.0.0.8")
        both = [("RESTARTING", "restarted", USER), ("RUNNING", "restarted", USER)]
        plain = [
            ("UNASSIGNED", "restarted", "POST from 10.0.0.8"),
            ("RUNNING", "restarted", "POST from 10.0.0.8"),
        ]
        assert told(worker, NAME)[1:] == told(worker, T1)[1:] == both
        assert told(worker, T0)[1:] == both + plain
        assert events(worker, EventKind.RESTART) == [
            ("restart of 3 instances requested", USER),
            ("restart requested", "POST from 10.0.0.8"),
        ]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_of_a_failure_and_its_automatic_restart(self, seed: int) -> None:
        worker = running(seed, **{"errors.auto.restart": "task", "errors.auto.restart.max": "1"})
        for _ in range(2):
            worker.fake.fail(T0, "OSError: no disk\n  at line 1")
            worker.run()
            worker.advance(60)
        failed = ("FAILED", "OSError: no disk", "")
        text = "automatic restart 1 of at most 1 within 3600 s"
        assert told(worker, T0)[1:] == [
            failed,
            ("RESTARTING", text, "this worker"),
            ("RUNNING", text, "this worker"),
            failed,
        ]
        assert entries(worker, T0)[-1].trace == "OSError: no disk\n  at line 1"
        assert events(worker, EventKind.AUTO_RESTART) == [(f"{text}: OSError: no disk", "this worker")]
        [(why, by)] = events(worker, EventKind.GIVEN_UP)
        assert why.endswith("(OSError: no disk)")
        assert by == "this worker"

    def test_of_a_loss_of_spark(self) -> None:
        worker = running()
        worker.fake.lose("Spark's JVM ended")
        worker.run()
        worker.fake.recover()
        worker.run()
        assert told(worker, T0)[1:] == [
            ("FAILED", "Spark's JVM ended", ""),
            ("RUNNING", "recovered without a restart", ""),
        ]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_of_a_deletion(self, seed: int) -> None:
        worker = running(seed)
        asked(worker, DeleteConnector(name=NAME), Deleted(NAME))
        for each in (NAME, T0, T1):
            assert [entry for entry in told(worker, each)[1:] if entry[0] == REMOVED] == [
                ("REMOVED", "deleted", USER)
            ]
        assert events(worker, EventKind.CONFIG)[1:] == [("deleted", USER)]

    def test_of_changed_offsets_and_levels(self) -> None:
        worker = running()
        stop = SetTargetState(name=NAME, target=TargetState.STOPPED)
        asked(worker, stop, TargetSet(NAME, TargetState.STOPPED))
        asked(worker, ResetOffsets(name=NAME), OffsetsChanged(NAME))
        assert events(worker, EventKind.OFFSETS) == [("offsets reset", USER)]

    def test_without_an_author_nobody_is_named(self) -> None:
        worker = EmbeddedWorker()
        worker.create(NAME, CONFIG)
        worker.ask(RestartTask(task=T0))
        worker.run()
        assert {by for each in (NAME, T0, T1) for _, _, by in told(worker, each)} == {""}

    def test_a_shutdown_is_a_cause(self) -> None:
        worker = running()
        worker.close()
        worker.run()
        for each in (NAME, T0, T1):
            assert told(worker, each)[1:] == [("UNASSIGNED", "its worker was shut down", "")]
        assert events(worker, EventKind.WORKER)[-1][0] == "The worker shuts down"


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

    def test_what_an_earlier_process_left_running_is_explained(self) -> None:
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
        found = journal(worker).configs.written(NAME)
        known = journal(before).configs.written(NAME)
        assert found is not None
        assert known is not None
        assert (found.ms, found.by) == (known.ms, "")


class TestConfigs:
    """Versions that others replace."""

    def test_they_have_their_authors_and_no_secrets(self) -> None:
        worker = running()
        for number in range(2):
            patch: Config = {"my.password": f"secret-{number}", "n": str(number)}
            by = f"PATCH {number}"
            asked(worker, PatchConfig(name=NAME, patch=patch), ConfigWritten(NAME, patch), by)
        first, second = journal(worker).configs.kept(NAME).entries
        assert first.written.by == "POST from 10.0.0.1"
        assert first.changed == ("my.password", "n")
        assert (second.written.by, second.changed) == ("PATCH 0", ("my.password", "n"))
        assert second.config["my.password"] == "[hidden]"
        assert "secret-" not in str(journal(worker).configs.kept(NAME))
        current = journal(worker).configs.written(NAME)
        assert current is not None
        assert current.by == "PATCH 1"

    def test_a_deleted_connector_leaves_its_last_config(self) -> None:
        worker = running()
        asked(worker, DeleteConnector(name=NAME), Deleted(NAME))
        [last] = journal(worker).configs.kept(NAME).entries
        assert last.config["tasks.max"] == "2"
        assert journal(worker).configs.written(NAME) is None


def stored(log: Log) -> dict[Instance, list[tuple[str, str, int, str | None]]]:
    """Return the states of all instances as the status log has them, without repetitions."""
    found: dict[Instance, list[tuple[str, str, int, str | None]]] = {}
    latest: dict[Instance, Status] = {}
    state = StatusState()
    for record in log.read(0, 100_000):
        reduced = apply_status(state, [record])
        state = reduced.state
        for instance, status, _ in reduced.applied:
            before = latest.pop(instance, None)
            shown = status or before
            if shown is None:
                continue
            of = (shown.worker_id, int(shown.generation), None if status is None else shown.trace)
            entry = (REMOVED if status is None else str(shown.state), *of)
            if not found.setdefault(instance, []) or found[instance][-1] != entry:
                found[instance].append(entry)
            if status is not None:
                latest[instance] = status
    return found


def recorded(
    worker: EmbeddedWorker | ClusterWorker, instance: Instance
) -> list[tuple[str, str, int, str | None]]:
    return [
        (entry.state, entry.worker_id, entry.generation, entry.trace) for entry in entries(worker, instance)
    ]


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
    with journal(worker).authors.asking(ConfigWritten(NAME, patch), USER):
        worker.scheduler.freeze(worker.assembly.herder, frozen=False)
        [reader] = [each for each in worker.scheduler.addresses() if each.name == "config reader"]
        worker.scheduler.freeze(reader)
        worker.assembly.herder.question(PatchConfig(name=NAME, patch=patch))
        worker.run()  # written, and not yet read
        worker.crash("herder")
        worker.run()
    worker.scheduler.freeze(reader, frozen=False)
    worker.advance(10)
    assert told(worker, NAME)[-1] == ("RUNNING", "config changed", USER)
    assert events(worker, EventKind.CONFIG)[1:] == [("config changed: topic", USER)]
    assert [each.changed for each in journal(worker).configs.kept(NAME).entries] == [("topic",)]


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
            cluster.request(restart, via=leader)
        at_rest(cluster)
        assert told(leader, T0)[-1] == ("RUNNING", "restarted", USER)
        assert told(follower, T0)[-1] == ("RUNNING", "restarted", "another worker")

    @pytest.mark.parametrize("seed", SEEDS)
    def test_a_forwarded_restart_of_a_task_has_its_author_on_the_way(self, seed: int) -> None:
        cluster = self.cluster(seed)
        [owner] = [worker for worker in cluster.alive if T0 in worker.engine.running]
        [other] = [worker for worker in cluster.alive if worker is not owner]
        with journal(other).authors.asking(Restarted(T0), USER):
            cluster.request(RestartTask(task=T0), via=other)
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


def test_a_disabled_journal_stays_empty() -> None:
    worker = EmbeddedWorker(properties={"rest.history.max.bytes": "0"})
    worker.create(NAME, CONFIG)
    assert worker.states(NAME) == [State.RUNNING] * 3
    assert entries(worker, NAME) == []
    assert journal(worker).events.after(None, 10) == ()
