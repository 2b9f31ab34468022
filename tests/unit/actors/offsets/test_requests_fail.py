"""Requests about offsets when something fails, dies or hangs, under the seeded scheduler: KIP-875."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.offsets.service import AT_A_TIME
from kraal.core.errors import ActorDied, KraalError, StoreError
from kraal.core.ids import Json, TargetState
from kraal.plugins.registry import Registry
from kraal.stores.memory import MemoryLog, MemoryOffsets
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE, FakeSourceConnector
from kraal.testing._simulation.worker import CONVERTERS, EmbeddedWorker
from tests.fakes.cluster.offset_requests import (
    BOTH,
    GET,
    RESET,
    Message,
    X,
    alter,
    config,
    freeze,
    groups,
    pair,
    refused,
    shown,
    stopped,
)

SEEDS = range(6)


def failing_at(operation: str) -> Callable[[str], None]:
    def fault(asked: str) -> None:
        if asked == operation:
            raise StoreError("no broker answers")

    return fault


@pytest.mark.parametrize(
    ("operation", "message", "text"),
    [
        ("load", GET, "Failed to retrieve offsets for source connector x"),
        ("load", RESET, "Failed to modify offsets for source connector x"),
        ("store", alter(pair(FAKE_SOURCE, 0, 1)), "Failed to modify offsets for source connector x"),
    ],
)
def test_500_when_the_offset_store_fails(operation: str, message: Message, text: str) -> None:
    worker = stopped(FAKE_SOURCE, store=(store := MemoryOffsets()))
    store.fault = failing_at(operation)
    assert refused(worker, message) == (500, text)


@pytest.mark.parametrize(
    ("operation", "message", "text"),
    [
        ("read", GET, "Failed to retrieve consumer group offsets for sink connector x"),
        ("read", RESET, "Failed to list offsets prior to resetting offsets for sink connector x"),
        ("delete", RESET, "Failed to reset consumer group offsets for sink connector x"),
        ("alter", alter(pair(FAKE_SINK, 0, 1)), "Failed to alter consumer group offsets for connector x"),
    ],
)
def test_500_when_kafka_fails(operation: str, message: Message, text: str) -> None:
    worker = stopped(FAKE_SINK)
    groups(worker).fault = failing_at(operation)
    assert refused(worker, message) == (500, text)


def test_offsets_of_a_topic_that_does_not_exist_cannot_be_altered() -> None:
    partition: dict[str, Json] = {"kafka_topic": "gone", "kafka_partition": 0}
    failed = (500, "Failed to alter consumer group offsets for connector x")
    assert refused(stopped(FAKE_SINK), alter((partition, {"kafka_offset": 1}))) == failed


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("actor", ["offset service", "offsets", "config reader"])
def test_a_request_whose_actor_died_is_repeated_or_failed_and_the_next_one_works(
    actor: str, seed: int
) -> None:
    worker = stopped(FAKE_SOURCE, seed=seed)
    answer = worker.assembly.herder.question(alter(pair(FAKE_SOURCE, 0, 3)))
    for _ in range(seed):
        worker.scheduler.step()
    worker.crash(actor)
    worker.advance(95)
    error = answer.exception(0)
    if error is not None:
        expected = {"offset service": ActorDied, "offsets": KraalError}
        assert type(error) is expected[actor], error
    assert worker.ask(alter(pair(FAKE_SOURCE, 0, 4)))
    assert shown(worker) == [pair(FAKE_SOURCE, 0, 4)]


UNREAD = (
    "Timed out while trying to read to the end of the offsets topic prior to modifying offsets for source "
    "connector x"
)


@pytest.mark.parametrize(
    ("message", "text"), [(GET, "Failed to retrieve offsets for source connector x"), (RESET, UNREAD)]
)
def test_a_keeper_that_hangs_ends_a_request_after_90_s(message: Message, text: str) -> None:
    worker = stopped(FAKE_SOURCE)
    freeze(worker, "offsets")
    answer = worker.assembly.herder.question(message)
    worker.advance(89)
    assert not answer.done()
    worker.advance(2)
    assert str(answer.exception(0)) == text


def test_timed_out_while_attempting_to_modify_offsets_for_source_connector_x() -> None:
    worker = stopped(FAKE_SOURCE, store=(store := MemoryOffsets()))

    def fault(operation: str) -> None:
        if operation == "load":
            freeze(worker, "offsets")

    store.fault = fault
    answer = worker.assembly.herder.question(RESET)
    worker.advance(91)
    assert str(answer.exception(0)) == "Timed out while attempting to modify offsets for source connector x"


@BOTH
def test_timed_out_while_calling_the_alter_offsets_method(
    plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = stopped(plugin)

    def slow(*_: object) -> bool:
        worker.scheduler.clock.advance_to(worker.scheduler.clock.now() + 91)
        return True

    monkeypatch.setattr(FakeSourceConnector, "_agrees", slow)
    kind = "sink" if plugin == FAKE_SINK else "source"
    text = f"Timed out while calling the 'alterOffsets' method for {kind} connector x"
    assert refused(worker, RESET) == (500, text)
    assert shown(worker) == [pair(plugin, 0, 25)]


def test_requests_that_hang_do_not_become_threads_without_end_and_all_are_answered() -> None:
    worker = stopped(FAKE_SOURCE)
    freeze(worker, "offsets")
    answers = [worker.assembly.herder.question(GET) for _ in range(3 * AT_A_TIME)]
    worker.run()
    errands = [a for a in worker.scheduler.addresses() if a.name.startswith("offsets of ")]
    assert len(errands) == AT_A_TIME
    freeze(worker, "offsets", frozen=False)
    worker.run()
    assert [list(answer.result()) for answer in answers] == [[pair(FAKE_SOURCE, 0, 25)]] * len(answers)
    assert not [a for a in worker.scheduler.addresses() if a.name.startswith("offsets of ")]


def test_a_connector_whose_class_is_not_here_says_which_there_are() -> None:
    log = MemoryLog("config")
    EmbeddedWorker(config_log=log).create(X, config(FAKE_SOURCE), TargetState.STOPPED)
    installed = Registry.load()
    registry = Registry.of({name: installed.converter_class(name) for name in CONVERTERS})
    worker = EmbeddedWorker(config_log=log, registry=registry)
    for message in (GET, RESET, alter(pair(FAKE_SOURCE, 0, 1))):
        code, text = refused(worker, message)
        assert code == 500
        assert text.startswith("Failed to find any class that implements Connector and which name matches")
