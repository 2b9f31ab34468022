"""What tests share: both modes replayed once, and a pair of workers that records go through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from scripts.harness.java_connect import CURRENT, OLDER
from tests.differential.replay import Patience
from tests.differential.stage import PROPERTIES, Replayed, replay_all
from tests.differential.steps.all_steps import SCRIPT
from tests.fakes.workers.java_worker import JavaWorker


@pytest.fixture(
    scope="session", params=[CURRENT, *(pytest.param(each, marks=pytest.mark.slow) for each in OLDER)]
)
def java_version(request: pytest.FixtureRequest) -> str:
    """The version of Java Connect to compare with."""
    return str(request.param)


@pytest.fixture(scope="session")
def replayed(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, java_version: str
) -> Mapping[str, Mapping[str, Replayed]]:
    """What both workers of each mode said, by mode and the step's name."""
    directory = tmp_path_factory.mktemp("differential")
    replayed = replay_all(SCRIPT, directory, kafka.bootstrap, Patience(), java_version)
    return {mode: {each.step.name: each for each in steps} for mode, steps in replayed.items()}


@pytest.fixture(scope="package")
def pair(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[WorkerProcess, WorkerProcess]]:
    """A standalone worker of Java's and one of Kraal's, for what becomes of records."""
    directory = tmp_path_factory.mktemp("pair")
    java = JavaWorker(directory / "java", kafka.bootstrap, properties=PROPERTIES)
    kraal = WorkerProcess(directory / "kraal", kafka.bootstrap, properties=PROPERTIES)
    try:
        with ThreadPoolExecutor() as threads:
            list(threads.map(WorkerProcess.start, (java, kraal)))
        yield java, kraal
    finally:  # Java would take a second for each task
        java.close()
        kraal.close()
