"""Fields of records, as the converters with a registry take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraal.plugins.records import Struct
from kraal.plugins.schema import Field


def getter(field: Field, *, ignores_default: bool) -> Callable[[Struct], Any]:
    """Return what gives a field's value, or its default in place of null."""
    name, default = field.name, None if ignores_default else field.schema.default
    return lambda value: default if (found := value.values.get(name)) is None else found
