"""Tests for offset requests (KIP-875) with failures, actor deaths and hangs, under the seeded scheduler."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.offsets.service import MAX_CONCURRENT_REQUESTS
from kraal.core.errors import ActorDied, KraalError, StoreError
from kraal.core.ids import Json, TargetState
from kraal.plugins.registry import Registry
from kraal.stores.memory import MemoryLog, MemoryOffsets
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE, FakeSourceConnector
from kraal.testing._simulation.worker import CONVERTERS, EmbeddedWorker
from tests.fakes.cluster.offset_requests import (
    BOTH_PLUGINS,
    GET,
    RESET,
    Message,
    X,
    alter,
    config,
    create_stopped,
    freeze,
    get_group_offsets,
    get_offsets,
    pair,
    request_error,
)

SEEDS = range(6)


def fail_on(operation: str) -> Callable[[str], None]:
    def fault(current_operation: str) -> None:
        if current_operation == operation:
            raise StoreError("no broker is available")

    return fault


@pytest.mark.parametrize(
    ("operation", "message", "text"),
    [
        ("load", GET, "Failed to retrieve offsets for source connector x"),
        ("load", RESET, "Failed to modify offsets for source connector x"),
        ("store", alter(pair(FAKE_SOURCE, 0, 1)), "Failed to modify offsets for source connector x"),
    ],
)
def test_failing_offset_store_returns_500(operation: str, message: Message, text: str) -> None:
    worker = create_stopped(FAKE_SOURCE, store=(store := MemoryOffsets()))
    store.fault = fail_on(operation)
    assert request_error(worker, message) == (500, text)


@pytest.mark.parametrize(
    ("operation", "message", "text"),
    [
        ("read", GET, "Failed to retrieve consumer group offsets for sink connector x"),
        ("read", RESET, "Failed to list offsets prior to resetting offsets for sink connector x"),
        ("delete", RESET, "Failed to reset consumer group offsets for sink connector x"),
        ("alter", alter(pair(FAKE_SINK, 0, 1)), "Failed to alter consumer group offsets for connector x"),
    ],
)
def test_kafka_failure_returns_500(operation: str, message: Message, text: str) -> None:
    worker = create_stopped(FAKE_SINK)
    get_group_offsets(worker).fault = fail_on(operation)
    assert request_error(worker, message) == (500, text)


def test_altering_offsets_of_a_missing_topic_fails() -> None:
    partition: dict[str, Json] = {"kafka_topic": "gone", "kafka_partition": 0}
    expected = (500, "Failed to alter consumer group offsets for connector x")
    assert request_error(create_stopped(FAKE_SINK), alter((partition, {"kafka_offset": 1}))) == expected


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("actor", ["offset service", "offsets", "config reader"])
def test_request_is_retried_or_fails_after_an_actor_death(actor: str, seed: int) -> None:
    worker = create_stopped(FAKE_SOURCE, seed=seed)
    future = worker.assembly.herder.question(alter(pair(FAKE_SOURCE, 0, 3)))
    for _ in range(seed):
        worker.scheduler.step()
    worker.crash(actor)
    worker.advance(95)
    error = future.exception(0)
    if error is not None:
        expected = {"offset service": ActorDied, "offsets": KraalError}
        assert type(error) is expected[actor], error
    assert worker.ask(alter(pair(FAKE_SOURCE, 0, 4)))
    assert get_offsets(worker) == [pair(FAKE_SOURCE, 0, 4)]


READ_TIMEOUT_ERROR = (
    "Timed out while trying to read to the end of the offsets topic prior to modifying offsets for source "
    "connector x"
)


@pytest.mark.parametrize(
    ("message", "text"),
    [(GET, "Failed to retrieve offsets for source connector x"), (RESET, READ_TIMEOUT_ERROR)],
)
def test_hanging_offset_keeper_fails_a_request_after_90_s(message: Message, text: str) -> None:
    worker = create_stopped(FAKE_SOURCE)
    freeze(worker, "offsets")
    future = worker.assembly.herder.question(message)
    worker.advance(89)
    assert not future.done()
    worker.advance(2)
    assert str(future.exception(0)) == text


def test_slow_offset_write_times_out() -> None:
    worker = create_stopped(FAKE_SOURCE, store=(store := MemoryOffsets()))

    def fault(operation: str) -> None:
        if operation == "load":
            freeze(worker, "offsets")

    store.fault = fault
    future = worker.assembly.herder.question(RESET)
    worker.advance(91)
    assert str(future.exception(0)) == "Timed out while attempting to modify offsets for source connector x"


@BOTH_PLUGINS
def test_slow_plugin_validation_times_out(plugin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = create_stopped(plugin)

    def validate_slowly(*_: object) -> bool:
        worker.scheduler.clock.advance_to(worker.scheduler.clock.now() + 91)
        return True

    monkeypatch.setattr(FakeSourceConnector, "_validate_offsets", validate_slowly)
    kind = "sink" if plugin == FAKE_SINK else "source"
    text = f"Timed out while calling the 'alterOffsets' method for {kind} connector x"
    assert request_error(worker, RESET) == (500, text)
    assert get_offsets(worker) == [pair(plugin, 0, 25)]


def test_hanging_requests_are_limited_and_all_complete() -> None:
    worker = create_stopped(FAKE_SOURCE)
    freeze(worker, "offsets")
    futures = [worker.assembly.herder.question(GET) for _ in range(3 * MAX_CONCURRENT_REQUESTS)]
    worker.run()
    request_actors = [a for a in worker.scheduler.addresses() if a.name.startswith("offsets of ")]
    assert len(request_actors) == MAX_CONCURRENT_REQUESTS
    freeze(worker, "offsets", frozen=False)
    worker.run()
    assert [list(future.result()) for future in futures] == [[pair(FAKE_SOURCE, 0, 25)]] * len(futures)
    assert not [a for a in worker.scheduler.addresses() if a.name.startswith("offsets of ")]


def test_missing_connector_class_returns_500() -> None:
    log = MemoryLog("config")
    EmbeddedWorker(config_log=log).create(X, config(FAKE_SOURCE), TargetState.STOPPED)
    installed_plugins = Registry.load()
    registry = Registry.of({name: installed_plugins.converter_class(name) for name in CONVERTERS})
    worker = EmbeddedWorker(config_log=log, registry=registry)
    for message in (GET, RESET, alter(pair(FAKE_SOURCE, 0, 1))):
        code, text = request_error(worker, message)
        assert code == 500
        assert text.startswith("Failed to find any class that implements Connector and which name matches")
