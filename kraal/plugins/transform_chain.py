"""The chain of a connector's transforms and their predicates, which maps each record to one record or none.

All objects are picklable values because they run in Spark's Python processes.
Source: TransformationChain, TransformationStage, ConnectorConfig.transformationStages (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from typing_extensions import override

from kraal.config.connector.keys import PREDICATES, TRANSFORMS
from kraal.config.values import split_list, trim
from kraal.plugins.api import Predicate, Transformation
from kraal.plugins.entries import PluginClass
from kraal.plugins.model.capabilities import declares
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import Record
from kraal.plugins.registry import Registry

PREDICATE: Final = "predicate"
NEGATE: Final = "negate"
"""The keys of every transform, in addition to those that its class declares."""

_NOT_INSTALLED_ERROR: Final = "{prefix}type: Class {name} could not be found, or is not a {kind}."

P = TypeVar("P", Transformation, Predicate)


class ChainInvalid(ValueError):
    """Raised if a connector's transforms cannot be created; the message contains the key and the error."""


class StageFailed(Exception):
    """Raised if a transform or its predicate raises an exception for a record. The message is that of the exception.

    `alias` is the transform's name in the config, and `error` is the original exception. `class_name` is the
    transform's class even if its predicate raised, as in Java.
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
        """The class name of the equivalent Java exception; the Python name if there is no equivalent."""
        cls = type(self.error)
        return str(getattr(cls, "java_class", f"{cls.__module__}.{cls.__qualname__}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One transform and the condition under which it applies."""

    alias: str
    class_name: str
    """The transform's full name, as users write it."""
    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: Record) -> Record | None:
        """Return the transformed record, or None to drop it. Propagates the plugins' exceptions."""
        if self.predicate is None or self.negate is not self.predicate.test(record):
            return self.transformation.apply(record)
        return record

    def columns(self, batch: Columns) -> Columns | None:
        """Return the columns of the batch after this stage; None if the batch must take the record path."""
        if self.predicate is not None:
            known_result = self.predicate.known(batch) if declares(self.predicate, "known", "test") else None
            if known_result is None:
                return None
            if known_result is self.negate:
                return batch
        transform = self.transformation
        if batch.schemaless and not transform.schemaless_columns:
            return None
        return transform.columns(batch) if declares(transform, "columns", "apply") else None


@dataclass(frozen=True, slots=True)
class Chain:
    """A connector's transforms. An empty chain returns records unchanged."""

    stages: tuple[Stage, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.stages)

    def apply(self, record: Record) -> Record | None:
        """Return the record after the last transform, or None if a transform dropped it. Raises StageFailed."""
        current: Record | None = record
        for stage in self.stages:
            if current is None:
                break
            try:
                current = stage.apply(current)
            except Exception as exc:
                raise StageFailed(stage.alias, stage.class_name, exc) from exc
        return current

    def columns(self, batch: Columns) -> Columns | None:
        """Return the columns of the batch after all stages; None if the batch must take the record path.

        Thread-safe; does not use Spark.
        """
        current: Columns | None = batch
        for stage in self.stages:
            if current is None:
                break
            try:
                current = stage.columns(current)
            except Exception:  # noqa: BLE001 - `apply` reports the error for the first record
                return None
        return current


def make_chain(registry: Registry, config: Mapping[str, str]) -> Chain:
    """Create the transforms of a connector's resolved config.

    Raises ChainInvalid, and PluginFailed for a class that cannot be imported.
    """
    return Chain(
        tuple(_make_stage(registry, config, alias) for alias in split_list(config.get(TRANSFORMS) or ""))
    )


def _make_stage(registry: Registry, config: Mapping[str, str], alias: str) -> Stage:
    prefix = f"{TRANSFORMS}.{alias}."
    settings = _settings_with_prefix(config, prefix)
    condition, negate = settings.pop(PREDICATE, None), settings.pop(NEGATE, None)
    name, cls = _look_up_class(registry, config, prefix)
    if cls is None or not issubclass(cls, Transformation):
        raise ChainInvalid(_NOT_INSTALLED_ERROR.format(prefix=prefix, name=name, kind="transform"))
    return Stage(
        alias=alias,
        class_name=name,
        transformation=_configure(prefix, cls(), settings),
        predicate=None if condition is None else _make_predicate(registry, config, trim(condition)),
        negate=trim(negate or "").lower() == "true",
    )


def _make_predicate(registry: Registry, config: Mapping[str, str], alias: str) -> Predicate:
    prefix = f"{PREDICATES}.{alias}."
    if alias not in split_list(config.get(PREDICATES) or ""):
        raise ChainInvalid(f"Unknown configuration '{prefix}plugin.version'")
    name, cls = _look_up_class(registry, config, prefix)
    if cls is None or not issubclass(cls, Predicate):
        raise ChainInvalid(_NOT_INSTALLED_ERROR.format(prefix=prefix, name=name, kind="predicate"))
    return _configure(prefix, cls(), _settings_with_prefix(config, prefix))


def _look_up_class(
    registry: Registry, config: Mapping[str, str], prefix: str
) -> tuple[str, PluginClass | None]:
    """Return the full name and class of an alias's type; if the type is unknown, the configured name and None."""
    configured_name = trim(config.get(f"{prefix}type") or "")
    name = registry.resolve(configured_name)
    return (configured_name, None) if name is None else (name, registry.load_class(name))


def _configure(prefix: str, plugin: P, settings: Mapping[str, str]) -> P:
    try:
        plugin.configure(settings)
    except ValueError as exc:
        raise ChainInvalid(f"{prefix.removesuffix('.')}: {exc}") from exc
    return plugin


def _settings_with_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings whose names begin with `prefix`, by name without the prefix."""
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
