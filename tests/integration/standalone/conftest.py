"""Fixtures: a warm worker process for tests that do not stop it, and workers for single tests."""

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
    """Run the shared worker, which tests must not stop."""
    process = WorkerProcess(tmp_path_factory.mktemp("worker"), kafka.bootstrap)
    process.start()
    yield process
    exit_code = process.end()
    process.close()
    assert exit_code == 0, process.log_text()


@pytest.fixture
def pipe(worker: WorkerProcess, kafka: Broker, tmp_path: Path) -> Iterator[Pipe]:
    """Run a pipe with an empty source file on the shared worker."""
    pipe = Pipe(worker, tmp_path)
    pipe.source_file.touch()
    create_topic(kafka.bootstrap, pipe.topic)
    pipe.create()
    pipe.wait_until_running()
    yield pipe
    pipe.delete()


@pytest.fixture
def make_worker(kafka: Broker, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Yield a function that creates workers without starting them. They are killed after the test."""
    workers: list[WorkerProcess] = []

    def make(
        directory: Path = tmp_path,
        properties: Mapping[str, str] | None = None,
        connectors: tuple[Path, ...] = (),
    ) -> WorkerProcess:
        workers.append(
            WorkerProcess(directory, kafka.bootstrap, properties=properties, connectors=connectors)
        )
        return workers[-1]

    yield make
    for worker in workers:
        worker.close()
