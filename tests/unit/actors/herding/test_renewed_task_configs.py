"""Task configs of a connector whose values were renewed, while an older set is still on its way to the leader."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

from actors.herding.task_configs import TaskConfigs
from actors.messages.herder import TaskConfigsMade
from actors.messages.publisher import PublishTasks, TasksPublished
from actors.runtime.mailbox import Address
from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.wanted_work import Incarnation
from kraal.core.ids import ConnectorName

X = ConnectorName("x")
LIFE = Incarnation(3)
CONFIG = {"name": "x"}


class Worker:
    """A worker that does not lead; it runs the connector, whose tasks are stored as it makes them."""

    def __init__(self) -> None:
        self.sent: list[PublishTasks] = []
        publisher = Address("publisher")
        publisher.bind(self._publish)
        entry = ConnectorEntry(name=X, config=CONFIG, tasks=({"n": "0"},), applied=CONFIG)
        snapshot = SimpleNamespace(
            config=ClusterState(connectors={X: entry}), is_leader=False, leader_url="http://l/", protocol=None
        )
        tokens = itertools.count(1)
        state: Any = SimpleNamespace(
            snapshot=snapshot,
            restart_history=SimpleNamespace(renewed={}),
            work=SimpleNamespace(wanted_instances=lambda _: {X: SimpleNamespace(incarnation=LIFE)}),
            lease=lambda: True,
            clock=SimpleNamespace(now=lambda: 0.0),
            writes=SimpleNamespace(next_token=lambda: next(tokens)),
            settings=SimpleNamespace(signature_algorithm="HmacSHA256"),
            actors=SimpleNamespace(publisher=publisher, herder=Address("herder")),
        )
        self.configs = TaskConfigs(state, SimpleNamespace(), lambda _: None)  # type: ignore[arg-type]

    def _publish(self, message: object) -> bool:
        assert isinstance(message, PublishTasks)
        self.sent.append(message)
        return True

    def made(self, number: str, *, renewed: bool = False) -> None:
        """Have the connector report a task config."""
        self.configs.on_made(
            TaskConfigsMade(name=X, incarnation=LIFE, configs=[{"n": number}], renewed=renewed)
        )

    def published(self) -> None:
        """Have the leader answer the last request."""
        self.configs.on_answer(TasksPublished(token=self.sent[-1].token))


def test_renewed_values_are_published_although_an_older_set_is_read_meanwhile() -> None:
    worker = Worker()
    worker.made("1")
    worker.made("0", renewed=True)
    worker.configs.recheck(X)  # the older set's records are read before the leader's answer comes
    worker.published()
    assert [each.configs for each in worker.sent] == [[{"n": "1"}], [{"n": "0"}]]


def test_renewed_values_are_published_once() -> None:
    worker = Worker()
    worker.made("0", renewed=True)
    worker.configs.recheck(X)
    worker.published()
    worker.configs.recheck(X)
    assert len(worker.sent) == 1
