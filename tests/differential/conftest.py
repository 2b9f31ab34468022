"""Fixtures: the replay of both modes, and a pair of workers for comparing records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from kraal.broker.broker import Broker
from kraal.testing.process import WorkerProcess
from scripts.harness.java_connect import CURRENT, OLDER
from tests.differential.replay import TimeLimits
from tests.differential.steps.all_steps import SCRIPT
from tests.differential.workers import PROPERTIES, ReplayedStep, replay_all
from tests.fakes.workers.java_worker import JavaWorker


@pytest.fixture(
    scope="session", params=[CURRENT, *(pytest.param(version, marks=pytest.mark.slow) for version in OLDER)]
)
def java_version(request: pytest.FixtureRequest) -> str:
    """Return the version of Java Connect with which Kraal is compared."""
    return str(request.param)


@pytest.fixture(scope="session")
def replayed(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, java_version: str
) -> Mapping[str, Mapping[str, ReplayedStep]]:
    """Replay the script in both modes; return the responses by mode and step name."""
    directory = tmp_path_factory.mktemp("differential")
    results = replay_all(SCRIPT, directory, kafka.bootstrap, TimeLimits(), java_version)
    return {mode: {result.step.name: result for result in steps} for mode, steps in results.items()}


@pytest.fixture(scope="package")
def pair(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[WorkerProcess, WorkerProcess]]:
    """Run a standalone Java worker and a standalone Kraal worker, for comparing records."""
    directory = tmp_path_factory.mktemp("pair")
    java = JavaWorker(directory / "java", kafka.bootstrap, properties=PROPERTIES)
    kraal = WorkerProcess(directory / "kraal", kafka.bootstrap, properties=PROPERTIES)
    try:
        with ThreadPoolExecutor() as threads:
            list(threads.map(WorkerProcess.start, (java, kraal)))
        yield java, kraal
    finally:  # kill the workers, because Java takes a second per task to stop
        java.close()
        kraal.close()
