"""The engine's interface to the plugin registry, and functions that create a task's plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kraal.config.connector.converters import BYTES, converter_settings
from kraal.config.connector.keys import HEADER_CONVERTER, KEY_CONVERTER, VALUE_CONVERTER
from kraal.engine.api import TaskSpec
from kraal.engine.records.steps import Steps
from kraal.engine.records.tolerance import Tolerance
from kraal.plugins.api import Connector, Converter, HeaderConverter, SinkTask, SourceTask
from kraal.plugins.transform_chain import Chain

Chains = Callable[[Mapping[str, str]], Chain]
"""Creates the transforms of a connector's config. Raises ValueError and KraalError."""


class Plugins(Protocol):
    """Finds plugin classes by the names and aliases that configs use. Raises KraalError for unknown names."""

    def connector_class(self, name: str) -> type[Connector]:
        """Return the class for a `connector.class`."""

    def converter_class(self, name: str) -> type[Converter]:
        """Return the class for a `key.converter` or `value.converter`."""

    def header_converter_class(self, name: str) -> type[HeaderConverter]:
        """Return the class for a `header.converter`."""

    def resolve(self, name: str) -> str | None:
        """Return the class name for a name or alias of any plugin; None if there is no such plugin."""


@dataclass(frozen=True, slots=True)
class Converters:
    """The key and value converters of a task. `identity` is equal for tasks whose converters behave the same."""

    key: Converter
    value: Converter
    identity: tuple[object, ...]


def task_class(plugins: Plugins, spec: TaskSpec) -> tuple[type[SourceTask | SinkTask], str]:
    """Return the task class of the spec's connector, and the connector's version."""
    connector = plugins.connector_class(spec.connector_config["connector.class"])
    return connector.task_class, connector.version


def make_converters(plugins: Plugins, worker: Mapping[str, str], spec: TaskSpec) -> Converters:
    """Create and configure the task's converters, as set in the connector's config or else in the worker's.

    For a task whose records are converted in another process (`TaskSpec.chain`), return byte converters.
    """
    if spec.chain is not None:
        converter = plugins.converter_class(BYTES)()
        converter.configure({}, is_key=False)
        return Converters(converter, converter, (type(converter), "elsewhere"))
    key, key_id = _make_converter(plugins, worker, spec.connector_config, KEY_CONVERTER)
    value, value_id = _make_converter(plugins, worker, spec.connector_config, VALUE_CONVERTER)
    return Converters(key, value, (key_id, value_id))


def make_steps(
    plugins: Plugins,
    worker: Mapping[str, str],
    config: Mapping[str, str],
    converters: Converters,
    chain: Chain,
    tolerance: Tolerance,
) -> Steps:
    """Return the steps that process a connector's records one by one: its transforms and all converters."""
    name, settings = converter_settings(worker, config, HEADER_CONVERTER)
    headers = plugins.header_converter_class(name)()
    headers.configure(settings, is_key=False)
    key, value, header = (
        _resolve_name(plugins, converter_settings(worker, config, role).class_name)
        for role in (KEY_CONVERTER, VALUE_CONVERTER, HEADER_CONVERTER)
    )
    return Steps(
        chain=chain,
        key=converters.key,
        value=converters.value,
        headers=headers,
        key_class=key,
        value_class=value,
        header_class=header,
        tolerance=tolerance,
    )


def _resolve_name(plugins: Plugins, name: str) -> str:
    return plugins.resolve(name) or name


def _make_converter(
    plugins: Plugins, worker: Mapping[str, str], connector: Mapping[str, str], role: str
) -> tuple[Converter, tuple[object, ...]]:
    name, settings = converter_settings(worker, connector, role)
    converter = plugins.converter_class(name)()
    converter.configure(settings, is_key=role == KEY_CONVERTER)
    return converter, (type(converter), tuple(sorted(settings.items())))
