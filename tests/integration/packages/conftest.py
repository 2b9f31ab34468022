"""Fixtures: the wheel that tests install, and an environment with only the client."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.fakes.distributions import add_dependencies, requirements
from tests.integration.packages.environments import Environment, locked_requirements, run_checked


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build Kraal's wheel and return its path."""
    home = tmp_path_factory.mktemp("wheel")
    run_checked([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home)])
    [path] = home.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def client_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment like that of `pip install kraal`, but with the locked versions of the dependencies."""
    home = tmp_path_factory.mktemp("client")
    environment = Environment.create(home / "venv")
    pins = home / "client.lock"
    pins.write_text(
        locked_requirements(
            add_dependencies({canonicalize_name(requirement.name) for requirement in requirements()})
        )
    )
    environment.pip("install", "--no-deps", "--require-hashes", "-r", str(pins))
    environment.pip("install", "--no-deps", "--no-index", str(wheel))
    return environment
