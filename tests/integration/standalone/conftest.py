"""One warm worker process for the tests of this directory that do not end it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import Pipe, create_topic

Launch = Callable[..., WorkerProcess]


@pytest.fixture(scope="package")
def worker(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """The worker that tests share; they leave it running."""
    process = WorkerProcess(tmp_path_factory.mktemp("worker"), kafka.bootstrap)
    process.start()
    yield process
    code = process.end()
    process.close()
    assert code == 0, process.log_text()


@pytest.fixture
def pipe(worker: WorkerProcess, kafka: Broker, tmp_path: Path) -> Iterator[Pipe]:
    """A running pipe on the shared worker, without any lines yet."""
    made = Pipe(worker, tmp_path)
    made.source_file.touch()
    create_topic(kafka.bootstrap, made.topic)
    made.create()
    made.wait_until_running()
    yield made
    made.delete()


@pytest.fixture
def own_worker(kafka: Broker, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Makes workers of a test's own, not started; whatever is left of them is ended after the test."""
    made: list[WorkerProcess] = []

    def make(
        directory: Path = tmp_path,
        properties: Mapping[str, str] | None = None,
        connectors: tuple[Path, ...] = (),
    ) -> WorkerProcess:
        made.append(WorkerProcess(directory, kafka.bootstrap, properties=properties, connectors=connectors))
        return made[-1]

    yield make
    for each in made:
        each.close()
