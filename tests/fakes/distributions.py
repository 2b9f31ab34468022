"""The requirements of Kraal's distribution, and their dependencies on this machine."""

from __future__ import annotations

import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def requirements(*extras: str) -> list[Requirement]:
    """Return the requirements of Kraal and of its `extras`, without Kraal itself."""
    optional = PROJECT["optional-dependencies"]
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in optional[extra])]
    return [requirement for text in texts if (requirement := Requirement(text)).name != "kraal"]


def find_requirements(name: str) -> set[NormalizedName]:
    """Return the requirements of an installed package on this machine. Raises PackageNotFoundError."""
    dependencies = map(Requirement, distribution(name).requires or ())
    return {
        canonicalize_name(dependency.name)
        for dependency in dependencies
        if dependency.marker is None or dependency.marker.evaluate({"extra": ""})
    }


def add_dependencies(names: set[NormalizedName]) -> set[NormalizedName]:
    """Return `names` with their transitive dependencies. Raises PackageNotFoundError."""
    closure: set[NormalizedName] = set()
    unvisited = set(names)
    while unvisited:
        closure.add(name := unvisited.pop())
        unvisited |= find_requirements(name) - closure
    return closure
