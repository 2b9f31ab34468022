"""Values of JSON answers, whose shapes depend on the worker: a value of another type counts as missing. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

NOTHING: Final[Mapping[str, Any]] = {}
_MOST: Final = 1e18
_OBJECT: Final = (dict, Mapping)
"""Types of a JSON object. `dict` comes first because a check against `Mapping` takes eight times as long."""


def text(found: Mapping[str, Any], key: str) -> str:
    """Return a string; empty if it is missing."""
    value = found.get(key)
    return value if isinstance(value, str) else ""


def whole(found: Mapping[str, Any], key: str) -> int | None:
    """Return an integer."""
    value = found.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(found: Mapping[str, Any], key: str) -> float | None:
    """Return a finite number."""
    value = found.get(key)
    return value if is_number(value) else None


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number; JSON parsers of Python accept NaN and Infinity."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MOST < value < _MOST


def mapping(found: object) -> Mapping[str, Any]:
    """Return an object; empty if it is something else."""
    return found if isinstance(found, _OBJECT) else NOTHING


def maps(found: object) -> list[Mapping[str, Any]]:
    """Return the objects of an array."""
    return [each for each in found if isinstance(each, _OBJECT)] if isinstance(found, list) else []


def texts(found: object) -> list[str]:
    """Return the strings of an array."""
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
