"""Tests for the creation of a connector with initial offsets if the broker does not acknowledge the config record."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.messages.herder import CreateConnector, DeleteConnector
from kraal.core.errors import StoreError
from kraal.core.ids import ConnectorName, Json, TargetState, TaskId
from kraal.core.records import Entry
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.plugins import FAKE_SOURCE

X = ConnectorName("x")
SOURCE_CONFIG: dict[str, str | None] = {"connector.class": FAKE_SOURCE, "tasks.max": "4", "topics": "lines"}
POSITION_7: dict[str, Json] = {"position": 7}
CREATE = CreateConnector(
    name=X,
    config=SOURCE_CONFIG,
    initial_state=TargetState.STOPPED,
    initial_offsets=[({"task": "x-0"}, POSITION_7)],
)


def cluster_with_previous_offsets(seed: int) -> EmbeddedCluster:
    """Return a cluster with offsets of the deleted connector x."""
    cluster = EmbeddedCluster(3, seed=seed)
    cluster.settle()
    cluster.create(X, SOURCE_CONFIG)
    cluster.settle()
    cluster.feed(TaskId(X, 0), 25)
    cluster.advance(1)
    cluster.request(DeleteConnector(name=X))
    cluster.settle()
    return cluster


@pytest.mark.parametrize("seed", range(6))
def test_created_connector_keeps_initial_offsets_despite_a_write_error(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_with_previous_offsets(seed)
    assert dict(cluster.offsets.load(X))
    append = cluster.config_log.append

    def append_without_acknowledgement(entries: Sequence[Entry]) -> int:
        append(entries)
        raise StoreError("the brokers are unavailable")

    monkeypatch.setattr(cluster.config_log, "append", append_without_acknowledgement)
    with pytest.raises(StoreError, match="the brokers are unavailable"):
        cluster.ask(cluster.leader, CREATE)
    monkeypatch.undo()
    cluster.settle()
    assert X in cluster.leader.snapshot.config.connectors
    assert list(cluster.offsets.load(X).values()) == [POSITION_7]
