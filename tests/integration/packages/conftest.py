"""The wheel installed by the tests, and an environment with only the client."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.fakes.distributions import add_dependencies, requirements
from tests.integration.packages.environments import Environment, locked_requirements, run_checked


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return Kraal's wheel."""
    place = tmp_path_factory.mktemp("wheel")
    run_checked([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)])
    [found] = place.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def client(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment as created by `pip install kraal`, with the locked versions."""
    place = tmp_path_factory.mktemp("client")
    made = Environment.create(place / "venv")
    pins = place / "client.lock"
    pins.write_text(
        locked_requirements(add_dependencies({canonicalize_name(each.name) for each in requirements()}))
    )
    made.pip("install", "--no-deps", "--require-hashes", "-r", str(pins))
    made.pip("install", "--no-deps", "--no-index", str(wheel))
    return made
