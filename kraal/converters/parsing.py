"""Parsing of converter configs."""

from __future__ import annotations

from collections.abc import Mapping

from kraal.config.converter import CONVERTER_TYPE
from kraal.config.key import ConfigDef
from kraal.core.errors import ConfigInvalid


def parse(config_def: ConfigDef, config: Mapping[str, str], *, is_key: bool) -> dict[str, object]:
    """Parse a converter's config and set `converter.type`, as Java's `configure` does.

    Raises ValueError, which names every error.
    """
    try:
        return config_def.parse({**config, CONVERTER_TYPE: "key" if is_key else "value"})
    except ConfigInvalid as exc:
        raise ValueError(str(exc)) from exc
