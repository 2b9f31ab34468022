"""Tests for REST commands and the recovery of a worker, under the seeded scheduler."""

from __future__ import annotations

import pytest

from actors.connector import Connector
from actors.messages.herder import (
    CreateConnector,
    DeleteConnector,
    PatchConfig,
    PutConfig,
    ResetTopics,
    RestartConnector,
    RestartTask,
    SetTargetState,
    ShutDown,
)
from kraal.cluster.views import rest as view
from kraal.core.errors import (
    AlreadyExists,
    BadRequest,
    ConfigInvalid,
    Forbidden,
    KraalError,
    NotFound,
    StoreError,
)
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.engine import FakeEngine
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE, FakeSourceConnector
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
T0, T1 = TaskId(NAME, 0), TaskId(NAME, 1)
SEEDS = range(8)


def config(**overrides: str) -> dict[str, str | None]:
    return {"connector.class": FAKE_SOURCE, "tasks.max": "2", **overrides}


@pytest.fixture(autouse=True)
def _clear_calls() -> None:
    FakeSourceConnector.calls.clear()


@pytest.fixture(params=SEEDS, ids=lambda seed: f"seed {seed}")
def worker(request: pytest.FixtureRequest) -> EmbeddedWorker:
    return EmbeddedWorker(seed=request.param)


def test_created_connector_runs_with_its_tasks(worker: EmbeddedWorker) -> None:
    worker.ask(CreateConnector(name=NAME, config=config()))
    info = view.connector_info(worker.snapshot, NAME)
    assert info["tasks"] == [{"connector": NAME, "task": 0}, {"connector": NAME, "task": 1}], (
        "a standalone worker responds to a create request with the started tasks"
    )
    worker.run()
    assert worker.states(NAME) == ["RUNNING", "RUNNING", "RUNNING"]
    assert worker.status(NAME)["connector"]["worker_id"] == "127.0.0.1:8083"
    assert worker.status(NAME)["connector"]["version"] == "1.0"


def test_creation_completes_although_task_configs_fail(worker: EmbeddedWorker) -> None:
    start_s = worker.scheduler.clock.now()
    worker.ask(CreateConnector(name=NAME, config=config(**{"fail.in": "task_configs"})))
    assert worker.scheduler.clock.now() == start_s, "the request does not wait for the next attempt"
    assert view.connector_info(worker.snapshot, NAME)["tasks"] == []
    worker.ask(PutConfig(name=NAME, config=config()))
    worker.advance(1)
    assert worker.states(NAME) == ["RUNNING", "RUNNING", "RUNNING"]


def test_task_restarts_at_its_stored_offsets(worker: EmbeddedWorker) -> None:
    worker.create(NAME, config())
    worker.fake.feed(T0, 25)
    worker.run()
    assert worker.fake.written[T0] == list(range(25))
    worker.ask(RestartTask(task=T0))
    worker.fake.feed(T0, 5)
    worker.run()
    assert worker.fake.written[T0] == list(range(30)), "no record is lost or duplicated"


def test_duplicate_creation_is_rejected(worker: EmbeddedWorker) -> None:
    worker.create(NAME, config())
    with pytest.raises(AlreadyExists, match="Connector numbers already exists"):
        worker.create(NAME, config())


def test_invalid_config_is_rejected_with_every_error(worker: EmbeddedWorker) -> None:
    with pytest.raises(ConfigInvalid) as error_info:
        worker.create(NAME, config(**{"tasks.max": "0", "errors.tolerance": "some"}))
    assert len(error_info.value.errors) == 2
    with pytest.raises(BadRequest, match="Failed to find any class that implements Connector"):
        worker.create(NAME, {"connector.class": "no.such.Class"})
    assert NAME not in worker.snapshot.config.connectors


@pytest.mark.parametrize("state", [TargetState.PAUSED, TargetState.STOPPED])
def test_connector_created_paused_or_stopped_has_no_tasks_until_resume(state: TargetState) -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, config(), state)
    assert worker.states(NAME) == [state.value]
    assert FakeSourceConnector.calls == [], "start() is not called"
    worker.ask(SetTargetState(name=NAME, target=TargetState.STARTED))
    worker.run()
    assert worker.states(NAME) == ["RUNNING", "RUNNING", "RUNNING"]


def test_paused_task_writes_no_records_until_resume(worker: EmbeddedWorker) -> None:
    worker.create(NAME, config())
    worker.ask(SetTargetState(name=NAME, target=TargetState.PAUSED))
    worker.run()
    assert worker.states(NAME) == ["PAUSED", "PAUSED", "PAUSED"]
    worker.fake.feed(T0, 3)
    worker.run()
    assert T0 not in worker.fake.written
    worker.ask(SetTargetState(name=NAME, target=TargetState.STARTED))
    worker.run()
    assert worker.fake.written[T0] == [0, 1, 2]
    assert worker.states(NAME) == ["RUNNING", "RUNNING", "RUNNING"]


def test_stopped_connector_has_no_tasks_until_resume(worker: EmbeddedWorker) -> None:
    worker.create(NAME, config())
    worker.ask(SetTargetState(name=NAME, target=TargetState.STOPPED))
    worker.run()
    assert worker.states(NAME) == ["STOPPED"]
    assert view.task_infos(worker.snapshot, NAME) == []
    worker.ask(SetTargetState(name=NAME, target=TargetState.STARTED))
    worker.run()
    assert worker.states(NAME) == ["RUNNING", "RUNNING", "RUNNING"]


def test_deletion_removes_statuses_and_topics(worker: EmbeddedWorker) -> None:
    worker.create(NAME, config())
    worker.fake.feed(T0, 1)
    worker.run()
    assert view.active_topics(worker.snapshot, NAME) == {NAME: {"topics": ["fake"]}}
    worker.ask(DeleteConnector(name=NAME))
    worker.run()
    assert worker.snapshot.config.connectors == {}
    with pytest.raises(NotFound):
        worker.status(NAME)
    assert view.active_topics(worker.snapshot, NAME) == {NAME: {"topics": []}}
    assert worker.fake.find_run(T0) is None


def test_only_a_changed_config_restarts_the_tasks(
    worker: EmbeddedWorker,
) -> None:
    worker.create(NAME, config())
    opened_count = len(worker.fake.opened)
    assert worker.ask(PutConfig(name=NAME, config=config())) is False
    worker.run()
    assert len(worker.fake.opened) == opened_count
    assert FakeSourceConnector.calls.count((NAME, "start")) == 2
    worker.ask(PatchConfig(name=NAME, patch={"tasks.max": "3"}))
    worker.run()
    assert worker.states(NAME) == ["RUNNING"] * 4
    worker.ask(PatchConfig(name=NAME, patch={"tasks.max": "1"}))
    worker.run()
    assert worker.states(NAME) == ["RUNNING"] * 2


def test_topics_are_written_once_and_can_be_reset(worker: EmbeddedWorker) -> None:
    worker.create(NAME, config())
    for _ in range(5):
        worker.fake.feed(T0, 20)
        worker.fake.feed(T1, 20)
        worker.run()
    keys = [r.key for r in worker.status_log.read(0, 1000)]
    assert keys.count(f"status-topic-fake:connector-{NAME}") == 1
    worker.ask(ResetTopics(name=NAME))
    assert view.active_topics(worker.snapshot, NAME) == {NAME: {"topics": []}}
    worker.fake.feed(T0, 1)
    worker.run()
    assert view.active_topics(worker.snapshot, NAME) == {NAME: {"topics": ["fake"]}}


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        pytest.param("topic.tracking.enable", "Topic tracking is disabled.", id="disabled"),
        pytest.param("topic.tracking.allow.reset", "Topic tracking reset is disabled", id="reset disabled"),
    ],
)
def test_disabled_topic_reset_is_rejected(setting: str, text: str) -> None:
    worker = EmbeddedWorker(properties={setting: "false"})
    worker.create(NAME, config())
    with pytest.raises(Forbidden) as error_info:
        worker.ask(ResetTopics(name=NAME))
    assert str(error_info.value) == text


class TestRestart:
    """Tests for KIP-745 in standalone mode, in which a restart completes before the response."""

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize(
        ("include_tasks", "only_failed", "connector_starts", "task_starts"),
        [
            pytest.param(False, False, 1, 0, id="only the connector"),
            pytest.param(True, False, 1, 1, id="the connector and its tasks"),
            pytest.param(False, True, 0, 0, id="only failed, none has failed"),
            pytest.param(True, True, 0, 0, id="only failed with tasks, none has failed"),
        ],
    )
    def test_restart_starts_the_selected_instances_before_the_response(
        self, *, seed: int, include_tasks: bool, only_failed: bool, connector_starts: int, task_starts: int
    ) -> None:
        worker = EmbeddedWorker(seed=seed)
        worker.create(NAME, config())
        FakeSourceConnector.calls.clear()
        worker.fake.opened.clear()
        body = worker.ask(RestartConnector(name=NAME, include_tasks=include_tasks, only_failed=only_failed))
        assert FakeSourceConnector.calls.count((NAME, "start")) == connector_starts, (
            "restarted before the response"
        )
        assert worker.fake.opened.count(T0) == worker.fake.opened.count(T1) == task_starts, (
            "restarted before the response"
        )
        if not include_tasks and not only_failed:
            assert body is None
        else:
            assert body is not None
            expected_state = "RESTARTING" if connector_starts else "RUNNING"
            assert body["connector"]["state"] == expected_state  # type: ignore[call-overload,index]
        worker.run()
        assert worker.states(NAME) == ["RUNNING"] * 3

    @pytest.mark.parametrize("seed", SEEDS)
    def test_restart_of_failed_instances_restarts_only_the_failed_task(self, seed: int) -> None:
        worker = EmbeddedWorker(seed=seed)
        worker.create(NAME, config())
        worker.fake.fail(T1, "ValueError: no")
        worker.run()
        assert worker.states(NAME) == ["RUNNING", "RUNNING", "FAILED"]
        assert worker.status(NAME)["tasks"][1]["trace"] == "ValueError: no"
        worker.fake.opened.clear()
        FakeSourceConnector.calls.clear()
        body = worker.ask(RestartConnector(name=NAME, include_tasks=True, only_failed=True))
        assert body is not None
        assert [t["state"] for t in body["tasks"]] == ["RUNNING", "RESTARTING"]  # type: ignore[index,union-attr,call-overload]
        worker.run()
        assert worker.states(NAME) == ["RUNNING"] * 3
        assert worker.fake.opened == [T1]
        assert FakeSourceConnector.calls == []
        states = [r.value for r in worker.status_log.read(0, 1000) if r.key == f"status-task-{T1}"]
        assert [b'"RESTARTING"' in (s or b"") for s in states][-2:] == [True, False], (
            "RESTARTING is written after the stop, RUNNING after the start"
        )

    def test_restart_of_an_unstartable_connector_fails(self) -> None:
        worker = EmbeddedWorker()
        worker.create(NAME, config(**{"fail.in": "start"}))
        assert worker.states(NAME) == ["FAILED"]
        assert worker.status(NAME)["connector"]["trace"].startswith(
            "RuntimeError: start was configured to fail\n"
        )
        with pytest.raises(KraalError, match="Failed to start connector: numbers"):
            worker.ask(RestartConnector(name=NAME))
        worker.fake.fail_opening(T0, "OSError: gone")

    def test_restart_of_an_unstartable_task_fails(self) -> None:
        worker = EmbeddedWorker()
        worker.create(NAME, config())
        worker.fake.fail_opening(T0, "OSError: gone")
        with pytest.raises(KraalError, match="Failed to start task: numbers-0"):
            worker.ask(RestartTask(task=T0))
        worker.fake.fail_opening(T0, None)
        worker.ask(RestartTask(task=T0))
        worker.run()
        assert worker.states(NAME) == ["RUNNING"] * 3

    def test_restart_of_unknown_instances_returns_not_found(self) -> None:
        worker = EmbeddedWorker()
        worker.create(NAME, config())
        with pytest.raises(NotFound, match="Unknown connector: nobody"):
            worker.ask(RestartConnector(name=ConnectorName("nobody"), include_tasks=True))
        with pytest.raises(NotFound, match="Unknown task: numbers-7"):
            worker.ask(RestartTask(task=TaskId(NAME, 7)))


def test_restarted_worker_continues_at_its_stored_state(worker: EmbeddedWorker) -> None:
    worker.create(NAME, config())
    worker.create("resting", config(), TargetState.PAUSED)
    worker.fake.feed(T0, 12)
    worker.ask(RestartConnector(name=NAME, include_tasks=True))
    worker.run()
    restarted_worker = EmbeddedWorker(
        config_log=worker.config_log, status_log=worker.status_log, offsets=worker.offsets, seed=1
    )
    restarted_worker.fake.feed(T0, 20)
    restarted_worker.run()
    assert restarted_worker.states(NAME) == ["RUNNING"] * 3
    assert restarted_worker.states("resting") == ["PAUSED"]
    assert restarted_worker.fake.written[T0] == list(range(12, 20)), "old restart requests are ignored"
    assert restarted_worker.fake.opened.count(T0) == 1


def test_graceful_shutdown_writes_unassigned_for_all_instances(worker: EmbeddedWorker) -> None:
    worker.create(NAME, config())
    worker.ask(ShutDown())
    worker.run()
    assert worker.states(NAME) == ["UNASSIGNED"] * 3
    assert worker.fake.find_run(T0) is None


def test_slowly_stopping_task_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = EmbeddedWorker()
    worker.create(NAME, config())
    run = worker.fake.find_run(T0)
    assert run is not None
    monkeypatch.setattr(run, "stop_if_idle", lambda: True)
    worker.ask(SetTargetState(name=NAME, target=TargetState.STOPPED))
    worker.advance(4)
    assert worker.fake.find_run(T0) is not None
    worker.advance(2)
    assert worker.fake.find_run(T0) is None
    assert worker.states(NAME) == ["STOPPED"]


def test_deleting_a_failed_connector_abandons_its_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned_instances: list[object] = []
    monkeypatch.setattr(FakeEngine, "abandon", lambda _, instance: abandoned_instances.append(instance))
    monkeypatch.setattr(FakeSourceConnector, "task_configs", lambda *_: [{}] * 3)
    worker = EmbeddedWorker()
    worker.create(NAME, config())
    assert worker.states(NAME) == ["FAILED"], "the connector has more tasks than tasks.max"
    assert NAME not in abandoned_instances
    worker.ask(DeleteConnector(name=NAME))
    worker.run()
    assert abandoned_instances.count(NAME) == 1


def test_hanging_connector_is_abandoned_after_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned_instances: list[object] = []
    monkeypatch.setattr(FakeEngine, "abandon", lambda _, instance: abandoned_instances.append(instance))
    worker = EmbeddedWorker()
    worker.create(NAME, config())
    monkeypatch.setattr(Connector, "_stop_instance", lambda _: None)  # as if the plugin blocked the thread
    worker.ask(DeleteConnector(name=NAME))
    worker.advance(9)
    assert NAME not in abandoned_instances
    worker.advance(2)
    assert abandoned_instances.count(NAME) == 1


def test_failed_write_is_an_error_without_data_loss() -> None:
    def raise_disk_full(operation: str) -> None:
        if operation == "append":
            raise StoreError("the disk is full")

    log = MemoryLog("config")
    worker = EmbeddedWorker(config_log=log)
    no_fault, log.fault = log.fault, raise_disk_full
    with pytest.raises(StoreError, match="the disk is full"):
        worker.create(NAME, config())
    log.fault = no_fault
    worker.create(NAME, config())
    assert worker.states(NAME) == ["RUNNING"] * 3


def test_sink_restarts_at_its_committed_offset(worker: EmbeddedWorker) -> None:
    worker.create(NAME, {"connector.class": FAKE_SINK, "topics": "a"})
    worker.fake.feed(T0, 15)
    worker.run()
    assert worker.fake.committed[T0] == 15
    worker.ask(RestartTask(task=T0))
    worker.fake.feed(T0, 5)
    worker.run()
    assert worker.fake.written[T0] == list(range(20))


def test_same_seed_produces_the_same_message_order() -> None:
    def trace(seed: int) -> list[tuple[str, str]]:
        worker = EmbeddedWorker(seed=seed)
        worker.create(NAME, config())
        worker.fake.feed(T0, 40)
        worker.ask(RestartConnector(name=NAME, include_tasks=True))
        worker.run()
        return worker.scheduler.trace

    assert trace(3) == trace(3)
    assert trace(3) != trace(4)
