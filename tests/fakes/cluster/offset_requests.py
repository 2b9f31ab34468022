"""Offset requests for a connector `x` of the fake engine, as a source and as a sink."""

from __future__ import annotations

from typing import Any

import pytest

from actors.messages.herder import SetTargetState
from actors.messages.offsets import AlterOffsets, ResetOffsets, ShowOffsets
from actors.runtime.mailbox import Ask
from kraal.core.errors import KraalError
from kraal.core.ids import ConnectorName, Json, TargetState, TaskId
from kraal.core.offsets import OffsetPairs, Pair
from kraal.stores.memory import MemoryOffsets
from kraal.testing._simulation.group_offsets import FakeGroupOffsets
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

X = ConnectorName("x")
T0, T1 = TaskId(X, 0), TaskId(X, 1)
BOTH_PLUGINS = pytest.mark.parametrize("plugin", [FAKE_SOURCE, FAKE_SINK])
GET = ShowOffsets(name=X)
RESET = ResetOffsets(name=X)

Message = Ask[Any]


def config(plugin: str, **settings: str) -> dict[str, str | None]:
    return {"connector.class": plugin, "tasks.max": "2", "topics": "lines", **settings}


def pair(plugin: str, task: int, position: int | None) -> Pair:
    """Return the offset of a task of the fake engine in the format of REST."""
    partition: dict[str, Json] = {"task": f"x-{task}"}
    field = "position"
    if plugin == FAKE_SINK:
        partition, field = {"kafka_topic": "fake", "kafka_partition": task}, "kafka_offset"
    return partition, None if position is None else {field: position}


def alter(*pairs: Pair) -> AlterOffsets:
    return AlterOffsets(name=X, offsets=pairs)


def create_stopped(
    plugin: str,
    *,
    seed: int = 0,
    records: int = 25,
    store: MemoryOffsets | None = None,
    extra_settings: dict[str, str] | None = None,
) -> EmbeddedWorker:
    """Return a worker with a stopped connector that has read records. Its config contains `extra_settings`."""
    worker = EmbeddedWorker(seed=seed, offsets=store)
    worker.create(X, config(plugin, **(extra_settings or {})))
    worker.fake.feed(T0, records)
    worker.run()
    worker.ask(SetTargetState(name=X, target=TargetState.STOPPED))
    worker.run()
    return worker


def resume(worker: EmbeddedWorker) -> None:
    worker.ask(SetTargetState(name=X, target=TargetState.STARTED))
    worker.run()


def request_error(worker: EmbeddedWorker, message: Message) -> tuple[int, str]:
    """Send a request that fails; return the status and the message of the error."""
    with pytest.raises(KraalError) as caught:
        worker.ask(message)
    return caught.value.status, str(caught.value)


def get_offsets(worker: EmbeddedWorker) -> list[tuple[Any, Any]]:
    """Return the offsets in the response to a GET."""
    pairs: OffsetPairs = worker.ask(GET)
    return list(pairs)


def get_group_offsets(worker: EmbeddedWorker) -> FakeGroupOffsets:
    assert isinstance(worker.group_offsets, FakeGroupOffsets)
    return worker.group_offsets


def freeze(worker: EmbeddedWorker, actor: str, *, frozen: bool = True) -> None:
    [address] = [a for a in worker.scheduler.addresses() if a.name == actor]
    worker.scheduler.freeze(address, frozen=frozen)
