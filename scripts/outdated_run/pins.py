"""Versions pinned by files of the repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from packaging.utils import canonicalize_name

from kraal.jars.ivy import Coordinates

_PYTHON: Final = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)
# A row of LICENSES.md, or a line of chromium.lock.
_JAVASCRIPT: Final = re.compile(
    r"^(?:\| `[\w.]+` \| (?:npm )?)?`?(@?[\w./-]+)`? (\d[\w.]*)(?: \||,| sha512-)", re.MULTILINE
)


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    """One version of one package; `source` is the file, or the group of jars, that pins it."""

    registry: str
    name: str
    version: str
    source: str


def python_pins(text: str, source: str) -> list[Pin]:
    """Return the pins of a pip lock or requirements file."""
    pins = {(canonicalize_name(name), version) for name, version in _PYTHON.findall(text)}
    return [Pin("python", name, version, source) for name, version in sorted(pins)]


def maven_pins(groups: Mapping[str, Iterable[str]]) -> list[Pin]:
    """Return the pins of groups of Maven coordinates."""
    return [
        Pin("maven", f"{coordinates.org}:{coordinates.name}", coordinates.revision, group)
        for group, names in groups.items()
        for coordinates in map(Coordinates.parse, names)
    ]


def javascript_pins(text: str, source: str) -> list[Pin]:
    """Return the npm packages of a table of vendored files, or of the browser's lock file."""
    pins = {(name, version) for name, version in _JAVASCRIPT.findall(text)}
    return [Pin("javascript", name, version, source) for name, version in sorted(pins)]
