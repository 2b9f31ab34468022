"""Offsets over a standalone worker's actors, under the seeded scheduler: KIP-875."""

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
    BOTH,
    GET,
    RESET,
    T0,
    T1,
    Message,
    X,
    alter,
    config,
    groups,
    pair,
    refused,
    resume,
    shown,
    stopped,
)

SEEDS = range(6)
FAKE_ONLY = "The Connect framework-managed offsets for this connector have been {0} successfully. However, if this \
connector manages offsets externally, they will need to be manually {0} in the system that the connector uses."
ZOMBIES = (
    "Failed to {0} consumer group offsets for connector x either because its tasks haven't stopped completely \
yet or the connector was resumed before the request to {0} its offsets could be successfully completed. If the \
connector is in a stopped state, this operation can be safely retried. If it doesn't eventually succeed, the Connect \
cluster may need to be restarted to get rid of the zombie sink tasks."
)


def test_a_sink_is_asked_for_its_lag() -> None:
    worker = stopped(FAKE_SINK)
    groups(worker).end_offsets = {TopicPartition(FAKE_TOPIC, 0): 40}
    groups(worker).alter(X, {}, {TopicPartition(FAKE_TOPIC, 1): 3}, timeout_s=1)
    response: LaggedOffsets = worker.ask(ShowLags(name=X))
    assert list(response.pairs) == [pair(FAKE_SINK, 0, 25), pair(FAKE_SINK, 1, 3)]
    assert response.lags == [15, None]
    groups(worker).end_offsets = {TopicPartition(FAKE_TOPIC, 0): 20}  # the topic was truncated
    assert worker.ask(ShowLags(name=X)).lags == [0, None]


def test_a_source_has_no_lag() -> None:
    worker = stopped(FAKE_SOURCE)
    response: LaggedOffsets = worker.ask(ShowLags(name=X))
    assert (list(response.pairs), response.lags) == ([pair(FAKE_SOURCE, 0, 25)], ())
    assert shown(worker) == [pair(FAKE_SOURCE, 0, 25)]


def test_ends_that_kafka_does_not_tell_are_an_error_of_requests_for_lags_only() -> None:
    worker = stopped(FAKE_SINK)

    def away(operation: str) -> None:
        if operation == "ends":
            raise StoreError("no broker answered")

    groups(worker).fault = away
    assert refused(worker, ShowLags(name=X)) == (
        500,
        "Failed to retrieve consumer group offsets for sink connector x",
    )
    assert shown(worker) == [pair(FAKE_SINK, 0, 25)]


@BOTH
@pytest.mark.parametrize("seed", SEEDS)
def test_get_any_state(plugin: str, seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(X, config(plugin))
    assert shown(worker) == []
    worker.fake.feed(T0, 25)
    worker.fake.feed(T1, 5)
    worker.run()
    both = [pair(plugin, 0, 25), pair(plugin, 1, 5)]
    for target in (TargetState.PAUSED, TargetState.STOPPED, TargetState.STARTED):
        worker.ask(SetTargetState(name=X, target=target))
        assert sorted(shown(worker), key=str) == both
        worker.run()
        assert sorted(shown(worker), key=str) == both


@pytest.mark.parametrize("message", [GET, alter(pair(FAKE_SOURCE, 0, 1)), RESET])
def test_404_connector_x_not_found(message: Message) -> None:
    with pytest.raises(NotFound, match=r"^Connector x not found$"):
        EmbeddedWorker().ask(message)


@BOTH
@pytest.mark.parametrize("target", [TargetState.STARTED, TargetState.PAUSED])
def test_connectors_must_be_in_the_stopped_state_before_their_offsets_can_be_modified(
    plugin: str, target: TargetState
) -> None:
    worker = EmbeddedWorker()
    worker.create(X, config(plugin), target)
    for message in (alter(pair(plugin, 0, 1)), RESET):
        with pytest.raises(
            BadRequest, match=r"must be in the STOPPED state .* '/connectors/x/stop' endpoint"
        ):
            worker.ask(message)


@BOTH
@pytest.mark.parametrize("seed", SEEDS)
def test_connector_continues_at_its_altered_offsets(plugin: str, seed: int) -> None:
    worker = stopped(plugin, seed=seed)
    assert worker.ask(alter(pair(plugin, 0, 20), pair(plugin, 1, 3))) == FAKE_ONLY.format("altered")
    assert sorted(shown(worker), key=str) == [pair(plugin, 0, 20), pair(plugin, 1, 3)]
    resume(worker)
    assert worker.fake.written[T0] == [*range(25), *range(20, 25)]


@BOTH
def test_offset_null_deletes_one_and_leaves_the_others(plugin: str) -> None:
    worker = stopped(plugin)
    worker.ask(alter(pair(plugin, 1, 3)))
    worker.ask(alter(pair(plugin, 0, None)))
    assert shown(worker) == [pair(plugin, 1, 3)]


@BOTH
@pytest.mark.parametrize("seed", SEEDS)
def test_delete_offsets_twice_200_both_times_get_nothing_and_resume_reprocesses_from_start(
    plugin: str, seed: int
) -> None:
    worker = stopped(plugin, seed=seed)
    for _ in range(2):
        assert worker.ask(RESET) == FAKE_ONLY.format("reset")
        assert shown(worker) == []
    resume(worker)
    assert worker.fake.written[T0] == [*range(25), *range(25)]


@BOTH
@pytest.mark.parametrize("seed", SEEDS)
def test_stopped_same_with_offsets_can_be_altered_before_first_start(plugin: str, seed: int) -> None:
    worker = EmbeddedWorker(seed=seed)
    worker.create(X, config(plugin), TargetState.STOPPED)
    worker.ask(alter(pair(plugin, 0, 5)))
    resume(worker)
    worker.fake.feed(T0, 10)
    worker.run()
    assert worker.fake.written[T0] == [5, 6, 7, 8, 9]


@BOTH
def test_offsets_that_the_connector_manages_itself_are_not_stored(plugin: str) -> None:
    worker = stopped(plugin, more={"fake.offsets": "managed"})
    done = "The offsets for this connector have been {} successfully"
    assert worker.ask(alter(pair(plugin, 0, 1))) == done.format("altered")
    assert worker.ask(RESET) == done.format("reset")


@BOTH
@pytest.mark.parametrize(
    ("more", "code", "text"),
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
def test_rejected_offsets_change_nothing(plugin: str, more: dict[str, str], code: int, text: str) -> None:
    worker = stopped(plugin, more=more)
    for message in (alter(pair(plugin, 0, 1)), RESET):
        kind = "sink" if plugin == FAKE_SINK else "source"
        assert refused(worker, message) == (code, text.format(kind))
    assert shown(worker) == [pair(plugin, 0, 25)]


def test_a_reset_asks_the_connector_also_when_it_has_no_offsets() -> None:
    for plugin in (FAKE_SOURCE, FAKE_SINK):
        worker = stopped(plugin, records=0)
        FakeSourceConnector.calls.clear()
        worker.ask(RESET)
        assert FakeSourceConnector.calls == [(X, "alter_offsets")]


def test_bodies_that_mean_nothing_are_400() -> None:
    assert refused(stopped(FAKE_SINK), alter(({}, None)))[0] == 400
    assert refused(stopped(FAKE_SOURCE), alter(({"a": []}, None))) == (
        400,
        "Offsets may only contain primitive types as values, but field a contains ARRAY",
    )


# -- tasks that take their time to stop --------------------------------------------------------------------


class _Stubborn(FakeEngine):
    """Its runs end only when they are let go; as zombies, cancelled or not."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[FakeRun] = []

    @override
    def make_run(self, spec: TaskSpec, position: int, report: Callable[[RunEvent], None]) -> FakeRun:
        return _StubbornRun(self, spec, position, report)

    def let_go(self) -> None:
        for run in self.held:
            FakeRun.stop(run)


class _StubbornRun(FakeRun):
    @override
    def stop(self) -> None:
        assert isinstance(self._engine, _Stubborn)
        self._engine.held.append(self)

    @override
    def cancel(self) -> None:
        pass


@pytest.mark.parametrize("seed", SEEDS)
def test_500_containing_zombie_sink_task_and_retryable(seed: int) -> None:
    engine = _Stubborn()
    worker = EmbeddedWorker(seed=seed, engine=engine)
    worker.create(X, config(FAKE_SINK))
    worker.ask(SetTargetState(name=X, target=TargetState.STOPPED))
    worker.advance(30)
    assert refused(worker, alter(pair(FAKE_SINK, 0, 1))) == (500, ZOMBIES.format("alter"))
    assert refused(worker, RESET) == (500, ZOMBIES.format("reset"))
    engine.let_go()
    worker.run()
    worker.ask(alter(pair(FAKE_SINK, 0, 1)))
    assert shown(worker) == [pair(FAKE_SINK, 0, 1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_in_standalone_a_modification_right_after_a_stop_waits_for_the_tasks(seed: int) -> None:
    engine = _Stubborn()
    worker = EmbeddedWorker(seed=seed, engine=engine)
    worker.create(X, config(FAKE_SOURCE))
    worker.ask(SetTargetState(name=X, target=TargetState.STOPPED))
    answer = worker.assembly.herder.question(alter(pair(FAKE_SOURCE, 0, 7)))
    worker.advance(1)
    assert not answer.done()
    engine.let_go()
    worker.run()
    assert answer.result() == FAKE_ONLY.format("altered")
    assert shown(worker) == [pair(FAKE_SOURCE, 0, 7)]


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_requests_are_checked_again(seed: int) -> None:
    engine = _Stubborn()
    worker = EmbeddedWorker(seed=seed, engine=engine)
    worker.create(X, config(FAKE_SOURCE))
    worker.ask(SetTargetState(name=X, target=TargetState.STOPPED))
    answer = worker.assembly.herder.question(RESET)
    worker.run()
    worker.ask(SetTargetState(name=X, target=TargetState.STARTED))
    engine.let_go()
    worker.run()
    with pytest.raises(BadRequest, match="must be in the STOPPED state"):
        answer.result()
