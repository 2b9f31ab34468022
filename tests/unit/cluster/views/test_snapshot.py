"""Tests for the message about missing plugins, which prevent a worker from joining a group."""

from __future__ import annotations

from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.views.snapshot import Snapshot, missing_plugins
from kraal.core.ids import ConnectorName, WorkerId

A, B, C = map(ConnectorName, "abc")


def test_missing_plugins_are_listed_with_required_versions() -> None:
    configs = {
        A: {"connector.class": "x.A", "connector.plugin.version": "[1,2)"},
        B: {"connector.class": "x.B"},
        C: {"connector.class": "x.C"},
    }
    entries = {name: ConnectorEntry(name=name, config=config) for name, config in configs.items()}
    config, worker = ClusterState(connectors=entries), WorkerId("w:1")
    types = {A: "unknown", B: "unknown", C: "sink"}
    message = missing_plugins(Snapshot(worker_id=worker, config=config, types=types))
    assert message is not None
    assert "are not installed: a (x.A, version [1,2)), b (x.B). Install them" in message
    assert missing_plugins(Snapshot(worker_id=worker, config=config, types={C: "sink"})) is None
