"""Restrictions on the configs of sources in real-time mode, which has no record path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kraal.config.connector.keys import ERROR_KEYS, KEY_CONVERTER, VALUE_CONVERTER
from kraal.config.key import ConfigValue
from kraal.core.errors import KraalError
from kraal.core.ids import Config
from kraal.plugins.api import SourceTask
from kraal.plugins.registry import Registry

_MODE: Final = "In real-time mode nothing handles records one by one"
_DEAD_LETTERS: Final = "errors.deadletterqueue.topic.name"
_ALLOWED: Final = ("errors.tolerance", "errors.log.enable", "errors.retry.timeout")


def real_time_errors(
    registry: Registry, class_name: str, config: Config, values: Mapping[str, ConfigValue]
) -> Iterator[tuple[str, str]]:
    """Yield pairs of a key and its error, for a connector whose tasks run as streams."""
    task = registry.connector_class(class_name).task_class
    if not issubclass(task, SourceTask) or not task.is_stream(
        {key: value for key, value in config.items() if value is not None}
    ):
        return
    if config.get("transforms"):
        yield "transforms", f"{_MODE}: it has no transforms"
    for name in _ALLOWED:
        default, value = ERROR_KEYS[name].default, values[name].value
        if value != default and not values[name].errors:
            text = str(default).lower()
            yield name, f"{_MODE}: {name} is {text}, for records that fail cannot be left out or tried again"
    if config.get(_DEAD_LETTERS):
        yield "errors.tolerance", f"{_MODE}: it has no dead letters, so no {_DEAD_LETTERS}"
    for name in (KEY_CONVERTER, VALUE_CONVERTER):
        if (written := values[name].value) is not None and not _by_columns(registry, str(written)):
            yield name, f"{_MODE}: {written} does, ByteArrayConverter does not"


def _by_columns(registry: Registry, name: str) -> bool:
    """Return whether a converter supports the column path; other checks report names that are not converters."""
    try:
        return registry.converter_class(name).by_columns
    except KraalError:
        return True
