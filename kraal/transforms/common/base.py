"""Base class of transforms of a record's key or value, shared config keys, and caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

from typing_extensions import override

from kraal import __version__
from kraal.config.checks import distinct_entries, rule
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.config.values import split_list
from kraal.plugins.api import Transformation
from kraal.plugins.model.columns import Columns, Part
from kraal.plugins.model.records import Record
from kraal.plugins.model.schema import Schema
from kraal.transforms.common.errors import ConfigException

VERSION: Final = __version__

REPLACE_NULL: Final = "replace.null.with.default"

T = TypeVar("T")


def replace_null_key(source: str) -> Key:
    """Return the declaration of `replace.null.with.default`, which most field transforms have."""
    return Key(
        name=REPLACE_NULL,
        type=ConfigType.BOOLEAN,
        default=True,
        importance=Importance.MEDIUM,
        doc="Whether to use the default of a field instead of null.",
        source=f"{source}.REPLACE_NULL_WITH_DEFAULT_CONFIG",
    )


def settings(keys: ConfigDef, config: Mapping[str, str]) -> dict[str, Any]:
    """Parse a transform's own keys; the result contains every key. Raises ConfigException for the first error.

    Duplicates in lists of distinct entries are dropped, as Java does without validation.
    """
    values = keys.validate({name: _distinct(keys.get(name), text) for name, text in config.items()})
    for value in values:
        if value.errors:
            raise ConfigException(value.errors[0])
    return {value.name: value.value for value in values}


def _distinct(key: Key | None, text: str) -> str:
    if key is None or key.validator not in {distinct_entries, some_distinct_entries}:
        return text
    return ",".join(dict.fromkeys(split_list(text)))


class PartTransformation(Transformation):
    """Base class of transforms with one variant for keys and one for values."""

    version: ClassVar[str] = VERSION
    is_key: ClassVar[bool]

    def get_schema(self, record: Record) -> Schema | None:
        """Return the schema of the part."""
        return record.key_schema if self.is_key else record.value_schema

    def get_value(self, record: Record) -> Any:
        """Return the part."""
        return record.key if self.is_key else record.value

    def get_part(self, given: Columns) -> Part:
        """Return the part as columns."""
        return given.part(is_key=self.is_key)

    def with_part(self, record: Record, schema: Schema | None, value: Any) -> Record:
        """Return the record with another part. Not `dataclasses.replace`, which takes several times as long."""
        return Record(
            topic=record.topic,
            partition=record.partition,
            key_schema=schema if self.is_key else record.key_schema,
            key=value if self.is_key else record.key,
            value_schema=record.value_schema if self.is_key else schema,
            value=record.value if self.is_key else value,
            timestamp_ms=record.timestamp_ms,
            headers=record.headers,
            offset=record.offset,
        )


class PerSchema(Generic[T]):
    """Cache of results for a few schemas, by their identity; not pickled.

    Converters that know a record's schema return the same object each time; for others the cache only costs a lookup.
    """

    _MAX_SIZE: ClassVar[int] = 16

    def __init__(self, make: Callable[[Schema], T]) -> None:
        self._make = make
        self._known: dict[int, tuple[Schema, T]] = {}

    def __call__(self, schema: Schema) -> T:
        """Return the result for the schema. Raises the errors of computing it, each time."""
        cached = self._known.get(id(schema))
        if cached is not None:
            return cached[1]
        if len(self._known) >= self._MAX_SIZE:
            self._known.clear()
        value = self._make(schema)
        self._known[id(schema)] = (schema, value)
        return value

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return PerSchema, (self._make,)


class PerTopic(Generic[T]):
    """Cache of results by topic name; not pickled."""

    _MAX_SIZE: ClassVar[int] = 1_000

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._known: dict[str, T] = {}

    def __call__(self, topic: str) -> T:
        """Return the result for the topic. Raises the errors of computing it, each time."""
        try:
            return self._known[topic]
        except KeyError:
            pass
        if len(self._known) >= self._MAX_SIZE:
            self._known.clear()
        value = self._known[topic] = self._make(topic)
        return value

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return PerTopic, (self._make,)


@rule("a non-empty list")
def non_empty_list(name: str, value: object) -> str | None:
    """Require a list with entries. Source: NonEmptyListValidator."""
    if isinstance(value, tuple) and value:
        return None
    return f"Invalid value {'null' if value is None else '[]'} for configuration {name}: Empty list"


@rule("a non-empty list without empty or duplicate entries")
def some_distinct_entries(name: str, value: object) -> str | None:
    """Require a list with distinct entries. Source: ConfigDef.ValidList (4.3.0)."""
    if value == ():
        return f"Configuration '{name}' must not be empty. Valid values include: any non-empty value"
    return distinct_entries(name, value)
