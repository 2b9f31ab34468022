"""One cluster of three workers for the tests of this directory that do not end any of them."""

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
    """Makes clusters of a test's own, not started; whatever is left of them is ended after the test."""
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
    """A running pipe on the shared cluster, asked for through its second worker, without any lines yet."""
    made = Pipe(cluster.workers[1], tmp_path)
    made.source_file.touch()
    create_topic(kafka.bootstrap, made.topic)
    made.create()
    made.wait_until_running()
    yield made
    made.delete()
