"""Tests that `pip install 'kraal[worker,registry]'` installs a working worker with several sets of dependency versions.

PySpark is published only as a source distribution. Pip builds it once per machine, which takes minutes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution
from itertools import chain
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from kraal.broker.broker import free_port
from scripts.harness.processes import Running, wait_until
from tests.fakes.distributions import requirements
from tests.fakes.servers.schema_registry import schema_registry
from tests.fakes.spark.pipe import create_topic
from tests.integration.packages.environments import Environment, clean_environment, lowest_constraints

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

EXTRAS = ("worker", "registry")
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
CONVERTERS = {
    "string": STRING_CONVERTER,
    "avro": "io.confluent.connect.avro.AvroConverter",
    "json": "io.confluent.connect.json.JsonSchemaConverter",
}
DELIVERY_TIMEOUT_S = 300.0
REGISTRY_URL_KEY = "value.converter.schema.registry.url"
REGISTRY_CONFIG = {"value.converter.json.fail.invalid.schema": "true"}
LINES = [f"line {number}" for number in range(1000)]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    """Yield an empty environment, and remove it after the test, because an installed worker occupies 900 MB."""
    new_environment = Environment.create(tmp_path / "venv")
    yield new_environment
    shutil.rmtree(new_environment.home)


def test_worker_runs_with_the_lowest_allowed_versions(
    environment: Environment, wheel: Path, bootstrap: str, tmp_path: Path
) -> None:
    """Direct dependencies have their lowest allowed versions, and transitive dependencies their newest ones."""
    constraints = tmp_path / "constraints.txt"
    constraints.write_text(bounds := lowest_constraints(EXTRAS))
    lowest_versions = dict(line.split("==") for line in bounds.splitlines())
    assert {requirement.name for requirement in requirements(*EXTRAS)} - lowest_versions.keys() == {"certifi"}
    environment.pip("install", "-c", str(constraints), f"{wheel}[{','.join(EXTRAS)}]")
    environment.pip("check")
    for name, version in lowest_versions.items():
        assert _version(environment, name) in SpecifierSet(f"=={version}")
    _send_lines_through_kafka(environment, bootstrap, tmp_path)


def test_worker_runs_with_the_newest_allowed_versions(
    environment: Environment, wheel: Path, bootstrap: str, tmp_path: Path
) -> None:
    environment.pip("install", f"{wheel}[{','.join(EXTRAS)}]")
    environment.pip("check")
    _send_lines_through_kafka(environment, bootstrap, tmp_path)


def test_worker_runs_with_the_operators_lock_file(
    environment: Environment, wheel: Path, bootstrap: str, tmp_path: Path
) -> None:
    """Install as docs/deploy/install.md describes: with hashes, and with build packages from a lock file only."""
    install_arguments = ("install", "--require-hashes", "--no-build-isolation")
    environment.pip(*install_arguments, "-r", "requirements-build.lock")
    environment.pip(*install_arguments, "-r", "requirements-worker.lock")
    environment.pip("install", "--no-deps", "--no-index", str(wheel))
    environment.pip("check")
    _send_lines_through_kafka(environment, bootstrap, tmp_path)


def _version(environment: Environment, name: str) -> str:
    [distribution] = Distribution.discover(name=name, path=[str(environment.packages)])
    return distribution.version


def _send_lines_through_kafka(environment: Environment, bootstrap: str, home: Path) -> None:
    """Copy a file through Kafka with each converter, including those from the extra `registry`."""
    (home / "in").write_text("".join(f"{line}\n" for line in LINES))
    with schema_registry() as server:
        files = [
            *chain.from_iterable(
                _pipe(
                    home,
                    name,
                    bootstrap,
                    {"value.converter": converter, **REGISTRY_CONFIG, REGISTRY_URL_KEY: server.url},
                )
                for name, converter in CONVERTERS.items()
            )
        ]
        settings = {
            "bootstrap.servers": bootstrap,
            "key.converter": STRING_CONVERTER,
            "value.converter": STRING_CONVERTER,
            "offset.storage.file.filename": str(home / "offsets"),
            "listeners": f"http://127.0.0.1:{free_port()}",
        }
        (home / "worker.properties").write_text(
            "".join(f"{key}={value}\n" for key, value in settings.items())
        )
        command = environment.command("standalone", str(home / "worker.properties"), *map(str, files))
        worker = Running(command, log=home / "log", cwd=home, env=clean_environment())
        outputs = [home / f"{name}.out" for name in CONVERTERS]
        try:
            wait_until(
                "all lines were in the files of the sinks",
                lambda: all(
                    output.is_file() and output.read_text().splitlines() == LINES for output in outputs
                ),
                timeout_s=DELIVERY_TIMEOUT_S,
                program=worker,
            )
        finally:
            worker.stop()
        assert len(server.subjects) == len(CONVERTERS) - 1, (
            "all converters except StringConverter must register a schema"
        )


def _pipe(home: Path, name: str, bootstrap: str, converter: Mapping[str, str]) -> Iterator[Path]:
    """Write the config files of a source and a sink that share a separate topic. Yield the paths of the files."""
    create_topic(bootstrap, topic := f"packages-{home.parent.name}-{home.name}-{name}")
    source = {"connector.class": "FileStreamSource", "file": str(home / "in"), "topic": topic}
    sink = {"connector.class": "FileStreamSink", "file": str(home / f"{name}.out"), "topics": topic}
    for kind, config in {"source": source, "sink": sink}.items():
        path = home / f"{name}-{kind}.json"
        path.write_text(json.dumps({"name": path.stem, "config": {**config, **converter}}))
        yield path
