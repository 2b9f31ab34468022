"""`pip install 'kraal[worker,registry]'` with the lowest, the newest and the locked versions: data flows.

PySpark is published as source only; pip builds it once per machine, which takes minutes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from kraal.broker.broker import free_port
from scripts.harness.processes import Running, wait_until
from scripts.harness.workers import UP_S
from tests.fakes.distributions import requirements
from tests.fakes.spark.pipe import create_topic
from tests.integration.packages.environments import Environment, clean, lowest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

EXTRAS = ("worker", "registry")
LINES = [f"line {number}" for number in range(1000)]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    """Return an empty environment, which is removed afterwards: with a worker in it, it has 900 MB."""
    made = Environment.make(tmp_path / "venv")
    yield made
    shutil.rmtree(made.place)


def test_a_worker_runs_with_the_lowest_versions_that_it_allows(
    environment: Environment, wheel: Path, bootstrap: str, tmp_path: Path
) -> None:
    """What Kraal names itself is as old as it may be; what that needs is as new."""
    constraints = tmp_path / "constraints.txt"
    constraints.write_text(bounds := lowest(EXTRAS))
    bound = dict(line.split("==") for line in bounds.splitlines())
    assert {each.name for each in requirements(*EXTRAS)} - bound.keys() == {"certifi"}
    environment.pip("install", "-c", str(constraints), f"{wheel}[{','.join(EXTRAS)}]")
    environment.pip("check")
    for name, version in bound.items():
        assert _version(environment, name) in SpecifierSet(f"=={version}")
    _send_lines_through_kafka(environment, bootstrap, tmp_path)


def test_a_worker_runs_with_the_newest_versions_that_it_allows(
    environment: Environment, wheel: Path, bootstrap: str, tmp_path: Path
) -> None:
    environment.pip("install", f"{wheel}[{','.join(EXTRAS)}]")
    environment.pip("check")
    _send_lines_through_kafka(environment, bootstrap, tmp_path)


def test_a_worker_runs_with_the_lock_for_operators(
    environment: Environment, wheel: Path, bootstrap: str, tmp_path: Path
) -> None:
    """As docs/deploy/install.md describes it: with hashes, and nothing is built with packages that no lock names."""
    hashed = ("install", "--require-hashes", "--no-build-isolation")
    environment.pip(*hashed, "-r", "requirements-build.lock")
    environment.pip(*hashed, "-r", "requirements-worker.lock")
    environment.pip("install", "--no-deps", "--no-index", str(wheel))
    environment.pip("check")
    _send_lines_through_kafka(environment, bootstrap, tmp_path)


def _version(environment: Environment, name: str) -> str:
    [found] = Distribution.discover(name=name, path=[str(environment.packages)])
    return found.version


def _send_lines_through_kafka(environment: Environment, bootstrap: str, place: Path) -> None:
    create_topic(bootstrap, topic := f"packages-{place.parent.name}-{place.name}")
    (place / "in").write_text("".join(f"{line}\n" for line in LINES))
    source = {"connector.class": "FileStreamSource", "file": str(place / "in"), "topic": topic}
    sink = {"connector.class": "FileStreamSink", "file": str(place / "out"), "topics": topic}
    files = []
    for name, config in {"source": source, "sink": sink}.items():
        files.append(place / f"{name}.json")
        files[-1].write_text(json.dumps({"name": name, "config": config}))
    settings = {
        "bootstrap.servers": bootstrap,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.file.filename": str(place / "offsets"),
        "listeners": f"http://127.0.0.1:{free_port()}",
    }
    (place / "worker.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = environment.command("standalone", str(place / "worker.properties"), *map(str, files))
    worker = Running(command, log=place / "log", cwd=place, env=clean())
    try:
        wait_until(
            "all lines were in the sink's file",
            lambda: (place / "out").is_file() and (place / "out").read_text().splitlines() == LINES,
            timeout_s=UP_S,
            program=worker,
        )
    finally:
        worker.stop()
