"""Tests that static assignments (KIP-987) are ignored while a Java worker is a member of the group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from tests.fakes.spark.flow import Flow
from tests.fakes.workers.java_worker import MixedCluster

pytestmark = pytest.mark.ci


@pytest.fixture
def group(kafka: Broker, tmp_path: Path) -> Iterator[MixedCluster]:
    """Yield a group without started workers; its processes are killed after the test."""
    cluster = MixedCluster(directory=tmp_path / "mixed", bootstrap=kafka.bootstrap)
    yield cluster
    cluster.close()


@pytest.mark.slow
def test_static_lists_take_effect_when_the_last_java_worker_leaves(
    group: MixedCluster, kafka: Broker, tmp_path: Path
) -> None:
    java = group.start_java()
    flow = Flow(group, kafka.bootstrap, tmp_path, 2)
    listed_instances = {flow.pipes[0].source, f"{flow.pipes[0].source}-0"}
    static_worker = group.add(
        {"static.connectors": flow.pipes[0].source, "static.tasks": f"{flow.pipes[0].source}-0"}
    )
    group.start_all([static_worker])

    def is_shared() -> bool:
        return sorted(group.work().values()) == [4, 4]

    group.wait_until("each worker had half of the work", is_shared)
    check_delivery(flow)
    response = static_worker.ask("GET", "/admin/assignments")
    assert response.status == 404
    assert "it is a worker of Apache Kafka" in response.body["message"]

    wildcard_worker = group.start_kraal()
    assert java.end() == 143

    def runs_listed_instances() -> bool:
        owners = flow.owners()
        instances = {
            f"{name}-{key}".removesuffix("-connector")
            for (name, key), w in owners.items()
            if static_worker.url.endswith(w)
        }
        return instances == listed_instances and len(owners) == 8

    group.wait_until("the static worker ran only listed instances", runs_listed_instances)
    check_delivery(flow)
    assignments = wildcard_worker.ask("GET", "/admin/assignments").body
    assert (assignments["protocol"], assignments["note"], assignments["waiting"]) == ("static", None, [])
    kinds = {worker["url"]: worker["kind"] for worker in assignments["workers"]}
    assert kinds == {f"{static_worker.url}/": "static", f"{wildcard_worker.url}/": "wildcard"}

    group.start_all([java])
    group.wait_until(
        "three workers shared the work", lambda: sorted(group.work().values()) in ([2, 2, 4], [2, 3, 3])
    )
    check_delivery(flow)
    assignments = wildcard_worker.ask("GET", "/admin/assignments").body
    assert assignments["protocol"] == "sessioned"
    assert assignments["note"].startswith("Static assignments are ignored")
    assert {worker["kind"] for worker in assignments["workers"]} == {"wildcard"}


def check_delivery(flow: Flow) -> None:
    """Write lines, and check that all are delivered once."""
    flow.wait_until_running()
    for pipe in flow.pipes:
        pipe.worker = flow.cluster.alive[0]
        pipe.write(40)
    for pipe in flow.pipes:
        pipe.worker.wait_until("both files were equal", pipe.is_through_exactly)
