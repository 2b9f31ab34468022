"""Access to the fields of structs, for the converters with a schema registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraal.plugins.model.records import Struct
from kraal.plugins.model.schema import Field


def getter(field: Field, *, ignores_default: bool) -> Callable[[Struct], Any]:
    """Return a function that reads a field's value, or its default if the value is null."""
    name, default = field.name, None if ignores_default else field.schema.default
    return lambda value: default if (member := value.values.get(name)) is None else member
