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


def make_replace_null_key(source: str) -> Key:
    """Declare `replace.null.with.default`, a key of most field transforms."""
    return Key(
        name=REPLACE_NULL,
        type=ConfigType.BOOLEAN,
        default=True,
        importance=Importance.MEDIUM,
        doc="Whether to use the default of a field instead of null.",
        source=f"{source}.REPLACE_NULL_WITH_DEFAULT_CONFIG",
    )


def parse_settings(keys: ConfigDef, config: Mapping[str, str]) -> dict[str, Any]:
    """Parse a transform's own keys; the result contains every key. Raises ConfigException for the first error.

    As in Java, duplicates in lists of distinct entries are dropped. They are errors only when a config is validated.
    """
    values = keys.validate({name: _drop_duplicates(keys.get(name), text) for name, text in config.items()})
    for value in values:
        if value.errors:
            raise ConfigException(value.errors[0])
    return {value.name: value.value for value in values}


def _drop_duplicates(key: Key | None, text: str) -> str:
    if key is None or key.validator not in {distinct_entries, validate_distinct_entries}:
        return text
    return ",".join(dict.fromkeys(split_list(text)))


class PartTransformation(Transformation):
    """Base class of transforms with one variant for keys and one for values."""

    version: ClassVar[str] = VERSION
    is_key: ClassVar[bool]

    def get_schema(self, record: Record) -> Schema | None:
        """Return the schema of the key or value."""
        return record.key_schema if self.is_key else record.value_schema

    def get_value(self, record: Record) -> Any:
        """Return the key or value."""
        return record.key if self.is_key else record.value

    def get_part(self, given: Columns) -> Part:
        """Return the key or value as a `Part`."""
        return given.part(is_key=self.is_key)

    def with_part(self, record: Record, schema: Schema | None, value: Any) -> Record:
        """Return the record with another key or value. Avoids `dataclasses.replace`, which is several times slower."""
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
    """Cache of results for a few schemas, which are compared by identity. Results are not pickled.

    Many converters return the same schema object for every record. For other converters, the cache only adds a lookup.
    """

    _MAX_SIZE: ClassVar[int] = 16

    def __init__(self, make: Callable[[Schema], T]) -> None:
        self._make = make
        self._cache: dict[int, tuple[Schema, T]] = {}

    def __call__(self, schema: Schema) -> T:
        """Return the result for the schema. Exceptions of `make` are propagated and not cached."""
        cached = self._cache.get(id(schema))
        if cached is not None:
            return cached[1]
        if len(self._cache) >= self._MAX_SIZE:
            self._cache.clear()
        value = self._make(schema)
        self._cache[id(schema)] = (schema, value)
        return value

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return PerSchema, (self._make,)


class PerTopic(Generic[T]):
    """Cache of results by topic name. Results are not pickled."""

    _MAX_SIZE: ClassVar[int] = 1_000

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._cache: dict[str, T] = {}

    def __call__(self, topic: str) -> T:
        """Return the result for the topic. Exceptions of `make` are propagated and not cached."""
        try:
            return self._cache[topic]
        except KeyError:
            pass
        if len(self._cache) >= self._MAX_SIZE:
            self._cache.clear()
        value = self._cache[topic] = self._make(topic)
        return value

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return PerTopic, (self._make,)


@rule("a non-empty list")
def validate_non_empty_list(name: str, value: object) -> str | None:
    """Require a non-empty list. Source: NonEmptyListValidator."""
    if isinstance(value, tuple) and value:
        return None
    return f"Invalid value {'null' if value is None else '[]'} for configuration {name}: Empty list"


@rule("a non-empty list without empty or duplicate entries")
def validate_distinct_entries(name: str, value: object) -> str | None:
    """Require a non-empty list of distinct entries. Source: ConfigDef.ValidList (4.3.0)."""
    if value == ():
        return f"Configuration '{name}' must not be empty. Valid values include: any non-empty value"
    return distinct_entries(name, value)
