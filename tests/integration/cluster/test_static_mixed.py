"""Static assignments (KIP-987) with a Java worker: ignored while it is a member, in effect after it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from tests.fakes.spark.flow import Flow
from tests.fakes.workers.java_worker import MixedCluster

pytestmark = pytest.mark.ci


@pytest.fixture
def mixed(kafka: Broker, tmp_path: Path) -> Iterator[MixedCluster]:
    """Yield a group without started workers; its processes are killed after the test."""
    cluster = MixedCluster(directory=tmp_path / "mixed", bootstrap=kafka.bootstrap)
    yield cluster
    cluster.close()


@pytest.mark.slow
def test_static_lists_take_effect_when_the_last_java_worker_leaves(
    mixed: MixedCluster, kafka: Broker, tmp_path: Path
) -> None:
    java = mixed.start_java()
    flow = Flow(mixed, kafka.bootstrap, tmp_path, 2)
    listed = {flow.pipes[0].source, f"{flow.pipes[0].source}-0"}
    static = mixed.add(
        {"static.connectors": flow.pipes[0].source, "static.tasks": f"{flow.pipes[0].source}-0"}
    )
    mixed.start_all([static])

    def shared() -> bool:
        return sorted(mixed.work().values()) == [4, 4]

    mixed.wait_until("both had half of the work", shared)
    check_delivery(flow)
    answer = static.ask("GET", "/admin/assignments")
    assert answer.status == 404
    assert "it is a worker of Apache Kafka" in answer.body["message"]

    wildcard = mixed.start_kraal()
    assert java.end() == 143

    def in_place() -> bool:
        owners = flow.owners()
        runs = {
            f"{name}-{key}".removesuffix("-connector")
            for (name, key), w in owners.items()
            if static.url.endswith(w)
        }
        return runs == listed and len(owners) == 8

    mixed.wait_until("the static worker ran what it lists, and nothing else", in_place)
    check_delivery(flow)
    shown = wildcard.ask("GET", "/admin/assignments").body
    assert (shown["protocol"], shown["note"], shown["waiting"]) == ("static", None, [])
    kinds = {each["url"]: each["kind"] for each in shown["workers"]}
    assert kinds == {f"{static.url}/": "static", f"{wildcard.url}/": "wildcard"}

    mixed.start_all([java])
    mixed.wait_until("three shared the work", lambda: sorted(mixed.work().values()) in ([2, 2, 4], [2, 3, 3]))
    check_delivery(flow)
    shown = wildcard.ask("GET", "/admin/assignments").body
    assert shown["protocol"] == "sessioned"
    assert shown["note"].startswith("Static assignments are ignored")
    assert {each["kind"] for each in shown["workers"]} == {"wildcard"}


def check_delivery(flow: Flow) -> None:
    """Write lines, and check that all are delivered once."""
    flow.wait_until_running()
    for pipe in flow.pipes:
        pipe.worker = flow.cluster.alive[0]
        pipe.write(40)
    for pipe in flow.pipes:
        pipe.worker.wait_until("the sink file was the source file", pipe.is_through_exactly)
