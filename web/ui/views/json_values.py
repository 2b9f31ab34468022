"""Typed access to values in JSON responses; values of an unexpected type count as missing. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

_EMPTY_MAPPING: Final[Mapping[str, Any]] = {}
_MAX_NUMBER: Final = 1e18
_OBJECT: Final = (dict, Mapping)
"""Types of a JSON object; `dict` comes first because checking for `Mapping` is eight times slower."""


def text(content: Mapping[str, Any], key: str) -> str:
    """Return a string; empty if the string is missing."""
    value = content.get(key)
    return value if isinstance(value, str) else ""


def get_integer(content: Mapping[str, Any], key: str) -> int | None:
    """Return an integer; None if the integer is missing."""
    value = content.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(content: Mapping[str, Any], key: str) -> float | None:
    """Return a finite number; None if the number is missing."""
    value = content.get(key)
    return value if is_number(value) else None


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number; Python's JSON parser accepts NaN and Infinity."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and -_MAX_NUMBER < value < _MAX_NUMBER
    )


def mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object; empty if the value has another type."""
    return value if isinstance(value, _OBJECT) else _EMPTY_MAPPING


def maps(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in an array."""
    return [item for item in value if isinstance(item, _OBJECT)] if isinstance(value, list) else []


def texts(value: object) -> list[str]:
    """Return the strings in an array."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
