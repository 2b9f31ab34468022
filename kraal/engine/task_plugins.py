"""The engine's interface to the plugin registry, and the creation of a task's plugin objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kraal.engine.api import TaskSpec
from kraal.engine.records.steps import Steps
from kraal.engine.records.tolerance import Tolerance
from kraal.plugins.api import Connector, Converter, HeaderConverter, SinkTask, SourceTask
from kraal.plugins.transform_chain import Chain

DEFAULT_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
DEFAULT_HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

Chains = Callable[[Mapping[str, str]], Chain]
"""Makes the transforms of a connector's config. Raises ValueError and KraalError."""


class Plugins(Protocol):
    """Finds plugin classes by the names and aliases that configs use. Raises KraalError for unknown names."""

    def connector_class(self, name: str) -> type[Connector]:
        """Return the class for a `connector.class`."""

    def converter_class(self, name: str) -> type[Converter]:
        """Return the class for a `key.converter` or `value.converter`."""

    def header_converter_class(self, name: str) -> type[HeaderConverter]:
        """Return the class for a `header.converter`."""

    def resolve(self, name: str) -> str | None:
        """Return the full name for a name or alias of any plugin; None if there is no such plugin."""


@dataclass(frozen=True, slots=True)
class Converters:
    """A task's two converters. `identity` is equal for tasks whose converters behave the same."""

    key: Converter
    value: Converter
    identity: tuple[object, ...]


def task_class(plugins: Plugins, spec: TaskSpec) -> tuple[type[SourceTask | SinkTask], str]:
    """Return the class of the spec's task, and the plugin's version."""
    connector = plugins.connector_class(spec.connector_config["connector.class"])
    return connector.task_class, connector.version


def make_converters(plugins: Plugins, worker: Mapping[str, str], spec: TaskSpec) -> Converters:
    """Make and configure the spec's converters: the connector's own, or the worker's defaults.

    A task whose records are converted elsewhere has bytes here. Source: Plugins.newConverter; a connector that names
    no class gets the worker's settings unchanged.
    """
    if spec.chain is not None:
        made = plugins.converter_class(DEFAULT_CONVERTER)()
        made.configure({}, is_key=False)
        return Converters(made, made, (type(made), "elsewhere"))
    key, key_id = _converter(plugins, worker, spec.connector_config, "key.converter")
    value, value_id = _converter(plugins, worker, spec.connector_config, "value.converter")
    return Converters(key, value, (key_id, value_id))


def make_steps(
    plugins: Plugins,
    worker: Mapping[str, str],
    config: Mapping[str, str],
    made: Converters,
    chain: Chain,
    tolerance: Tolerance,
) -> Steps:
    """Return the steps that process single records of a connector: its transforms and converters, including `made`."""
    names = {
        role: _class_name(
            plugins, _settings(worker, config, f"{role}.converter")[0].get(f"{role}.converter"), default
        )
        for role, default in _DEFAULTS.items()
    }
    source, own = _settings(worker, config, "header.converter")
    headers = plugins.header_converter_class(source.get("header.converter") or DEFAULT_HEADER_CONVERTER)()
    headers.configure(own, is_key=False)
    return Steps(
        chain=chain,
        key=made.key,
        value=made.value,
        headers=headers,
        key_class=names["key"],
        value_class=names["value"],
        header_class=names["header"],
        tolerance=tolerance,
    )


_DEFAULTS = {"key": DEFAULT_CONVERTER, "value": DEFAULT_CONVERTER, "header": DEFAULT_HEADER_CONVERTER}


def _class_name(plugins: Plugins, written: str | None, default: str) -> str:
    name = written or default
    return plugins.resolve(name) or name


def _settings(
    worker: Mapping[str, str], connector: Mapping[str, str], which: str
) -> tuple[Mapping[str, str], dict[str, str]]:
    """Return the config that names the converter, and the converter's own keys in it."""
    source = connector if connector.get(which) else worker
    prefix = f"{which}."
    return source, {k.removeprefix(prefix): v for k, v in source.items() if k.startswith(prefix)}


def _converter(
    plugins: Plugins, worker: Mapping[str, str], connector: Mapping[str, str], which: str
) -> tuple[Converter, tuple[object, ...]]:
    source, config = _settings(worker, connector, which)
    name = source.get(which) or DEFAULT_CONVERTER
    converter = plugins.converter_class(name)()
    converter.configure(config, is_key=which == "key.converter")
    return converter, (type(converter), tuple(sorted(config.items())))
