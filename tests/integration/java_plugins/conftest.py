"""One distributed worker with Java plugins, and the directory that they are in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.jars.jars import ensure
from kraal.jars.java_module import compile_jar, java_class_path
from kraal.testing import ProcessCluster
from tests.integration.java_plugins.flows import wait_for_plugins

FAULTY = Path(__file__).parents[3] / "java" / "src" / "faulty"


@pytest.fixture(scope="session")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with Kafka's file connectors, and with the faulty connector of `java/src/faulty`."""
    made = tmp_path_factory.mktemp("plugins")
    (made / "file").mkdir()
    (made / "faulty").mkdir()
    jar = next(path for path in ensure("connect") if "connect-file" in path.name)
    shutil.copy(jar, made / "file")
    compile_jar(FAULTY, java_class_path(), made / "faulty" / "faulty.jar")
    return made


@pytest.fixture(scope="session")
def worker_properties(plugin_path: Path) -> dict[str, str]:
    """The properties of workers, of Java ones too."""
    return {"plugin.path": str(plugin_path), "offset.flush.interval.ms": "500"}


@pytest.fixture(scope="package")
def cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """A cluster of one worker that tests share."""
    directory = tmp_path_factory.mktemp("java-plugins")
    made = ProcessCluster(directory=directory, bootstrap=kafka.bootstrap, properties=worker_properties)
    try:
        made.start(1)
        wait_for_plugins(made.alive[0])
        yield made
        codes = [worker.end() for worker in made.workers]
    finally:
        made.close()
    assert codes == [0], made.workers[0].log_text()
