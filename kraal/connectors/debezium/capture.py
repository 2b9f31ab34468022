"""What a config of Debezium's PostgreSQL connector captures, and in which form. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraal.config.connector.keys import TRANSFORMS
from kraal.config.java_regex import compile_pattern
from kraal.config.values import split_list, trim
from kraal.plugins.api import NotComparable

if TYPE_CHECKING:
    from kraal.config.connector.converters import ConverterSettings
    from kraal.config.patterns import Pattern

JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
UNWRAP: Final = "io.debezium.transforms.ExtractNewRecordState"
DEFAULT_PLACEHOLDER: Final = "__debezium_unavailable_value"
_TOPIC_NAMING: Final = "io.debezium.schema.SchemaTopicNamingStrategy"
_LIST_SEPARATOR: Final = re.compile(r"(?<!\\),")
_NOT_IN_TOPIC_NAMES: Final = re.compile(r"[^a-zA-Z0-9._-]")
_REFUSED: Final[Mapping[str, frozenset[str]]] = {
    "snapshot.mode": frozenset({"never", "no_data", "custom", "configuration_based"}),
}
"""Values with which the topics do not contain all rows."""
_REQUIRED: Final[Mapping[str, frozenset[str]]] = {
    "topic.naming.strategy": frozenset({_TOPIC_NAMING}),
    "field.name.adjustment.mode": frozenset({"none"}),
    "skipped.operations": frozenset({"t"}),
    "transaction.boundary": frozenset({"poll"}),
}
"""The only supported values of these keys; each is the default."""
_UNSUPPORTED: Final = (
    "message.key.columns",
    "snapshot.include.collection.list",
    "snapshot.select.statement.overrides",
    "converters",
)
"""Keys with which rows are missing from the topics, or have another key or another form."""
_UNSUPPORTED_FOR_UNWRAP: Final = (
    "predicate",
    "route.by.field",
    "drop.fields.header.name",
    "delete.handling.mode",
    "drop.tombstones",
)
"""The last two are settings of versions before 2.5."""
_MASK_PREFIXES: Final = ("column.mask.", "column.truncate.")
_WRITE_TIME_S: Final = 5.0
"""Seconds that a producer takes at most to write a batch to topics that respond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwrapping:
    """The transform ExtractNewRecordState."""

    keeps_deletions: bool
    """Whether the topics have records of deletions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What a connector captures."""

    prefix: str
    """The first part of the topic names, which is also the server in the offsets."""
    delimiter: str
    include_schemas: Sequence[Pattern]
    exclude_schemas: Sequence[Pattern]
    include_tables: Sequence[Pattern]
    exclude_tables: Sequence[Pattern]
    include_columns: Sequence[Pattern]
    exclude_columns: Sequence[Pattern]
    masked_columns: Sequence[Pattern]
    time_mode: str
    decimal_mode: str
    binary_mode: str
    placeholder: str
    """The value in place of a large value that an update did not change."""
    slot: str
    key_has_schema: bool
    value_has_schema: bool
    decimals_are_numbers: bool
    """Whether JsonConverter writes decimals as numbers."""
    unwrapping: Unwrapping | None
    settle_s: float
    """Seconds that records take at most from the connector's queue to the topics."""

    def captures(self, schema: str, table: str) -> bool:
        """Return whether the connector captures a table."""
        name = f"{schema}.{table}"
        return _passes(schema, self.include_schemas, self.exclude_schemas) and _passes(
            name, self.include_tables, self.exclude_tables
        )

    def captures_column(self, schema: str, table: str, column: str) -> bool:
        """Return whether records contain a column that is not part of the key."""
        return _passes(f"{schema}.{table}.{column}", self.include_columns, self.exclude_columns)

    def is_masked(self, schema: str, table: str, column: str) -> bool:
        """Return whether records contain a masked or truncated value in place of a column's value."""
        return _matches(f"{schema}.{table}.{column}", self.masked_columns)

    def make_topic(self, schema: str, table: str) -> str:
        """Return the topic of a table."""
        name = self.delimiter.join((self.prefix, schema, table))
        return _NOT_IN_TOPIC_NAMES.sub("_", name)


def parse_capture(
    config: Mapping[str, str], key_converter: ConverterSettings, value_converter: ConverterSettings
) -> Capture:
    """Return what a config captures. Raises NotComparable for a config that a proof does not support."""
    for problem in _find_problems(config, key_converter, value_converter):
        raise NotComparable(problem)
    masked = [
        pattern
        for key in config
        if key.startswith(_MASK_PREFIXES)
        for pattern in _parse_patterns(config, key)
    ]
    return Capture(
        prefix=config.get("topic.prefix", ""),
        delimiter=config.get("topic.delimiter") or ".",
        include_schemas=_parse_patterns(config, "schema.include.list"),
        exclude_schemas=_parse_patterns(config, "schema.exclude.list"),
        include_tables=_parse_patterns(config, "table.include.list"),
        exclude_tables=_parse_patterns(config, "table.exclude.list"),
        include_columns=_parse_patterns(config, "column.include.list"),
        exclude_columns=_parse_patterns(config, "column.exclude.list"),
        masked_columns=masked,
        time_mode=_get_mode(config, "time.precision.mode", "adaptive"),
        decimal_mode=_get_mode(config, "decimal.handling.mode", "precise"),
        binary_mode=_get_mode(config, "binary.handling.mode", "bytes"),
        placeholder=config.get("unavailable.value.placeholder") or DEFAULT_PLACEHOLDER,
        slot=config.get("slot.name") or "debezium",
        key_has_schema=_has_schema(key_converter),
        value_has_schema=_has_schema(value_converter),
        decimals_are_numbers=value_converter.settings.get("decimal.format", "").upper() == "NUMERIC",
        unwrapping=_parse_unwrapping(config),
        settle_s=_WRITE_TIME_S + 2 * _parse_ms(config, "poll.interval.ms", 500) / 1000,
    )


def _find_problems(
    config: Mapping[str, str], key_converter: ConverterSettings, value_converter: ConverterSettings
) -> Iterator[str]:
    """Yield why a proof does not support a config."""
    for role, converter in (("key.converter", key_converter), ("value.converter", value_converter)):
        if converter.class_name != JSON_CONVERTER:
            yield f"{role} is {converter.class_name}; a proof of this connector supports {JSON_CONVERTER} only"
    for key, refused in _REFUSED.items():
        if (mode := _get_mode(config, key, "")) in refused:
            yield f"with {key}={mode}, the topics may lack rows that existed before the connector"
    for key, required in _REQUIRED.items():
        if (value := trim(config.get(key) or "")) and value not in required:
            yield f"{key}={value} is not supported by proofs; supported: {', '.join(sorted(required))}"
    for key in config:
        if key.startswith(_UNSUPPORTED) and config[key]:
            yield f"the key {key} is not supported by proofs"
    aliases = split_list(config.get(TRANSFORMS) or "")
    for alias in aliases:
        class_name = trim(config.get(f"{TRANSFORMS}.{alias}.type") or "")
        if class_name != UNWRAP or len(aliases) > 1:
            yield (
                f"the transform {alias} ({class_name}) is not supported by proofs of this connector; supported: none, "
                f"or {UNWRAP} alone"
            )
        for setting in _UNSUPPORTED_FOR_UNWRAP:
            if config.get(f"{TRANSFORMS}.{alias}.{setting}"):
                yield f"the key {TRANSFORMS}.{alias}.{setting} is not supported by proofs"


def _parse_unwrapping(config: Mapping[str, str]) -> Unwrapping | None:
    """Return the only transform of a config that `_find_problems` accepts; None without transforms."""
    aliases = split_list(config.get(TRANSFORMS) or "")
    if not aliases:
        return None
    prefix = f"{TRANSFORMS}.{aliases[0]}."
    return Unwrapping(
        keeps_deletions=_get_mode(config, f"{prefix}delete.tombstone.handling.mode", "") != "drop"
    )


def _has_schema(converter: ConverterSettings) -> bool:
    return trim(converter.settings.get("schemas.enable", "true")).lower() != "false"


def _get_mode(config: Mapping[str, str], key: str, default: str) -> str:
    return trim(config.get(key) or default).lower()


def _parse_ms(config: Mapping[str, str], key: str, default: int) -> int:
    text = trim(config.get(key) or "")
    return int(text) if text.isdecimal() else default


def _parse_patterns(config: Mapping[str, str], key: str) -> list[Pattern]:
    r"""Return the regular expressions of a list, in which `\,` is a comma."""
    texts = (text.strip().replace("\\,", ",") for text in _LIST_SEPARATOR.split(config.get(key) or ""))
    return [compile_pattern(text, ignore_case=True) for text in texts if text]


def _passes(name: str, include: Sequence[Pattern], exclude: Sequence[Pattern]) -> bool:
    return _matches(name, include) if include else not _matches(name, exclude)


def _matches(name: str, patterns: Sequence[Pattern]) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns)
