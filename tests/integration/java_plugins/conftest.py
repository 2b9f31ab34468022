"""One Kraal worker and one Java worker with the same Java plugins, and the directory that these are in."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.jars.jars import ensure
from kraal.jars.java_module import compile_jar
from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import PROVIDER, TRANSFORMS, VERSIONS, java_worker, kraal_worker
from tests.integration.java_plugins.kafka_tests import TOOLS, move_connectors

JAVA = Path(__file__).parents[3] / "java" / "src"
FORMER = "connect-4.3"
"""The jars of Kafka 4.3, before classes moved (KAFKA-20297)."""
GENERATIONS = {"before44": FORMER, "since44": "connect"}
"""Plugins that use such classes, with the jars that they are built with."""


@pytest.fixture(scope="session")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the plugins of the tests: Kafka's, those of `java/src`, and transforms.

    Some are of an older version of Kafka than the workers, or built with one, and use classes that have moved since.
    """
    made = tmp_path_factory.mktemp("plugins")
    for plugin in ("file", "faulty", "tests", "transforms", *VERSIONS, *GENERATIONS):
        (made / plugin).mkdir()
    jars = {path.name.split("__")[1]: path for path in ensure(FORMER)}
    shutil.copy(jars["connect-file"], made / "file")
    compile_jar(JAVA / "faulty", ensure(FORMER), made / "faulty" / "faulty.jar")
    another = next(path for path in ensure("spark") if "kafka-clients" in path.name)
    shutil.copy(
        another, made / "faulty"
    )  # plugins bring clients of other versions along, which must not be used
    (tests,) = ensure("connect-tests")
    move_connectors(tests, made / "tests" / "moved.jar")
    for number, jar in enumerate(ensure("connect-tools")):
        move_connectors(jar, made / "tests" / f"tools-{number}.jar", {} if number else TOOLS)
    for jar in (jars["kafka-server-common"], *ensure("junit")):  # what they need
        shutil.copy(jar, made / "tests")
    for jar in ensure("transforms"):
        shutil.copy(jar, made / "transforms")
    with zipfile.ZipFile(made / "transforms" / "manifests.jar", "w") as manifests:  # they have none
        manifests.writestr(
            "META-INF/services/org.apache.kafka.connect.transforms.Transformation", "\n".join(TRANSFORMS)
        )
    for plugin, group in GENERATIONS.items():
        compile_jar(JAVA / plugin, ensure(group), made / plugin / "plugin.jar")
    for version in VERSIONS:
        versioned = made / version / "versioned.jar"
        compile_jar(JAVA / "versioned", ensure("connect"), versioned)
        with zipfile.ZipFile(versioned, "a") as opened:
            opened.writestr("version.txt", version)
    return made


@pytest.fixture(scope="session")
def worker_properties(plugin_path: Path) -> dict[str, str]:
    """The properties of workers, of Java ones too."""
    return {
        "plugin.path": str(plugin_path),
        "plugin.discovery": "service_load",  # all have manifests
        "offset.flush.interval.ms": "500",
        "config.providers": "rotating",
        "config.providers.rotating.class": PROVIDER,
        "connector.client.config.override.policy": "Telling",  # the short name of `POLICY`
    }


@pytest.fixture(scope="package")
def cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """A cluster of one worker that tests share; they leave no plugin blocked."""
    properties = {**worker_properties, "plugins.jvm.options": "-Xmx512M"}
    properties["metric.reporters"] = "com.example.OnTheClassPathOfJavaWorkers"  # must not reach the JVM
    with kraal_worker(tmp_path_factory.mktemp("kraal"), kafka.bootstrap, properties) as made:
        yield made


@pytest.fixture(scope="package")
def blocked_cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """Another cluster of one worker, for tests that leave blocked plugins behind; it soon calls tasks stalled."""
    properties = {**worker_properties, "plugins.jvm.options": "-Xmx512M", "task.stall.timeout.ms": "2000"}
    with kraal_worker(tmp_path_factory.mktemp("blocked"), kafka.bootstrap, properties) as made:
        yield made


@pytest.fixture(scope="package")
def java(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[MixedCluster]:
    """A Java worker of a group of its own, with the same plugins; tests share it, and leave no plugin blocked."""
    with java_worker(tmp_path_factory.mktemp("java"), kafka.bootstrap, worker_properties) as made:
        yield made
