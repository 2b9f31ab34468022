"""How converters read their config."""

from __future__ import annotations

from collections.abc import Mapping

from kraal.config.converters import CONVERTER_TYPE
from kraal.config.key import ConfigDef
from kraal.errors import ConfigInvalid


def parse(config_def: ConfigDef, config: Mapping[str, str], *, is_key: bool) -> dict[str, object]:
    """Return a converter's parsed config; `converter.type` is set here, as Java's `configure` does.

    Raises ValueError that names every error.
    """
    try:
        return config_def.parse({**config, CONVERTER_TYPE: "key" if is_key else "value"})
    except ConfigInvalid as exc:
        raise ValueError(str(exc)) from exc
