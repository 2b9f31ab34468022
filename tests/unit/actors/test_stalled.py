"""A task that makes no progress though there is work is told as stalled, by the engine's and the task's own account."""

from __future__ import annotations

import json
from typing import Any

from typing_extensions import override

from actors.messages.herder import SetTargetState
from kraal.config.connector.auto_restart import AutoRestart
from kraal.core.errors import StoreError
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.metrics.stall_detection import StallDetection
from kraal.stores.memory import MemoryOffsets
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker
from tests.fakes.workers.prometheus import scraped

NAME = ConnectorName("numbers")
T0, T1 = TaskId(NAME, 0), TaskId(NAME, 1)


def made(**properties: str) -> EmbeddedWorker:
    worker = EmbeddedWorker(properties={"task.stall.timeout.ms": "60000", **properties})
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    return worker


def stalled(worker: EmbeddedWorker) -> list[Any]:
    stall_detection = StallDetection(worker.assembly.metrics, AutoRestart())
    found: list[Any] = json.loads(json.dumps(stall_detection.stalled(worker.snapshot)))
    return found


def gauge(worker: EmbeddedWorker, name: str, task: TaskId) -> float | None:
    return scraped(worker.metrics()).value(name, connector=task.connector, task=str(task.task))


def test_an_idle_task_is_not_stalled() -> None:
    worker = made()
    worker.fake.feed(T0, 5)
    worker.advance(100_000)
    assert stalled(worker) == []
    assert gauge(worker, "kraal_task_stalled", T0) == 0
    assert gauge(worker, "kraal_task_last_batch_age_ms", T0) == 100_000_000


def test_a_batch_that_does_not_end_is_stalled() -> None:
    worker = made()
    worker.fake.feed(T0, 5)
    worker.run()
    worker.advance(10)
    worker.fake.hang(T0)
    worker.fake.feed(T0, 5)
    worker.advance(60)
    assert stalled(worker) == []
    worker.advance(1)
    assert stalled(worker) == [{"connector": NAME, "task": 0, "step_ms": 61_000, "last_batch_age_ms": 71_000}]
    assert worker.states(NAME) == ["RUNNING"] * 3
    assert [gauge(worker, "kraal_task_stalled", task) for task in (T0, T1)] == [1, 0]
    worker.fake.hang(T0, hangs=False)
    worker.advance(1)
    assert stalled(worker) == []


class Refusing(MemoryOffsets):
    """Stores nothing while it is told so."""

    refuses = False

    @override
    def store(self, *args: Any, **more: Any) -> None:
        if self.refuses:
            raise StoreError("the disk is full")
        super().store(*args, **more)


def test_offsets_that_cannot_be_stored_are_a_step_that_does_not_end() -> None:
    offsets = Refusing()
    worker = EmbeddedWorker(offsets=offsets, properties={"task.stall.timeout.ms": "60000"})
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    offsets.refuses = True
    worker.fake.feed(T0, 5)
    worker.advance(62)
    [found] = stalled(worker)
    assert found["task"] == 0
    offsets.refuses = False
    worker.advance(5)
    assert stalled(worker) == []


def test_stopped_task_is_not_stalled_and_a_restart_resets_the_stall_timer() -> None:
    worker = made()
    worker.fake.hang(T0)
    worker.fake.feed(T0, 5)
    worker.advance(100)
    assert len(stalled(worker)) == 1
    worker.fake.fail(T0, "OSError: x")
    worker.run()
    assert stalled(worker) == []
    worker.fake.hang(T0, hangs=False)
    worker.ask(SetTargetState(name=NAME, target=TargetState.STOPPED))
    worker.ask(SetTargetState(name=NAME, target=TargetState.STARTED))
    worker.advance(100)
    assert stalled(worker) == []
    assert worker.states(NAME) == ["RUNNING"] * 3


def test_zero_switches_it_off() -> None:
    worker = made(**{"task.stall.timeout.ms": "0"})
    worker.fake.hang(T0)
    worker.fake.feed(T0, 5)
    worker.advance(1_000_000)
    assert stalled(worker) == []
