"""Kraal's directories of the current user, according to the XDG Base Directory Specification."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path


def cache_dir() -> Path:
    """Return the cache directory: `KRAAL_CACHE`, or `kraal` in the user's cache directory."""
    return _user_directory("KRAAL_CACHE", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """Return the state directory: `KRAAL_STATE`, or `kraal` in the user's state directory."""
    return _user_directory("KRAAL_STATE", "XDG_STATE_HOME", ".local/state")


def pyspark_jars(pattern: str) -> Iterator[Path]:
    """Yield PySpark's jars whose names match `pattern`, without importing PySpark."""
    spec = find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        yield from (Path(location) / "jars").glob(pattern)


def _user_directory(variable: str, xdg: str, default: str) -> Path:
    if path := os.environ.get(variable):
        return Path(path).absolute()
    if path := os.environ.get(xdg):
        return Path(path) / "kraal"
    return Path.home() / default / "kraal"
