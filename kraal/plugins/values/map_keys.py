"""Hashable forms of lists and maps, for use as map keys."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

from typing_extensions import override


class MapKey(dict[Any, Any]):
    """A map that is used as a key of another map."""

    @override
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def as_key(value: Any) -> Hashable:
    """Return a hashable form of a value: a list as a tuple, a map as a `MapKey`."""
    if isinstance(value, list):
        return tuple(map(as_key, value))
    if isinstance(value, dict):
        return MapKey({name: as_key(item) for name, item in value.items()})
    return cast("Hashable", value)
