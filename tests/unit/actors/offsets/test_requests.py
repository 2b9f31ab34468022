"""Tests for offset requests (KIP-875) of a standalone worker, under the seeded scheduler."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typing_extensions import override

from actors.messages.herder import SetTargetState
from actors.messages.offsets import LaggedOffsets, ShowLags
from kraal.core.errors import BadRequest, NotFound, StoreError
from kraal.core.ids import TargetState
from kraal.core.offsets import TopicPartition
from kraal.engine.api import RunEvent, TaskSpec
from kraal.testing._simulation.engine import FakeEngine, FakeRun
from kraal.testing._simulation.group_offsets import FAKE_TOPIC
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE, FakeSourceConnector
from kraal.testing._simulation.worker import EmbeddedWorker
from tests.fakes.cluster.offset_requests import (
    BOTH_PLUGINS,
    GET,
    RESET,
    T0,
    T1,
    Message,
    X,
    alter,
    config,
    create_stopped,
    get_group_offsets,
    get_offsets,
    pair,
    request_error,
    resume,
)

SEEDS = range(6)
FRAMEWORK_MANAGED_TEXT = (
    "The Connect framework-managed offsets for this connector have been {0} successfully. However, if this connector "
    "manages offsets externally, they will need to be manually {0} in the system that the connector uses."
)
ZOMBIE_TASKS_ERROR = (
    "Failed to {0} consumer group offsets for connector x either because its tasks haven't stopped completely \
yet or the connector was resumed before the request to {0} its offsets could be successfully completed. If the \
connector is in a stopped state, this operation can be safely retried. If it doesn't eventually succeed, the Connect \
cluster may need to be restarted to get rid of the zombie sink tasks."
)


def test_sink_lag_is_returned() -> None:
    worker = create_stopped(FAKE_SINK)
    get_group_offsets(worker).end_offsets = {TopicPartition(FAKE_TOPIC, 0): 40}
    get_group_offsets(worker).alter(X, {}, {TopicPartition(FAKE_TOPIC, 1): 3}, timeout_s=1)
    response: LaggedOffsets = worker.ask(ShowLags(name=X))
    assert list(response.pairs) == [pair(FAKE_SINK, 0, 25), pair(FAKE_SINK, 1, 3)]
    assert response.lags == [15, None]
    get_group_offsets(worker).end_offsets = {TopicPartition(FAKE_TOPIC, 0): 20}  # the topic was truncated
    assert worker.ask(ShowLags(name=X)).lags == [0, None]


def test_source_has_no_lag() -> None:
    worker = create_stopped(FAKE_SOURCE)
    response: LaggedOffsets = worker.ask(ShowLags(name=X))
    assert (list(response.pairs), response.lags) == ([pair(FAKE_SOURCE, 0, 25)], ())
    assert get_offsets(worker) == [pair(FAKE_SOURCE, 0, 25)]


def test_unknown_end_offsets_fail_only_lag_requests() -> None:
    worker = create_stopped(FAKE_SINK)

    def raise_unavailable(operation: str) -> None:
        if operation == "ends":
            raise StoreError("no broker is available")

    get_group_offsets(worker).fault = raise_unavailable
    assert request_error(worker, ShowLags(name=X)) == (
        500,
        "Failed to retrieve consumer group offsets for sink connector x",
    )
    assert get_offsets(worker) == [pair(FAKE_SINK, 0, 25)]


@BOTH_PLUGINS
@pytest.mark.parametrize("seed", SEEDS)
def test_offsets_are_returned_in_any_state(plugin: str, seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(X, config(plugin))
    assert get_offsets(worker) == []
    worker.fake.feed(T0, 25)
    worker.fake.feed(T1, 5)
    worker.run()
    expected = [pair(plugin, 0, 25), pair(plugin, 1, 5)]
    for target in (TargetState.PAUSED, TargetState.STOPPED, TargetState.STARTED):
        worker.ask(SetTargetState(name=X, target=target))
        assert sorted(get_offsets(worker), key=str) == expected
        worker.run()
        assert sorted(get_offsets(worker), key=str) == expected


@pytest.mark.parametrize("message", [GET, alter(pair(FAKE_SOURCE, 0, 1)), RESET])
def test_unknown_connector_returns_404(message: Message) -> None:
    with pytest.raises(NotFound, match=r"^Connector x not found$"):
        EmbeddedWorker().ask(message)


@BOTH_PLUGINS
@pytest.mark.parametrize("target", [TargetState.STARTED, TargetState.PAUSED])
def test_modification_requires_the_stopped_state(plugin: str, target: TargetState) -> None:
    worker = EmbeddedWorker()
    worker.create(X, config(plugin), target)
    for message in (alter(pair(plugin, 0, 1)), RESET):
        with pytest.raises(
            BadRequest, match=r"must be in the STOPPED state .* '/connectors/x/stop' endpoint"
        ):
            worker.ask(message)


@BOTH_PLUGINS
@pytest.mark.parametrize("seed", SEEDS)
def test_connector_continues_at_its_altered_offsets(plugin: str, seed: int) -> None:
    worker = create_stopped(plugin, seed=seed)
    assert worker.ask(alter(pair(plugin, 0, 20), pair(plugin, 1, 3))) == FRAMEWORK_MANAGED_TEXT.format(
        "altered"
    )
    assert sorted(get_offsets(worker), key=str) == [pair(plugin, 0, 20), pair(plugin, 1, 3)]
    resume(worker)
    assert worker.fake.written[T0] == [*range(25), *range(20, 25)]


@BOTH_PLUGINS
def test_null_offset_deletes_only_one_partition(plugin: str) -> None:
    worker = create_stopped(plugin)
    worker.ask(alter(pair(plugin, 1, 3)))
    worker.ask(alter(pair(plugin, 0, None)))
    assert get_offsets(worker) == [pair(plugin, 1, 3)]


@BOTH_PLUGINS
@pytest.mark.parametrize("seed", SEEDS)
def test_repeated_reset_succeeds_and_resume_starts_from_the_beginning(plugin: str, seed: int) -> None:
    worker = create_stopped(plugin, seed=seed)
    for _ in range(2):
        assert worker.ask(RESET) == FRAMEWORK_MANAGED_TEXT.format("reset")
        assert get_offsets(worker) == []
    resume(worker)
    assert worker.fake.written[T0] == [*range(25), *range(25)]


@BOTH_PLUGINS
@pytest.mark.parametrize("seed", SEEDS)
def test_offsets_of_a_connector_created_stopped_can_be_altered(plugin: str, seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(X, config(plugin), TargetState.STOPPED)
    worker.ask(alter(pair(plugin, 0, 5)))
    resume(worker)
    worker.fake.feed(T0, 10)
    worker.run()
    assert worker.fake.written[T0] == [5, 6, 7, 8, 9]


@BOTH_PLUGINS
def test_externally_managed_offsets_are_not_stored(plugin: str) -> None:
    worker = create_stopped(plugin, extra_settings={"fake.offsets": "managed"})
    success_text = "The offsets for this connector have been {} successfully"
    assert worker.ask(alter(pair(plugin, 0, 1))) == success_text.format("altered")
    assert worker.ask(RESET) == success_text.format("reset")


@BOTH_PLUGINS
@pytest.mark.parametrize(
    ("extra_settings", "code", "text"),
    [
        (
            {"fake.offsets": "unsupported"},
            400,
            "Failed to modify offsets for connector x because it doesn't support external modification of offsets",
        ),
        ({"fake.offsets": "Positions are even here"}, 400, "Positions are even here"),
        ({"fail.in": "alter_offsets"}, 500, "Failed to modify offsets for {} connector x"),
    ],
)
def test_rejected_offsets_change_nothing(
    plugin: str, extra_settings: dict[str, str], code: int, text: str
) -> None:
    worker = create_stopped(plugin, extra_settings=extra_settings)
    for message in (alter(pair(plugin, 0, 1)), RESET):
        kind = "sink" if plugin == FAKE_SINK else "source"
        assert request_error(worker, message) == (code, text.format(kind))
    assert get_offsets(worker) == [pair(plugin, 0, 25)]


def test_reset_without_offsets_calls_the_connector() -> None:
    for plugin in (FAKE_SOURCE, FAKE_SINK):
        worker = create_stopped(plugin, records=0)
        FakeSourceConnector.calls.clear()
        worker.ask(RESET)
        assert FakeSourceConnector.calls == [(X, "alter_offsets")]


def test_invalid_bodies_return_400() -> None:
    assert request_error(create_stopped(FAKE_SINK), alter(({}, None)))[0] == 400
    assert request_error(create_stopped(FAKE_SOURCE), alter(({"a": []}, None))) == (
        400,
        "Offsets may only contain primitive types as values, but field a contains ARRAY",
    )


# -- Slowly stopping tasks ---------------------------------------------------------------------------------


class _ZombieEngine(FakeEngine):
    """An engine whose runs continue after a stop until `release` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.zombies: list[FakeRun] = []

    @override
    def make_run(self, spec: TaskSpec, position: int, report: Callable[[RunEvent], None]) -> FakeRun:
        return _ZombieRun(self, spec, position, report)

    def release(self) -> None:
        for run in self.zombies:
            FakeRun.stop(run)


class _ZombieRun(FakeRun):
    @override
    def stop(self) -> None:
        assert isinstance(self._engine, _ZombieEngine)
        self._engine.zombies.append(self)

    @override
    def cancel(self) -> None:
        pass


@pytest.mark.parametrize("seed", SEEDS)
def test_modification_with_zombie_sink_tasks_returns_500(seed: int) -> None:
    engine = _ZombieEngine()
    worker = EmbeddedWorker(seed=seed, engine=engine)
    worker.create(X, config(FAKE_SINK))
    worker.ask(SetTargetState(name=X, target=TargetState.STOPPED))
    worker.advance(30)
    assert request_error(worker, alter(pair(FAKE_SINK, 0, 1))) == (500, ZOMBIE_TASKS_ERROR.format("alter"))
    assert request_error(worker, RESET) == (500, ZOMBIE_TASKS_ERROR.format("reset"))
    engine.release()
    worker.run()
    worker.ask(alter(pair(FAKE_SINK, 0, 1)))
    assert get_offsets(worker) == [pair(FAKE_SINK, 0, 1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_standalone_modification_waits_for_stopping_tasks(seed: int) -> None:
    engine = _ZombieEngine()
    worker = EmbeddedWorker(seed=seed, engine=engine)
    worker.create(X, config(FAKE_SOURCE))
    worker.ask(SetTargetState(name=X, target=TargetState.STOPPED))
    future = worker.assembly.herder.question(alter(pair(FAKE_SOURCE, 0, 7)))
    worker.advance(1)
    assert not future.done()
    engine.release()
    worker.run()
    assert future.result() == FRAMEWORK_MANAGED_TEXT.format("altered")
    assert get_offsets(worker) == [pair(FAKE_SOURCE, 0, 7)]


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_request_fails_if_the_connector_is_resumed(seed: int) -> None:
    engine = _ZombieEngine()
    worker = EmbeddedWorker(seed=seed, engine=engine)
    worker.create(X, config(FAKE_SOURCE))
    worker.ask(SetTargetState(name=X, target=TargetState.STOPPED))
    future = worker.assembly.herder.question(RESET)
    worker.run()
    worker.ask(SetTargetState(name=X, target=TargetState.STARTED))
    engine.release()
    worker.run()
    with pytest.raises(BadRequest, match="must be in the STOPPED state"):
        future.result()
