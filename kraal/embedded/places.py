"""Where things are kept on this machine, by the XDG base directories."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the directory for what can be fetched again: `KRAAL_CACHE`, or `kraal` in the user's cache."""
    return _place("KRAAL_CACHE", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """Return the directory for what must stay: `KRAAL_STATE`, or `kraal` in the user's state directory."""
    return _place("KRAAL_STATE", "XDG_STATE_HOME", ".local/state")


def _place(own: str, xdg: str, default: str) -> Path:
    if path := os.environ.get(own):
        return Path(path).absolute()
    if path := os.environ.get(xdg):
        return Path(path) / "kraal"
    return Path.home() / default / "kraal"
