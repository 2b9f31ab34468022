"""Fixtures: a shared cluster of three workers, and clusters for single tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.fakes.spark.pipe import Pipe, create_topic


@pytest.fixture(scope="package")
def cluster(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Run a cluster of three workers, which tests must leave running."""
    running_cluster = ProcessCluster(directory=tmp_path_factory.mktemp("cluster"), bootstrap=kafka.bootstrap)
    try:
        running_cluster.start(3)
        yield running_cluster
        exit_codes = [worker.end() for worker in running_cluster.workers]
    finally:
        running_cluster.close()
    assert exit_codes == [0, 0, 0], "\n".join(worker.log_text() for worker in running_cluster.workers)


@pytest.fixture
def make_cluster(kafka: Broker, tmp_path: Path) -> Iterator[Callable[..., ProcessCluster]]:
    """Yield a function that defines clusters for one test; their processes are killed after the test."""
    clusters: list[ProcessCluster] = []

    def make(properties: Mapping[str, str] | None = None) -> ProcessCluster:
        clusters.append(
            ProcessCluster(
                directory=tmp_path / f"cluster-{len(clusters)}",
                bootstrap=kafka.bootstrap,
                properties=properties,
            )
        )
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture
def pipe(cluster: ProcessCluster, kafka: Broker, tmp_path: Path) -> Iterator[Pipe]:
    """Run a pipe with an empty source file on the shared cluster. Its REST requests go to the second worker."""
    new_pipe = Pipe(cluster.workers[1], tmp_path)
    new_pipe.source_file.touch()
    create_topic(kafka.bootstrap, new_pipe.topic)
    new_pipe.create()
    new_pipe.wait_until_running()
    yield new_pipe
    new_pipe.delete()
