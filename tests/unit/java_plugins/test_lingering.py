"""Cancelled or failed Java tasks whose threads are still running."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.lease import MUST_NOT_WRITE
from kraal.engine.api import TaskSpec
from kraal.java_plugins.host import PluginHost
from kraal.java_plugins.run import JavaRun
from tests.unit.java_plugins.fake_host import FakeHost


@dataclass
class Cluster:
    """A host and the lease of its worker."""

    host: FakeHost = field(default_factory=FakeHost)
    leased: bool = True

    def run(self) -> JavaRun:
        """Start a task."""
        run = JavaRun(
            cast("PluginHost", self.host),
            TaskSpec(
                task=TaskId(ConnectorName("c"), 0),
                task_config={},
                connector_config={},
                lease=lambda: self.leased,
            ),
            number=1,
            version="1",
            is_source=True,
            graceful_s=5.0,
            report=lambda _: None,
            store_metrics=lambda *_: None,
            on_end=lambda *_: None,
        )
        run.open(None)
        self.host.up()
        self.host.tell(1, "started")
        return run

    def tick(self) -> None:
        """Call `tick` of all listeners."""
        for each in list(self.host.listeners.values()):
            each.tick()


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.host.results |= {"endTask": False, "hasEnded": False}
    return cluster


def cancel(cluster: Cluster) -> None:
    cluster.run().cancel()


def fail(cluster: Cluster) -> None:
    run = cluster.run()
    cluster.host.tell(1, "failed", "java.lang.Error: x")
    run.cancel()


@pytest.mark.parametrize("end", [cancel, fail])
def test_lingering_task_kills_its_jvm_when_the_lease_expires(
    cluster: Cluster, end: Callable[[Cluster], None]
) -> None:
    end(cluster)
    cluster.tick()
    assert cluster.host.killed == []
    cluster.leased = False
    cluster.tick()
    assert cluster.host.killed == [MUST_NOT_WRITE]
    cluster.host.down()
    assert cluster.host.listeners == {}


@pytest.mark.parametrize("end", [cancel, fail])
def test_task_whose_thread_has_ended_needs_no_lease(cluster: Cluster, end: Callable[[Cluster], None]) -> None:
    end(cluster)
    cluster.host.results["hasEnded"] = True
    cluster.tick()
    cluster.leased = False
    cluster.tick()
    assert cluster.host.killed == []


def test_task_keeps_lingering_if_the_check_fails(cluster: Cluster) -> None:
    cancel(cluster)
    cluster.host.results["hasEnded"] = RuntimeError("no")
    cluster.tick()
    cluster.leased = False
    cluster.tick()
    assert cluster.host.killed == [MUST_NOT_WRITE]
