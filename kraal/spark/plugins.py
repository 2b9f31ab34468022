"""What the engine needs of the plugin registry, and how it makes a task's plugin objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kraal.plugins.api import Connector, Converter, SinkTask, SourceTask
from kraal.spark.api import TaskSpec

DEFAULT_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"


class Plugins(Protocol):
    """Finds plugin classes by the names and aliases that configs use. Raises KraalError for unknown names."""

    def connector_class(self, name: str) -> type[Connector]:
        """Return the class for a `connector.class`."""

    def converter_class(self, name: str) -> type[Converter]:
        """Return the class for a `key.converter` or `value.converter`."""


@dataclass(frozen=True, slots=True)
class Converters:
    """A task's two converters. `identity` is equal for tasks whose converters do the same."""

    key: Converter
    value: Converter
    identity: tuple[object, ...]


def task_class(plugins: Plugins, spec: TaskSpec) -> tuple[type[SourceTask | SinkTask], str]:
    """Return the class of the spec's task, and the plugin's version."""
    connector = plugins.connector_class(spec.connector_config["connector.class"])
    return connector.task_class, connector.version


def make_converters(plugins: Plugins, worker: Mapping[str, str], spec: TaskSpec) -> Converters:
    """Make and configure the spec's converters: the connector's own, or else the worker's.

    Source: Plugins.newConverter; a connector that names no class does not see the worker's settings changed.
    """
    key, key_id = _converter(plugins, worker, spec.connector_config, "key.converter")
    value, value_id = _converter(plugins, worker, spec.connector_config, "value.converter")
    return Converters(key, value, (key_id, value_id))


def _converter(
    plugins: Plugins, worker: Mapping[str, str], connector: Mapping[str, str], which: str
) -> tuple[Converter, tuple[object, ...]]:
    source = connector if connector.get(which) else worker
    name = source.get(which) or DEFAULT_CONVERTER
    prefix = f"{which}."
    config = {key.removeprefix(prefix): value for key, value in source.items() if key.startswith(prefix)}
    converter = plugins.converter_class(name)()
    converter.configure(config, is_key=which == "key.converter")
    return converter, (type(converter), tuple(sorted(config.items())))
