"""Restrictions on the configs of sources in real-time mode, which does not support the record path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kraal.config.connector.keys import ERROR_KEYS, KEY_CONVERTER, VALUE_CONVERTER
from kraal.config.key import ConfigValue
from kraal.core.errors import KraalError
from kraal.core.ids import Config
from kraal.plugins.api import SourceTask
from kraal.plugins.registry import Registry

_REASON: Final = "Real-time mode cannot process records one at a time"
_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_DEFAULT_ONLY_KEYS: Final = ("errors.tolerance", "errors.log.enable", "errors.retry.timeout")
"""Keys that must have their default values."""


def check_real_time(
    registry: Registry, class_name: str, config: Config, values: Mapping[str, ConfigValue]
) -> Iterator[tuple[str, str]]:
    """Yield pairs of a key and its error, for a connector whose tasks run as streams."""
    task = registry.connector_class(class_name).task_class
    if not issubclass(task, SourceTask) or not task.is_stream(
        {key: value for key, value in config.items() if value is not None}
    ):
        return
    if config.get("transforms"):
        yield "transforms", f"{_REASON}: it does not support transforms"
    for name in _DEFAULT_ONLY_KEYS:
        default, value = ERROR_KEYS[name].default, values[name].value
        if value != default and not values[name].errors:
            required_value = str(default).lower()
            yield (
                name,
                f"{_REASON}: {name} must be {required_value}, because failed records cannot be skipped or retried",
            )
    if config.get(_DEAD_LETTERS):
        yield (
            "errors.tolerance",
            f"{_REASON}: it has no dead letters, so it does not support {_DEAD_LETTERS}",
        )
    for name in (KEY_CONVERTER, VALUE_CONVERTER):
        if (converter := values[name].value) is not None and not _supports_columns(registry, str(converter)):
            yield name, f"{_REASON}: it does not support {converter}; use ByteArrayConverter"


def _supports_columns(registry: Registry, name: str) -> bool:
    """Return whether a converter supports the column path; True if the class is not a converter.

    Other checks report such a class.
    """
    try:
        return registry.converter_class(name).by_columns
    except KraalError:
        return True
