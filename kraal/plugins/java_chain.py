"""Decides whether a connector's transforms, predicates and converters run in the plugins' JVM.

The whole chain of a connector runs in one language. It runs in Java if the connector is a Java class or names a class
that only `plugin.path` contains, otherwise in Python. Kafka's own classes exist in both languages under the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kraal.config.connector.converters import DEFAULTS, converter_settings
from kraal.config.connector.keys import PREDICATES, TRANSFORMS
from kraal.config.values import split_list, trim
from kraal.core.ids import Config
from kraal.plugins.entries import Plugin
from kraal.plugins.registry import Registry

_RETRY_KEYS: Final = ("errors.retry.timeout", "errors.retry.delay.max.ms")
_PYTHON: Final = "kraal"
"""A placeholder for the class of a connector in Python."""
_REMEDY: Final = "use a class of plugin.path, or one of Kafka's own."
_SAME_KIND_REQUIRED: Final = "all transforms and converters of a connector must be of one kind:"


def needs_java(registry: Registry, worker: Mapping[str, str], config: Config) -> bool:
    """Return whether any transform, predicate or converter of a connector is a Java class in `plugin.path`."""
    return any(registry.is_java(name) for _, name in _class_keys(registry, worker, config))


def chain_config(registry: Registry, worker: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str]:
    """Return the config from which the JVM creates the chain of a Python connector, with full class names."""
    chain = {"name": config.get("name", ""), "connector.class": _PYTHON}
    chain.update((key, config[key]) for key in (TRANSFORMS, PREDICATES, *_RETRY_KEYS) if key in config)
    for prefix in (f"{TRANSFORMS}.", f"{PREDICATES}."):
        chain.update((key, text) for key, text in config.items() if key.startswith(prefix))
    for role in DEFAULTS:
        settings = converter_settings(worker, config, role).settings
        chain.update((f"{role}.{key}", text) for key, text in settings.items())
    chain.update(_class_keys(registry, worker, config))
    return chain


def check_chain(
    registry: Registry, worker: Mapping[str, str], plugin: Plugin, config: Config
) -> Iterator[tuple[str, str]]:
    """Yield the key and the error of each class that cannot be part of a connector's chain."""
    if registry.is_java(plugin.name):
        python_error = "{name} is a plugin in Python, which Java connectors cannot use; " + _REMEDY
        yield from _find_python_only(registry, _class_keys(registry, {}, config), python_error)
        return
    class_keys = list(_class_keys(registry, worker, config))
    java_classes = [(key, name) for key, name in class_keys if registry.is_java(name)]
    if java_classes:
        reason = f"{java_classes[0][1]} ({java_classes[0][0]}) is a Java plugin"
        mixture_error = f"{{name}} is a plugin in Python, and {reason}; {_SAME_KIND_REQUIRED} {_REMEDY}"
        yield from _find_python_only(registry, class_keys, mixture_error)


def list_java_classes(registry: Registry, worker: Mapping[str, str], config: Config) -> list[tuple[str, str]]:
    """Return the key and class of each Java transform, predicate and converter; none for a Java connector."""
    if registry.is_java(config.get("connector.class") or ""):
        return []
    return [(key, name) for key, name in _class_keys(registry, worker, config) if registry.is_java(name)]


def _find_python_only(
    registry: Registry, class_keys: Iterable[tuple[str, str]], error_template: str
) -> Iterator[tuple[str, str]]:
    """Yield the key and the error of each class that exists only in Python."""
    for key, name in class_keys:
        if registry.resolve(name) is not None and not registry.is_in_jvm(name):
            yield key, error_template.format(name=name)


def _class_keys(registry: Registry, worker: Mapping[str, str], config: Config) -> Iterator[tuple[str, str]]:
    """Yield the keys that name classes of the chain, with the classes' full names."""

    def resolve(key: str, text: str) -> tuple[str, str]:
        name = trim(text)
        return key, registry.resolve(name) or name

    for role in (TRANSFORMS, PREDICATES):
        for alias in split_list(config.get(role) or ""):
            key = f"{role}.{alias}.type"
            yield resolve(key, config.get(key) or "")
    for role in DEFAULTS:
        yield resolve(role, converter_settings(worker, config, role).class_name)
