"""Tests for task configs with renewed values that are generated while an older set is in flight to the leader."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

from actors.herding.task_configs import TaskConfigs
from actors.messages.herder import TaskConfigsGenerated
from actors.messages.publisher import PublishTasks, TasksPublished
from actors.runtime.mailbox import Address
from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.wanted_work import Incarnation
from kraal.core.ids import ConnectorName

X = ConnectorName("x")
INCARNATION = Incarnation(3)
CONFIG = {"name": "x"}


class Worker:
    """A follower that runs the connector, whose stored task config is `n=0`."""

    def __init__(self) -> None:
        self.publications: list[PublishTasks] = []
        publisher = Address("publisher")
        publisher.bind(self._publish)
        entry = ConnectorEntry(name=X, config=CONFIG, tasks=({"n": "0"},), applied=CONFIG)
        snapshot = SimpleNamespace(
            config=ClusterState(connectors={X: entry}), is_leader=False, leader_url="http://l/", protocol=None
        )
        tokens = itertools.count(1)
        state: Any = SimpleNamespace(
            snapshot=snapshot,
            restart_history=SimpleNamespace(renewed_configs={}),
            work=SimpleNamespace(wanted_instances=lambda _: {X: SimpleNamespace(incarnation=INCARNATION)}),
            lease=lambda: True,
            clock=SimpleNamespace(now=lambda: 0.0),
            writes=SimpleNamespace(next_token=lambda: next(tokens)),
            settings=SimpleNamespace(signature_algorithm="HmacSHA256"),
            actors=SimpleNamespace(publisher=publisher, herder=Address("herder")),
        )
        self.configs = TaskConfigs(state, SimpleNamespace(), lambda _: None)  # type: ignore[arg-type]

    def _publish(self, message: object) -> bool:
        assert isinstance(message, PublishTasks)
        self.publications.append(message)
        return True

    def report_config(self, number: str, *, renewed: bool = False) -> None:
        """Report a generated task config, as the connector's actor would."""
        self.configs.on_generated(
            TaskConfigsGenerated(name=X, incarnation=INCARNATION, configs=[{"n": number}], renewed=renewed)
        )

    def complete_publication(self) -> None:
        """Respond to the last publication request as the leader would."""
        self.configs.on_publish_result(TasksPublished(token=self.publications[-1].token))


def test_renewed_values_are_published_despite_an_older_set() -> None:
    worker = Worker()
    worker.report_config("1")
    worker.report_config("0", renewed=True)
    worker.configs.recheck(X)  # the records of the older set are read before the leader responds
    worker.complete_publication()
    assert [message.configs for message in worker.publications] == [[{"n": "1"}], [{"n": "0"}]]


def test_renewed_values_are_published_once() -> None:
    worker = Worker()
    worker.report_config("0", renewed=True)
    worker.configs.recheck(X)
    worker.complete_publication()
    worker.configs.recheck(X)
    assert len(worker.publications) == 1
