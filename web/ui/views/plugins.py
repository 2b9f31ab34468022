"""Installed plugins, the documentation of a plugin, and an example config derived from its keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kraal.config.hidden import HIDDEN, is_secret
from kraal.core.ids import Json
from web.ui.views.config import PASSWORD
from web.ui.views.texts import plain_text

CONNECTOR_TYPES: Final = ("source", "sink")
_TITLES: Final = {
    "source": "Sources",
    "sink": "Sinks",
    "transformation": "Transforms",
    "predicate": "Predicates",
    "converter": "Converters",
    "header_converter": "Header converters",
}
_NO_GROUP: Final = "Plugin"
_FRAMEWORK_KEYS: Final = frozenset({"name", "connector.class", "tasks.max"})
_EXAMPLE_VALUES: Final = {"topics": "my-topic", "topic": "my-topic"}
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """An installed plugin."""

    name: str
    """Class name, as used in configs."""
    type: str
    version: str

    @property
    def simple_name(self) -> str:
        """Class name without the package."""
        return self.name.rpartition(".")[2]

    @property
    def is_connector(self) -> bool:
        """Whether the plugin is a connector."""
        return self.type in CONNECTOR_TYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Plugins of one type."""

    type: str
    title: str
    plugins: tuple[Plugin, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDoc:
    """Documentation of one config key of a plugin."""

    name: str
    label: str
    type: str
    importance: str
    default: str | None
    required: bool
    documentation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGroup:
    """Keys of one group in the plugin's definition."""

    title: str
    keys: tuple[KeyDoc, ...]


def parse_plugins(response: Json, query: str = "") -> list[Plugin]:
    """Parse a response to `GET /connector-plugins`; return the plugins whose class name contains `query`, in order."""
    plugins = [
        Plugin(
            name=str(plugin.get("class") or ""),
            type=str(plugin.get("type") or ""),
            version=str(plugin.get("version") or ""),
        )
        for plugin in (response if isinstance(response, list) else [])
        if isinstance(plugin, dict)
    ]
    return [plugin for plugin in dict.fromkeys(plugins) if query.lower() in plugin.name.lower()]


def group_by_type(plugins: list[Plugin]) -> list[Kind]:
    """Group plugins by type, sources and sinks first, each sorted by the simple class name."""
    types = list(dict.fromkeys([*_TITLES, *(plugin.type for plugin in plugins)]))
    kinds = [
        Kind(
            type=name,
            title=_TITLES.get(name, name),
            plugins=tuple(
                sorted(
                    (plugin for plugin in plugins if plugin.type == name),
                    key=lambda plugin: (plugin.simple_name.lower(), plugin.name, plugin.version),
                )
            ),
        )
        for name in types
    ]
    return [kind for kind in kinds if kind.plugins]


def find_plugin(plugins: list[Plugin], name: str) -> Plugin | None:
    """Return the first plugin whose class name or alias is `name`.

    Aliases are the simple class name, with or without the suffix `Connector`.
    """
    return next(
        (
            plugin
            for plugin in plugins
            if name in (plugin.name, plugin.simple_name, plugin.simple_name.removesuffix("Connector"))
        ),
        None,
    )


def parse_keys(keys: Json) -> list[KeyGroup]:
    """Parse a response to `GET /connector-plugins/{plugin}/config`; ungrouped keys come first."""
    groups: dict[str, list[KeyDoc]] = {_NO_GROUP: []}
    for definition in _key_definitions(keys):
        groups.setdefault(str(definition.get("group") or _NO_GROUP), []).append(_parse_key(definition))
    return [KeyGroup(title=title, keys=tuple(key_docs)) for title, key_docs in groups.items() if key_docs]


def example(plugin: Plugin, keys: Json) -> dict[str, str]:
    """Return an example config with the required keys and the keys of high importance.

    A key without a default gets a placeholder in angle brackets; a secret gets the placeholder `HIDDEN`.
    """
    config = {"name": example_name(plugin), "connector.class": plugin.name, "tasks.max": "1"}
    for definition in _key_definitions(keys):
        key, default = str(definition.get("name") or ""), definition.get("default_value")
        is_included = definition.get("required") is True or definition.get("importance") == "HIGH"
        if key in _FRAMEWORK_KEYS or not key or not is_included or key == "topics.regex":
            continue
        is_secret_key = definition.get("type") == PASSWORD or is_secret(key, "x")
        if is_secret_key:
            config[key] = HIDDEN
        elif isinstance(default, str) and default:
            config[key] = default
        elif definition.get("required") is True or default is None or key in _EXAMPLE_VALUES:
            config[key] = _EXAMPLE_VALUES.get(key, f"<{key}>")
    return config


def initial_config(plugin: str) -> dict[str, str]:
    """Return the initial config in the form for a new connector."""
    return {"connector.class": plugin}


def example_name(plugin: Plugin) -> str:
    """Return a name for a connector, such as `my-file-stream-source` for FileStreamSourceConnector."""
    words = _WORDS.findall(plugin.simple_name.removesuffix("Connector"))
    return "my-" + ("-".join(word.lower() for word in words) or "connector")


def _parse_key(definition: Mapping[str, Any]) -> KeyDoc:
    name, default = str(definition.get("name") or ""), definition.get("default_value")
    return KeyDoc(
        name=name,
        label=str(definition.get("display_name") or name),
        type=str(definition.get("type") or ""),
        importance=str(definition.get("importance") or ""),
        default=None if default is None else str(default),
        required=definition.get("required") is True,
        documentation=plain_text(definition.get("documentation")),
    )


def _key_definitions(response: Json) -> list[Mapping[str, Any]]:
    return (
        [definition for definition in response if isinstance(definition, dict)]
        if isinstance(response, list)
        else []
    )
