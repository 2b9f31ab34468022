"""Lists and maps as keys of maps, which Python takes only where they cannot change."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

from typing_extensions import override


class MapKey(dict[Any, Any]):
    """A map that is a key of another one."""

    @override
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def as_key(value: Any) -> Hashable:
    """Return a value as Python takes it for a dict's key: a list as a tuple, a map as a `MapKey`."""
    if isinstance(value, list):
        return tuple(map(as_key, value))
    if isinstance(value, dict):
        return MapKey({name: as_key(item) for name, item in value.items()})
    return cast("Hashable", value)
