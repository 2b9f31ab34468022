"""A connector's transforms, in their order and each under its condition: one record in, one or none out.

Everything here is a value that can be pickled, for it runs in Spark's Python processes.
Source: TransformationChain, TransformationStage, ConnectorConfig.transformationStages (Kafka 4.3.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from typing_extensions import override

from kraal.config.connector import PREDICATES, TRANSFORMS
from kraal.config.values import split_list, trim
from kraal.plugins.api import Predicate, Transformation
from kraal.plugins.columns import Columns
from kraal.plugins.records import Record
from kraal.plugins.registry import PluginClass, Registry

PREDICATE: Final = "predicate"
NEGATE: Final = "negate"
"""Keys that every transform has under its alias, whatever keys it declares."""

_NOT_INSTALLED: Final = "{prefix}type: Class {name} could not be found, or is no {kind}."

P = TypeVar("P", Transformation, Predicate)


class ChainInvalid(ValueError):
    """A connector's transforms cannot be set up; the text names the key and what is wrong."""


class StageFailed(Exception):
    """A transform or its predicate raised for a record. The text is the original error's.

    `alias` is the transform's name in the config, `class_name` its class, also where its predicate raised (Java
    names the transform then as well), `error` what was raised.
    """

    def __init__(self, alias: str, class_name: str, error: Exception) -> None:
        super().__init__(alias, class_name, error)
        self.alias = alias
        self.class_name = class_name
        self.error = error

    @override
    def __str__(self) -> str:
        return str(self.error)

    @property
    def java_class(self) -> str:
        """The exception's class as Java would name it; Python's name where Java has none."""
        cls = type(self.error)
        return str(getattr(cls, "java_class", f"{cls.__module__}.{cls.__qualname__}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One transform, and on which records it is applied."""

    alias: str
    class_name: str
    """The transform's full name, as users write it."""
    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: Record) -> Record | None:
        """Return the record as it goes on, None to drop it. Raises whatever the plugins raise."""
        if self.predicate is None or self.negate is not self.predicate.test(record):
            return self.transformation.apply(record)
        return record

    def columns(self, given: Columns) -> Columns | None:
        """Return what it does to all of a batch by columns; None: it goes by records."""
        if self.predicate is not None:
            told = self.predicate.known(given) if _answers(self.predicate, "known", "test") else None
            if told is None:
                return None
            if told is self.negate:
                return given
        changes = self.transformation
        if given.schemaless and not changes.schemaless_columns:
            return None
        return changes.columns(given) if _answers(changes, "columns", "apply") else None


@dataclass(frozen=True, slots=True)
class Chain:
    """A connector's transforms. Empty: records pass as they are."""

    stages: tuple[Stage, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.stages)

    def apply(self, record: Record) -> Record | None:
        """Return the record after the last transform, None once one has dropped it. Raises StageFailed."""
        current: Record | None = record
        for stage in self.stages:
            if current is None:
                break
            try:
                current = stage.apply(current)
            except Exception as exc:
                raise StageFailed(stage.alias, stage.class_name, exc) from exc
        return current

    def columns(self, given: Columns) -> Columns | None:
        """Return what all of a batch becomes, as expressions; None: it goes by records. Any thread, without Spark."""
        current: Columns | None = given
        for stage in self.stages:
            if current is None:
                break
            try:
                current = stage.columns(current)
            except Exception:  # noqa: BLE001 - what it is, `apply` says, of the first record
                return None
        return current


def _answers(plugin: Transformation | Predicate, columns: str, records: str) -> bool:
    """Tell whether the class that says what is done to a record also says what is done by columns."""
    for cls in type(plugin).__mro__:
        if columns in vars(cls):
            return True
        if records in vars(cls):
            return False
    return False


def make_chain(registry: Registry, config: Mapping[str, str]) -> Chain:
    """Set up the transforms of a connector's config, which is resolved.

    Raises ChainInvalid, and PluginFailed for a class that cannot be imported.
    """
    return Chain(tuple(_stage(registry, config, alias) for alias in split_list(config.get(TRANSFORMS) or "")))


def _stage(registry: Registry, config: Mapping[str, str], alias: str) -> Stage:
    prefix = f"{TRANSFORMS}.{alias}."
    own = _below(config, prefix)
    condition, negate = own.pop(PREDICATE, None), own.pop(NEGATE, None)
    name, cls = _class(registry, config, prefix)
    if cls is None or not issubclass(cls, Transformation):
        raise ChainInvalid(_NOT_INSTALLED.format(prefix=prefix, name=name, kind="transform"))
    return Stage(
        alias=alias,
        class_name=name,
        transformation=_configured(prefix, cls(), own),
        predicate=None if condition is None else _predicate(registry, config, condition),
        negate=(negate or "").lower() == "true",
    )


def _predicate(registry: Registry, config: Mapping[str, str], alias: str) -> Predicate:
    prefix = f"{PREDICATES}.{alias}."
    if alias not in split_list(config.get(PREDICATES) or ""):
        raise ChainInvalid(f"Unknown configuration '{prefix}plugin.version'")
    name, cls = _class(registry, config, prefix)
    if cls is None or not issubclass(cls, Predicate):
        raise ChainInvalid(_NOT_INSTALLED.format(prefix=prefix, name=name, kind="predicate"))
    return _configured(prefix, cls(), _below(config, prefix))


def _class(registry: Registry, config: Mapping[str, str], prefix: str) -> tuple[str, PluginClass | None]:
    """Return the full name and the class that an alias's type names; as it is written, and None for an unknown one."""
    written = trim(config.get(f"{prefix}type") or "")
    name = registry.resolve(written)
    return (written, None) if name is None else (name, registry.loaded(name))


def _configured(prefix: str, plugin: P, own: Mapping[str, str]) -> P:
    try:
        plugin.configure(own)
    except ValueError as exc:
        raise ChainInvalid(f"{prefix.removesuffix('.')}: {exc}") from exc
    return plugin


def _below(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the part of a config under a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
