"""Tests that in random histories of clusters, every instance eventually runs once, and never twice at the same time.

Each seed determines one history. Events are client requests, deaths of actors, workers that join,
leave, are killed or freeze, and outages of the coordinator.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from actors.messages.herder import (
    CreateConnector,
    DeleteConnector,
    PutConfig,
    RestartConnector,
    RestartTask,
    SetTargetState,
)
from actors.runtime.mailbox import Ask
from kraal.core.errors import KraalError
from kraal.core.ids import ConnectorName, Instance, TargetState, TaskId
from kraal.protocol.group import ConnectProtocol
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE

NAMES = [ConnectorName(name) for name in "abc"]
STATIC_ASSIGNMENTS: list[list[Instance]] = [
    [],
    [],
    [NAMES[0], TaskId(NAMES[0], 0)],
    [TaskId(NAMES[0], 0), NAMES[1]],
]
"""Static assignments of added workers (KIP-987). A worker with an empty list is a wildcard worker."""
ACTORS = [
    "herder",
    "membership",
    "worker",
    "publisher",
    "validator",
    "offsets",
    "config reader",
    "config writer",
    "status reader",
    "status writer",
    "connector a",
    "task a-0",
    "task b-1",
]


class History:
    """A cluster with random events."""

    def __init__(self, seed: int) -> None:
        choice = random.Random(seed).choice  # noqa: S311 - order, not secrets
        self.choice = choice
        self.cluster = EmbeddedCluster(
            choice([1, 2, 3]),
            seed=seed,
            protocol=choice(list(ConnectProtocol)),
            max_delay_s=choice([0.0, 0.0, 5.0]),
            stop_s=choice([0.0, 0.3, 1.5, 4.0]),
            read_s=choice([0.05, 0.2, 0.5]),
        )
        self.cluster.settle()
        for name in NAMES[:2]:
            self.cluster.create(name, self.config())

    def config(self) -> dict[str, str | None]:
        plugin = self.choice([FAKE_SOURCE, FAKE_SINK])
        return {"connector.class": plugin, "tasks.max": self.choice("1234"), "topics": "lines"}

    def trigger_event(self) -> None:
        """Trigger one random event."""
        events = [self.send_request] * 3 + [self.crash_actor] * 2
        events += [self.add_or_remove_worker, self.start_or_end_outage]
        event = self.choice(events)
        with suppress(KraalError, KeyError):
            event()
        self.cluster.advance(self.choice([0.0, 0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 8.0]))

    def send_request(self) -> None:
        name = self.choice(NAMES)
        messages: list[Ask[Any]] = [
            CreateConnector(name=name, config=self.config()),
            DeleteConnector(name=name),
            PutConfig(name=name, config=self.config()),
            SetTargetState(name=name, target=self.choice(list(TargetState))),
            RestartConnector(name=name, include_tasks=True, only_failed=self.choice([True, False])),
            RestartTask(task=TaskId(name, 0)),
        ]
        message = self.choice(messages)
        timeout_s = 10.0 if self.is_healthy else 0.0
        self.cluster.request(message, self.choice(self.cluster.awake), timeout_s=timeout_s)

    @property
    def is_healthy(self) -> bool:
        return not self.cluster.broker.down and len(self.cluster.awake) == len(self.cluster.alive)

    def crash_actor(self) -> None:
        self.cluster.crash(self.choice(self.cluster.awake), self.choice(ACTORS))

    def add_or_remove_worker(self) -> None:
        cluster = self.cluster
        if len(cluster.awake) > 1 and self.choice([True, False]):
            self.choice([cluster.close, cluster.kill])(self.choice(cluster.awake))
        elif len(cluster.alive) < 4:
            cluster.add(static=self.choice(STATIC_ASSIGNMENTS))

    def start_or_end_outage(self) -> None:
        cluster = self.cluster
        if cluster.broker.down:
            cluster.broker.start()
        elif self.choice([True, False, False]):
            cluster.broker.stop()
        elif len(cluster.awake) > 1:
            cluster.freeze(self.choice(cluster.awake))

    def end_faults(self) -> None:
        """End all faults, and wait until the cluster is settled."""
        if self.cluster.broker.down:
            self.cluster.broker.start()
        for worker in self.cluster.alive:
            if worker.frozen:
                self.cluster.thaw(worker)
        self.cluster.add()  # a wildcard worker for unlisted instances
        self.cluster.settle(90)


@pytest.mark.parametrize("seed", range(40))
def test_random_history_ends_with_every_instance_running_once(seed: int) -> None:
    history = History(seed)
    for length in (3, 6, 5):
        for _ in range(length):
            history.trigger_event()
        history.end_faults()
