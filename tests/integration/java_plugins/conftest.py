"""Fixtures: a Kraal worker and a Java worker with the same Java plugins, and the plugins' directory."""

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
from tests.integration.java_plugins.flows import (
    PROVIDER,
    TRANSFORMS,
    VERSIONS,
    java_worker,
    kraal_worker,
    ledger_properties,
)
from tests.integration.java_plugins.kafka_tests import TOOLS, move_connectors

JAVA_SOURCES = Path(__file__).parents[3] / "java" / "src"
JARS_BEFORE_44 = "connect-4.3"
"""The jars of Kafka 4.3, which is the last release before KAFKA-20297 moved classes."""
BUILD_JARS = {"before44": JARS_BEFORE_44, "since44": "connect"}
"""Maps each plugin that uses moved classes to the jars that it is built with."""


@pytest.fixture(scope="session")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the plugins of the tests: Kafka's, those in `java/src`, and public transforms.

    Some plugins are part of, or built for, an older Kafka version than the workers, and use classes that were moved.
    """
    directory = tmp_path_factory.mktemp("plugins")
    for plugin in ("file", "faulty", "tests", "transforms", *VERSIONS, *BUILD_JARS):
        (directory / plugin).mkdir()
    jars = {path.name.split("__")[1]: path for path in ensure(JARS_BEFORE_44)}
    shutil.copy(jars["connect-file"], directory / "file")
    compile_jar(JAVA_SOURCES / "faulty", ensure(JARS_BEFORE_44), directory / "faulty" / "faulty.jar")
    other_clients = next(path for path in ensure("spark") if "kafka-clients" in path.name)
    shutil.copy(
        other_clients, directory / "faulty"
    )  # plugins may bundle other versions of Kafka's clients, which must not be used
    (tests,) = ensure("connect-tests")
    move_connectors(tests, directory / "tests" / "moved.jar")
    for number, jar in enumerate(ensure("connect-tools")):
        move_connectors(jar, directory / "tests" / f"tools-{number}.jar", {} if number else TOOLS)
    for jar in (jars["kafka-server-common"], *ensure("junit")):  # dependencies of the connectors
        shutil.copy(jar, directory / "tests")
    for jar in ensure("transforms"):
        shutil.copy(jar, directory / "transforms")
    with zipfile.ZipFile(
        directory / "transforms" / "manifests.jar", "w"
    ) as manifests:  # the transforms have no manifests
        manifests.writestr(
            "META-INF/services/org.apache.kafka.connect.transforms.Transformation", "\n".join(TRANSFORMS)
        )
    for plugin, group in BUILD_JARS.items():
        compile_jar(JAVA_SOURCES / plugin, ensure(group), directory / plugin / "plugin.jar")
    for version in VERSIONS:
        versioned_jar = directory / version / "versioned.jar"
        compile_jar(JAVA_SOURCES / "versioned", ensure("connect"), versioned_jar)
        with zipfile.ZipFile(versioned_jar, "a") as archive:
            archive.writestr("version.txt", version)
    return directory


@pytest.fixture(scope="session")
def worker_properties(plugin_path: Path) -> dict[str, str]:
    """Return the properties of the Kraal and Java workers."""
    return {
        "plugin.path": str(plugin_path),
        "plugin.discovery": "service_load",  # all plugins have manifests
        "offset.flush.interval.ms": "500",
        "config.providers": "rotating",
        "config.providers.rotating.class": PROVIDER,
        "connector.client.config.override.policy": "Telling",  # the alias of `POLICY`
    }


@pytest.fixture(scope="package")
def cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """Run a cluster of one worker with a ledger for tests that leave no plugin blocked."""
    properties = {**worker_properties, "plugins.jvm.options": "-Xmx512M", **ledger_properties("java-ledger")}
    properties["metric.reporters"] = "com.example.OnTheClassPathOfJavaWorkers"  # must not reach the JVM
    with kraal_worker(tmp_path_factory.mktemp("kraal"), kafka.bootstrap, properties) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def cluster_for_blocking_plugins(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """Run a cluster of one worker for tests that leave plugins blocked. The worker detects stalls after two seconds."""
    properties = {**worker_properties, "plugins.jvm.options": "-Xmx512M", "task.stall.timeout.ms": "2000"}
    with kraal_worker(tmp_path_factory.mktemp("blocked"), kafka.bootstrap, properties) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def java_cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[MixedCluster]:
    """Run a Java worker in its own group, with the same plugins, for tests that leave no plugin blocked."""
    with java_worker(tmp_path_factory.mktemp("java"), kafka.bootstrap, worker_properties) as cluster:
        yield cluster
