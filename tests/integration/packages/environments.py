"""Virtual environments with Kraal installed from its wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import NormalizedName, canonicalize_name

from tests.fakes.distributions import ROOT, requirements

PYTHON = os.environ.get("KRAAL_TEST_PYTHON") or sys.executable
"""The Python interpreter of the environments. Pip runs with the interpreter of this process."""
Result = subprocess.CompletedProcess[str]
PIP_TIMEOUT_S = 1200.0
"""Time limit of a command, long enough for pip to build PySpark."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment without pip and without system packages."""

    home: Path

    @classmethod
    def create(cls, home: Path) -> Environment:
        """Create an empty environment."""
        run_checked([PYTHON, "-m", "venv", "--without-pip", str(home)])
        return cls(home)

    @property
    def packages(self) -> Path:
        """Directory of the installed packages."""
        [directory] = (self.home / "lib").glob("python3*/site-packages")
        return directory

    def pip(self, *arguments: str) -> Result:
        """Run pip for this environment. Raises AssertionError with the output if the command fails."""
        python = str(self.home / "bin" / "python")
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, *arguments]
        return run_checked(command)

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of the environment's `kraal`."""
        return [str(self.home / "bin" / "kraal"), *arguments]

    def kraal(self, *arguments: str, env: Mapping[str, str] | None = None) -> Result:
        """Run the environment's `kraal`."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.home,
            env=clean_environment() | dict(env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def size(self) -> int:
        """Return the total size of the installed files in bytes."""
        return sum(path.stat().st_size for path in self.packages.rglob("*") if path.is_file())


def clean_environment() -> dict[str, str]:
    """Return the environment variables of this process, except those that add packages or settings."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL", "KRAAL_URL"))
    }


def run_checked(command: Iterable[str]) -> Result:
    """Run a command. Raises AssertionError with the output if the command fails."""
    result = subprocess.run(
        [*command],
        cwd=ROOT,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PIP_TIMEOUT_S,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def locked_requirements(names: set[NormalizedName]) -> str:
    """Return the lines of `requirements-worker.lock` that pin these packages, with their hashes."""
    text = (ROOT / "requirements-worker.lock").read_text("utf-8")
    pins = re.findall(r"^[a-z].*\\\n(?:    --hash.*\n)+", text, re.MULTILINE)
    return "".join(pin for pin in pins if canonicalize_name(pin.partition("==")[0]) in names)


def lowest_constraints(extras: Iterable[str]) -> str:
    """Return pip constraints that select the lowest allowed versions of Kraal's direct dependencies."""
    bounds = (
        (requirement.name, part.version)
        for requirement in requirements(*extras)
        for part in requirement.specifier
        if part.operator in (">=", "==")
    )
    return "".join(f"{name}=={bound}\n" for name, bound in bounds)
