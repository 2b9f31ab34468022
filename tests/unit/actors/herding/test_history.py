"""What the herder writes into the journal: every state with its cause and who asked for it."""

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
from kraal.cluster.state.config_replay import ConnectorChanged, Reduced
from kraal.cluster.state.statuses import StatusState
from kraal.core.ids import Config, State, TargetState, WorkerId
from kraal.journal.authors import (
    ConfigWritten,
    Deleted,
    OffsetsChanged,
    Restarted,
    TargetSet,
)
from kraal.journal.causes import REMOVED
from kraal.journal.events import EventKind
from kraal.journal.journal import Journal
from kraal.testing._simulation.worker import EmbeddedWorker
from tests.unit.actors.journal_of import (
    CONFIG,
    NAME,
    SEEDS,
    T0,
    T1,
    T2,
    USER,
    asked,
    entries,
    events,
    journal,
    running,
    told,
)


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

    def test_history_without_an_author_names_no_author(self) -> None:
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


class TestConfigs:
    """Versions that others replace."""

    def test_configs_contain_authors_but_no_secrets(self) -> None:
        worker = running()
        for number in range(2):
            patch: Config = {"my.password": f"secret-{number}", "n": str(number)}
            by = f"PATCH {number}"
            asked(worker, PatchConfig(name=NAME, patch=patch), ConfigWritten(NAME, patch), by)
        first, second = journal(worker).configs.read(NAME).entries
        assert first.written.by == "POST from 10.0.0.1"
        assert first.changed == ("my.password", "n")
        assert (second.written.by, second.changed) == ("PATCH 0", ("my.password", "n"))
        assert second.to_json(())["config"] == {**second.config, "my.password": "[hidden]"}
        assert "secret-" not in str(journal(worker).configs.read(NAME))
        current = journal(worker).configs.last_write(NAME)
        assert current is not None
        assert current.by == "PATCH 1"

    def test_a_deleted_connector_leaves_its_last_config(self) -> None:
        worker = running()
        asked(worker, DeleteConnector(name=NAME), Deleted(NAME))
        [last] = journal(worker).configs.read(NAME).entries
        assert last.config["tasks.max"] == "2"
        assert journal(worker).configs.last_write(NAME) is None


def test_a_disabled_journal_stays_empty() -> None:
    worker = EmbeddedWorker(properties={"rest.history.max.bytes": "0"})
    worker.create(NAME, CONFIG)
    assert worker.states(NAME) == [State.RUNNING] * 3
    assert entries(worker, NAME) == []
    assert journal(worker).events.after(None, 10) == ()


def test_herders_that_die_while_they_read_record_a_config_once() -> None:
    kept = Journal(lambda: 1_000)
    kept.config_offset = 5
    written = ConnectorChanged(NAME, CONFIG, before={"a": "1"}, offset=5)
    for _ in range(3):
        herder = History(kept, worker_id=WorkerId("w"), standalone=False)
        herder.record_configs(Reduced(ClusterState(offset=2)), StatusState())
        herder.record_configs(Reduced(ClusterState(offset=6), (written,)), StatusState())
    assert len(kept.configs.read(NAME).entries) == 1
    assert [event.kind for event in kept.events.after(None, 10)] == [EventKind.CONFIG]
