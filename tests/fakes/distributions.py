"""What Kraal's distribution requires, and what that needs on this machine."""

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
    """Return Kraal's requirements with those of extras, without Kraal itself."""
    optional = PROJECT["optional-dependencies"]
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in optional[extra])]
    return [requirement for text in texts if (requirement := Requirement(text)).name != "kraal"]


def needs_of(name: str) -> set[NormalizedName]:
    """Return what an installed package requires on this machine. Raises PackageNotFoundError."""
    dependencies = map(Requirement, distribution(name).requires or ())
    return {
        canonicalize_name(each.name)
        for each in dependencies
        if each.marker is None or each.marker.evaluate({"extra": ""})
    }


def with_needs(names: set[NormalizedName]) -> set[NormalizedName]:
    """Return packages with all that they need, directly or not. Raises PackageNotFoundError."""
    closure: set[NormalizedName] = set()
    waiting = set(names)
    while waiting:
        closure.add(name := waiting.pop())
        waiting |= needs_of(name) - closure
    return closure
