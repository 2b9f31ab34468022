"""A cluster of three workers, shared by the tests of this directory that keep all workers running."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.fakes.spark.pipe import Pipe, create_topic


@pytest.fixture(scope="package")
def cluster(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """The cluster that tests share; they leave it running."""
    made = ProcessCluster(directory=tmp_path_factory.mktemp("cluster"), bootstrap=kafka.bootstrap)
    try:
        made.start(3)
        yield made
        codes = [worker.end() for worker in made.workers]
    finally:
        made.close()
    assert codes == [0, 0, 0], "\n".join(worker.log_text() for worker in made.workers)


@pytest.fixture
def own_cluster(kafka: Broker, tmp_path: Path) -> Iterator[Callable[..., ProcessCluster]]:
    """Yield a function that defines clusters for one test; their processes are killed after the test."""
    made: list[ProcessCluster] = []

    def make(properties: Mapping[str, str] | None = None) -> ProcessCluster:
        made.append(
            ProcessCluster(
                directory=tmp_path / f"cluster-{len(made)}", bootstrap=kafka.bootstrap, properties=properties
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def pipe(cluster: ProcessCluster, kafka: Broker, tmp_path: Path) -> Iterator[Pipe]:
    """A running pipe without lines on the shared cluster; it sends its requests to the second worker."""
    made = Pipe(cluster.workers[1], tmp_path)
    made.source_file.touch()
    create_topic(kafka.bootstrap, made.topic)
    made.create()
    made.wait_until_running()
    yield made
    made.delete()
