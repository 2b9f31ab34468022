"""Tests for the herder's journal entries, which contain the cause and the author of every state."""

from __future__ import annotations

import pytest

from actors.herding.history import History
from actors.messages.herder import (
    DeleteConnector,
    PatchConfig,
    RestartConnector,
    RestartTask,
    SetTargetState,
)
from actors.messages.offsets import ResetOffsets
from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.config_replay import ConfigReplayResult, ConnectorChanged
from kraal.cluster.state.statuses import StatusState
from kraal.core.ids import Config, State, TargetState, WorkerId
from kraal.journal.authors import (
    ConfigWritten,
    ConnectorDeleted,
    InstanceRestarted,
    OffsetsChanged,
    TargetStateSet,
)
from kraal.journal.causes import REMOVED
from kraal.journal.events import EventKind
from kraal.journal.journal import Journal
from kraal.testing._simulation.worker import EmbeddedWorker
from tests.unit.actors.journal_helpers import (
    CONFIG,
    NAME,
    SEEDS,
    T0,
    T1,
    T2,
    USER,
    entries,
    events,
    explained_states,
    journal,
    running_worker,
    send_request,
)


class TestCauses:
    """Tests for causes on one worker."""

    @pytest.mark.parametrize("seed", SEEDS)
    def test_creation_is_recorded_with_states_and_author(self, seed: int) -> None:
        worker = running_worker(seed)
        for instance in (NAME, T0, T1):
            assert explained_states(worker, instance) == [("RUNNING", "created", "POST from 10.0.0.1")]
        assert events(worker, EventKind.CONFIG) == [("created", "POST from 10.0.0.1")]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_config_change_is_recorded(self, seed: int) -> None:
        worker = running_worker(seed)
        patch: Config = {"tasks.max": "3", "topic": "numbers"}
        send_request(worker, PatchConfig(name=NAME, patch=patch), ConfigWritten(NAME, patch))
        for instance in (NAME, T0, T1):
            assert explained_states(worker, instance)[1:] == [
                ("UNASSIGNED", "config changed", USER),
                ("RUNNING", "config changed", USER),
            ]
        assert explained_states(worker, T2) == [("RUNNING", "config changed", USER)]
        assert events(worker, EventKind.CONFIG)[1:] == [("config changed: tasks.max, topic", USER)]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_target_states_are_recorded(self, seed: int) -> None:
        worker = running_worker(seed)
        for target in (TargetState.PAUSED, TargetState.STARTED, TargetState.STOPPED, TargetState.STARTED):
            by = f"PUT {target} from 10.0.0.7"
            send_request(worker, SetTargetState(name=NAME, target=target), TargetStateSet(NAME, target), by)
        expected = [
            ("PAUSED", "paused", "PUT PAUSED from 10.0.0.7"),
            ("RUNNING", "resumed", "PUT STARTED from 10.0.0.7"),
            ("STOPPED", "stopped", "PUT STOPPED from 10.0.0.7"),
            ("RUNNING", "resumed", "PUT STARTED from 10.0.0.7"),
        ]
        assert explained_states(worker, NAME)[1:] == expected
        removal = ("REMOVED", "stopped", "PUT STOPPED from 10.0.0.7")
        assert explained_states(worker, T0)[1:] == [*expected[:2], removal, expected[3]]
        assert events(worker, EventKind.TARGET) == [(text, by) for _, text, by in expected]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_restarts_are_recorded(self, seed: int) -> None:
        worker = running_worker(seed)
        restart = RestartConnector(name=NAME, include_tasks=True, only_failed=False)
        send_request(worker, restart, InstanceRestarted(NAME, include_tasks=True))
        send_request(worker, RestartTask(task=T0), InstanceRestarted(T0), "POST from 10.0.0.8")
        connector_restart = [("RESTARTING", "restarted", USER), ("RUNNING", "restarted", USER)]
        task_restart = [
            ("UNASSIGNED", "restarted", "POST from 10.0.0.8"),
            ("RUNNING", "restarted", "POST from 10.0.0.8"),
        ]
        assert explained_states(worker, NAME)[1:] == explained_states(worker, T1)[1:] == connector_restart
        assert explained_states(worker, T0)[1:] == connector_restart + task_restart
        assert events(worker, EventKind.RESTART) == [
            ("restart of 3 instances requested", USER),
            ("restart requested", "POST from 10.0.0.8"),
        ]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_failure_and_automatic_restart_are_recorded(self, seed: int) -> None:
        worker = running_worker(seed, **{"errors.auto.restart": "task", "errors.auto.restart.max": "1"})
        for _ in range(2):
            worker.fake.fail(T0, "OSError: no disk\n  at line 1")
            worker.run()
            worker.advance(60)
        failure = ("FAILED", "OSError: no disk", "")
        text = "automatic restart 1 of at most 1 within 3600 s"
        assert explained_states(worker, T0)[1:] == [
            failure,
            ("RESTARTING", text, "this worker"),
            ("RUNNING", text, "this worker"),
            failure,
        ]
        assert entries(worker, T0)[-1].trace == "OSError: no disk\n  at line 1"
        assert events(worker, EventKind.AUTO_RESTART) == [(f"{text}: OSError: no disk", "this worker")]
        [(reason, by)] = events(worker, EventKind.GIVEN_UP)
        assert reason.endswith("(OSError: no disk)")
        assert by == "this worker"

    def test_loss_of_spark_is_recorded(self) -> None:
        worker = running_worker()
        worker.fake.lose("Spark's JVM ended")
        worker.run()
        worker.fake.recover()
        worker.run()
        assert explained_states(worker, T0)[1:] == [
            ("FAILED", "Spark's JVM ended", ""),
            ("RUNNING", "recovered without a restart", ""),
        ]

    @pytest.mark.parametrize("seed", SEEDS)
    def test_deletion_is_recorded(self, seed: int) -> None:
        worker = running_worker(seed)
        send_request(worker, DeleteConnector(name=NAME), ConnectorDeleted(NAME))
        for instance in (NAME, T0, T1):
            assert [entry for entry in explained_states(worker, instance)[1:] if entry[0] == REMOVED] == [
                ("REMOVED", "deleted", USER)
            ]
        assert events(worker, EventKind.CONFIG)[1:] == [("deleted", USER)]

    def test_offset_reset_is_recorded(self) -> None:
        worker = running_worker()
        stop = SetTargetState(name=NAME, target=TargetState.STOPPED)
        send_request(worker, stop, TargetStateSet(NAME, TargetState.STOPPED))
        send_request(worker, ResetOffsets(name=NAME), OffsetsChanged(NAME))
        assert events(worker, EventKind.OFFSETS) == [("offsets reset", USER)]

    def test_states_without_a_rest_request_have_no_author(self) -> None:
        worker = EmbeddedWorker()
        worker.create(NAME, CONFIG)
        worker.ask(RestartTask(task=T0))
        worker.run()
        assert {by for instance in (NAME, T0, T1) for _, _, by in explained_states(worker, instance)} == {""}

    def test_shutdown_is_recorded_as_a_cause(self) -> None:
        worker = running_worker()
        worker.close()
        worker.run()
        for instance in (NAME, T0, T1):
            assert explained_states(worker, instance)[1:] == [("UNASSIGNED", "its worker was shut down", "")]
        assert events(worker, EventKind.WORKER)[-1][0] == "The worker is shutting down"


class TestConfigs:
    """Tests for the recorded versions of configs that were replaced."""

    def test_configs_contain_authors_but_no_secrets(self) -> None:
        worker = running_worker()
        for number in range(2):
            patch: Config = {"my.password": f"secret-{number}", "n": str(number)}
            by = f"PATCH {number}"
            send_request(worker, PatchConfig(name=NAME, patch=patch), ConfigWritten(NAME, patch), by)
        first_version, second_version = journal(worker).configs.read(NAME).entries
        assert first_version.write.by == "POST from 10.0.0.1"
        assert first_version.changed == ("my.password", "n")
        assert (second_version.write.by, second_version.changed) == ("PATCH 0", ("my.password", "n"))
        assert second_version.to_json(())["config"] == {**second_version.config, "my.password": "[hidden]"}
        assert "secret-" not in str(journal(worker).configs.read(NAME))
        last_write = journal(worker).configs.last_write(NAME)
        assert last_write is not None
        assert last_write.by == "PATCH 1"

    def test_last_config_of_a_deleted_connector_is_kept(self) -> None:
        worker = running_worker()
        send_request(worker, DeleteConnector(name=NAME), ConnectorDeleted(NAME))
        [last_version] = journal(worker).configs.read(NAME).entries
        assert last_version.config["tasks.max"] == "2"
        assert journal(worker).configs.last_write(NAME) is None


def test_disabled_journal_records_nothing() -> None:
    worker = EmbeddedWorker(properties={"rest.history.max.bytes": "0"})
    worker.create(NAME, CONFIG)
    assert worker.states(NAME) == [State.RUNNING] * 3
    assert entries(worker, NAME) == []
    assert journal(worker).events.after(None, 10) == ()


def test_herder_deaths_during_replay_record_a_config_once() -> None:
    shared_journal = Journal(lambda: 1_000)
    shared_journal.config_offset = 5
    change = ConnectorChanged(NAME, CONFIG, before={"a": "1"}, offset=5)
    for _ in range(3):
        history = History(shared_journal, worker_id=WorkerId("w"), standalone=False)
        history.record_configs(ConfigReplayResult(ClusterState(offset=2)), StatusState())
        history.record_configs(ConfigReplayResult(ClusterState(offset=6), (change,)), StatusState())
    assert len(shared_journal.configs.read(NAME).entries) == 1
    assert [event.kind for event in shared_journal.events.after(None, 10)] == [EventKind.CONFIG]
