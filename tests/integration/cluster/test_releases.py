"""Tests for Java workers of several Kafka releases and a Kraal worker in one group."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.jars.lock import RELEASES
from tests.fakes.kafka.releases import make_comparable
from tests.fakes.spark.pipe import RUNNING, Pipe, create_topic
from tests.fakes.workers.java_worker import MixedCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JAVA_RELEASES = ("3.9", "4.3", "4.4")


def test_workers_of_several_releases_share_connectors(kafka: Broker, tmp_path: Path) -> None:
    cluster = MixedCluster(directory=tmp_path / "cluster", bootstrap=kafka.bootstrap)
    try:
        for release in JAVA_RELEASES:
            cluster.add_java(version=RELEASES[release])
        cluster.add()
        cluster.start_all(cluster.workers)
        pipes = [Pipe(worker, tmp_path) for worker in cluster.workers]
        names = [name for pipe in pipes for name in (pipe.source, pipe.sink)]
        for pipe in pipes:
            pipe.source_file.touch()
            create_topic(kafka.bootstrap, pipe.topic)
            pipe.create()
        for name in names:
            cluster.wait_for_states(name, RUNNING)
        for pipe in pipes:
            pipe.write(10)
        for pipe in pipes:
            pipe.worker.wait_until("both files were equal", pipe.is_through_exactly)
        assert len(cluster.work()) == len(cluster.workers)
        for name in names:
            cluster.wait_until(f"{name} was equal on all workers", partial(is_equal, cluster, name))
    finally:
        cluster.close()


def is_equal(cluster: MixedCluster, name: str) -> bool:
    for path in ("", "/status", "/config", "/tasks"):
        first, *others = (
            make_comparable(worker.get(f"/connectors/{name}{path}"), "3.9") for worker in cluster.workers
        )
        if any(other != first for other in others):
            return False
    return True
