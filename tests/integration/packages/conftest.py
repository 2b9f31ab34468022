"""The wheel that the tests install, and an environment with the client alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.fakes.distributions import requirements, with_needs
from tests.integration.packages.environments import Environment, checked, locked


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return Kraal's wheel."""
    place = tmp_path_factory.mktemp("wheel")
    checked([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)])
    [found] = place.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def client(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with what `pip install kraal` brings, in the locked versions."""
    place = tmp_path_factory.mktemp("client")
    made = Environment.make(place / "venv")
    pins = place / "client.lock"
    pins.write_text(locked(with_needs({canonicalize_name(each.name) for each in requirements()})))
    made.pip("install", "--no-deps", "--require-hashes", "-r", str(pins))
    made.pip("install", "--no-deps", "--no-index", str(wheel))
    return made
