"""Tests that a worker that waits for an assignment names the group as the cause."""

from __future__ import annotations

from kraal.config.connector.auto_restart import AutoRestart
from kraal.core.ids import ConnectorName
from kraal.metrics.progress import ConnectorProgress, ProgressReports, merge
from kraal.metrics.registry import MetricsRegistry
from kraal.metrics.series import Series
from kraal.metrics.stalls.detection import StallDetection
from kraal.metrics.stalls.down_parts import GROUP, GROUP_REASON, NOT_JOINED_REASON, find_group_outage
from kraal.metrics.windows import Windows
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.cluster_worker import ClusterWorker
from kraal.testing._simulation.plugins import FAKE_SOURCE

NAME = ConnectorName("c")
CAUSE = f"No worker may run it: {GROUP_REASON}"


def find_cause(worker: ClusterWorker) -> str | None:
    """Return the cause that a worker reports for the connector when no other worker responds."""
    metrics = worker.assembly.metrics
    reports = ProgressReports(metrics, Series(metrics))
    cause: str | None = merge([reports.of(worker.assembly.published.latest, NAME)], ())["stall_cause"]
    return cause


def test_connectors_without_a_worker_have_a_cause_during_an_outage_of_the_coordinator() -> None:
    cluster = EmbeddedCluster(workers=2)
    cluster.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "1"})
    cluster.settle()
    assert [find_group_outage(worker.assembly.metrics) for worker in cluster.alive] == [(), ()]
    cluster.broker.stop()
    cluster.advance(30)
    assert [find_cause(worker) for worker in cluster.alive] == [None, None], "below the stall timeout"
    cluster.advance(60)
    assert [find_cause(worker) for worker in cluster.alive] == [CAUSE, CAUSE]
    for worker in cluster.alive:
        detection = StallDetection(worker.assembly.metrics, AutoRestart())
        [component] = detection.components_down()
        assert (component["part"], component["why"]) == ("group", GROUP_REASON)
    cluster.broker.start()
    cluster.settle()
    assert [find_cause(worker) for worker in cluster.alive] == [None, None]
    assert [find_group_outage(worker.assembly.metrics) for worker in cluster.alive] == [(), ()]


def test_worker_that_has_not_joined_the_group_yet_is_down() -> None:
    cluster = EmbeddedCluster(workers=1)
    metrics = MetricsRegistry(cluster.workers[0].assembly.metrics.time, Windows(), in_group=True)
    cluster.advance(60)
    assert find_group_outage(metrics) == ()
    cluster.advance(1)
    [part] = find_group_outage(metrics)
    assert (part.name, part.why) == (GROUP, NOT_JOINED_REASON)
    assert metrics.group is not None
    metrics.group = metrics.group.on_rebalance_began(metrics.time.now())
    [part] = find_group_outage(metrics)
    assert part.why == GROUP_REASON, "a rebalance that begins later does not end the outage"
    metrics.group = metrics.group.on_rebalance_ended(metrics.time.now())
    assert find_group_outage(metrics) == ()


def test_absence_is_no_cause_if_another_worker_runs_the_tasks() -> None:
    absent, running = ConnectorProgress(absence_cause=CAUSE), ConnectorProgress(tasks=[{"id": 0}])
    assert merge([absent], ())["stall_cause"] == CAUSE
    assert merge([absent, running], ())["stall_cause"] is None
    assert merge([ConnectorProgress(stall_cause="It has no tasks"), absent], ())["stall_cause"] == (
        "It has no tasks"
    )
