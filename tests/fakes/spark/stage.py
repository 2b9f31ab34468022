"""A real engine and a real broker on which tests run tasks, and observers of runs."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import confluent_kafka as ck
from confluent_kafka import cimpl
from confluent_kafka.admin import AdminClient

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import EngineReady, Failed, Run, RunEvent, TaskSpec, Waiting
from kraal.engine.engine import SparkEngine
from kraal.jars import jars
from kraal.jars.class_archive import existing_archive
from kraal.kafka.leave_group import leave_group
from tests.fakes.spark.plugins import FakePlugins
from tests.fakes.values.transforms import make_test_chain

E = TypeVar("E")
TIMEOUT_S = 300.0


@dataclass
class RunObserver:
    """A run of a task, and the queue of its events."""

    events: queue.SimpleQueue[RunEvent] = field(default_factory=queue.SimpleQueue)
    received_events: list[RunEvent] = field(default_factory=list)
    run: Run = field(init=False)

    def expect(self, kind: type[E], timeout_s: float = TIMEOUT_S) -> E:
        """Wait for the next event of a kind, and return the event. Fails if an event other than Waiting precedes it."""
        deadline = time.monotonic() + timeout_s
        while True:
            event = self.events.get(timeout=max(0.01, deadline - time.monotonic()))
            self.received_events.append(event)
            if isinstance(event, kind):
                return event
            assert isinstance(event, Waiting), event.trace if isinstance(event, Failed) else event


@dataclass
class TaskHarness:
    """An engine and a broker, with methods that run tasks and access topics."""

    engine: SparkEngine
    address: str

    def open(
        self,
        name: str,
        connector: str = "ListSource",
        config: Mapping[str, str] | None = None,
        offsets: Mapping[SourcePartition, Offset] | None = None,
        *,
        lease: Callable[[], bool] = lambda: True,
        number: int = 0,
        assigned: Callable[[int | None], None] = lambda _: None,
        backlog: Callable[[int], None] = lambda _: None,
    ) -> RunObserver:
        """Open a run of the task with this number."""
        observer = RunObserver()
        spec = TaskSpec(
            task=TaskId(ConnectorName(name), number),
            task_config=dict(config or {}),
            connector_config={"name": name, "connector.class": connector, **(config or {})},
            lease=lease,
            assigned=assigned,
            backlog=lambda records, **_: backlog(records),
            counts_records=True,
        )
        observer.run = self.engine.open(spec, offsets or {}, observer.events.put)
        return observer

    def topic(self, partitions: int = 1, settings: Mapping[str, str] | None = None) -> str:
        """Create a topic with a unique name, and return the name."""
        name = f"t-{uuid.uuid4().hex[:8]}"
        self.create(name, partitions, settings)
        return name

    def create(self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic with unlimited retention."""
        admin = AdminClient(
            {"bootstrap.servers": self.address}
        )  # keep a reference: deleting the client would cancel the request
        new_topic = cimpl.NewTopic(name, partitions, 1, config={"retention.ms": "-1", **(settings or {})})
        admin.create_topics([new_topic])[name].result(20)

    def produce(self, topic: str, values: list[str], partition: int = 0) -> None:
        """Write values to a partition."""
        producer = ck.Producer({"bootstrap.servers": self.address, "linger.ms": 5})
        for value in values:
            while True:
                try:
                    producer.produce(topic, value.encode(), partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(30) == 0

    def values(self, topic: str, count: int, timeout_s: float = 20.0) -> list[str]:
        """Return the values of partition 0 that `messages` returns."""
        return [message.value().decode() for message in self.messages(topic, count, timeout_s)]

    def distinct_values(self, topic: str, count: int, timeout_s: float = 20.0) -> set[str]:
        """Read partition 0 until there are `count` distinct values, because a retried batch writes duplicates."""
        deadline, message_count = time.monotonic() + timeout_s, count
        while True:
            messages = self.messages(topic, message_count, 1.0)
            values = {message.value().decode() for message in messages}
            if len(values) >= count or time.monotonic() > deadline:
                return values
            message_count = max(count, len(messages) + 1)

    def messages(self, topic: str, count: int, timeout_s: float = 20.0, partitions: int = 1) -> list[Any]:
        """Read `count` messages of the first partitions (fewer after the timeout), and further messages for 0.3 s."""
        consumer = ck.Consumer({"bootstrap.servers": self.address, "group.id": uuid.uuid4().hex})
        consumer.assign(
            [ck.TopicPartition(topic, partition, ck.OFFSET_BEGINNING) for partition in range(partitions)]
        )
        messages: list[Any] = []
        deadline = time.monotonic() + timeout_s
        while len(messages) < count and time.monotonic() < deadline:
            messages += [m for m in consumer.consume(count, 0.2) if not m.error()]
        messages += [m for m in consumer.consume(100, 0.3) if not m.error()]
        consumer.close()
        return messages


def await_ready(engine: SparkEngine, timeout_s: float = TIMEOUT_S) -> None:
    """Wait until Spark is up."""
    ready = threading.Event()
    engine.listen(lambda state: ready.set() if isinstance(state, EngineReady) else None)
    if not isinstance(engine.state, EngineReady):
        assert ready.wait(timeout_s), engine.state


def make_engine(address: str, scratch: Path, *groups: str) -> SparkEngine:
    """Start an engine with the fake plugins; `groups` are groups of further jars for Spark."""
    worker = {"bootstrap.servers": address, "key.converter": "Text", "value.converter": "Text"}
    leave = partial(leave_group, scratch=scratch)
    return SparkEngine(
        worker,
        FakePlugins(),
        lambda: [jar for group in ("spark", *groups) for jar in jars.ensure(group)],
        chains=make_test_chain,
        leave=leave,
        archive=existing_archive(),
        scratch=str(scratch),
    )
