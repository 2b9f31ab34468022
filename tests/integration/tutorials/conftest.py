"""Fixtures: Kraal's wheel, and an environment with the dependencies of Kraal but without Kraal."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hatchling.builders.wheel import WheelBuilder

from kraal.jars.directories import cache_dir
from kraal.jars.jars import ensure

ROOT: Final = Path(__file__).parents[3]
_PYTHON: Final = """#!/bin/sh
{python} "$@" || exit
if [ "$1 $2" = "-m venv" ]; then
    for packages in "$3"/lib/python*/site-packages; do echo {packages} >"$packages/dependencies.pth"; done
fi
"""
"""A `python3` script whose environments contain Kraal's dependencies, because installing PySpark takes minutes."""
_ISOLATED_COMMAND: Final = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Command prefix for an isolated network and process namespace."""
_JAR_GROUPS: Final = ("broker", "compiler", "connect", "debezium", "plugins", "spark")
"""Groups of jars that the pages use."""

Follow = Callable[..., str]


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of this source tree, and return the directory of the wheel."""
    directory = tmp_path_factory.mktemp("wheels")
    list(WheelBuilder(str(ROOT)).build(directory=str(directory), versions=["standard"]))
    return directory


@pytest.fixture
def follow(wheels: Path, tmp_path: Path) -> Follow:
    """Return a function that follows a page of docs/tutorials, and fails if the output differs from the page."""
    programs = tmp_path / "programs"
    programs.mkdir()
    shim = programs / "python3"
    shim.write_text(
        _PYTHON.format(python=sys.executable, packages=sysconfig.get_path("purelib")), encoding="utf-8"
    )
    shim.chmod(0o755)

    def follow_page(name: str, *services: str) -> str:
        page = ROOT / "docs" / "tutorials" / name
        user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        program = [sys.executable, "-m", "tests.integration.tutorials.run"]
        result = subprocess.run(
            [
                _ISOLATED_COMMAND[0],
                *user,
                *_ISOLATED_COMMAND[1:],
                *program,
                str(page),
                str(tmp_path),
                *services,
            ],
            cwd=ROOT,
            env=_environment(programs, wheels, tmp_path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        sys.stdout.write(result.stdout)  # shown by `pytest -rP`, with the time of each step
        assert result.returncode == 0, result.stdout
        return result.stdout

    return follow_page


def _write_ivy_settings(directory: Path) -> Path:
    """Download the jars that pages use. Return an Ivy settings file with which `kraal plugins add` finds the jars."""
    for group in _JAR_GROUPS:
        ensure(group)
    files = cache_dir() / "jars" / "[organisation]__[artifact]__[revision](-[classifier]).[ext]"
    path = directory / "ivysettings.xml"
    path.write_text(
        '<ivysettings><settings defaultResolver="downloaded"/><resolvers><filesystem name="downloaded">'
        f'<artifact pattern="{files}"/></filesystem></resolvers></ivysettings>',
        encoding="utf-8",
    )
    return path


def _environment(programs: Path, wheels: Path, directory: Path) -> dict[str, str]:
    """Return the environment of a reader without Kraal, whose pip installs only the wheel."""
    own_paths = {str(Path(sys.executable).parent), sysconfig.get_path("scripts")}
    path = [entry for entry in os.environ["PATH"].split(os.pathsep) if entry not in own_paths]
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KRAAL_", "PYTHON", "PIP_", "PYTEST_")) and name != "VIRTUAL_ENV"
    }
    return variables | {
        "PATH": os.pathsep.join([str(programs), *path]),
        "KRAAL_CACHE": str(cache_dir()),
        "KRAAL_STATE": str(directory / "state"),
        "KRAAL_IVY_SETTINGS": str(_write_ivy_settings(directory)),
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # 0 disables build isolation in pip
        "PIP_FORCE_REINSTALL": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_QUIET": "1",
    }
