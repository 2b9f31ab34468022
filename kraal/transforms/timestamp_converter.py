"""TimestampConverter: converts times between strings, numbers and Connect's types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from typing_extensions import override

from kraal.config.checks import one_of
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.config.values import is_blank
from kraal.plugins.model.records import DATE, TIME, TIMESTAMP, DataException, Instant, Record, Struct
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.plugins.values.java_time import MS_PER_DAY
from kraal.transforms.common.base import (
    REPLACE_NULL,
    PartTransformation,
    PerSchema,
    make_replace_null_key,
    parse_settings,
)
from kraal.transforms.common.date_pattern import Element, UnsupportedPattern, format_date, parse_pattern
from kraal.transforms.common.date_text import parse_date
from kraal.transforms.common.errors import ConfigException, ConnectException
from kraal.transforms.common.structs import (
    as_text,
    java_class,
    list_fields,
    make_struct,
    make_struct_schema,
    read,
    require_map,
    require_struct,
)

_PURPOSE: Final = "converting timestamp formats"
_STRING: Final = "string"
_UNIX: Final = "unix"
_SCHEMAS: Final[Mapping[str, Schema]] = {
    _STRING: Schema(type=Type.STRING),
    _UNIX: Schema(type=Type.INT64),
    "Date": Schema(type=Type.INT32, name=DATE, version=1),
    "Time": Schema(type=Type.INT32, name=TIME, version=1),
    "Timestamp": Schema(type=Type.INT64, name=TIMESTAMP, version=1),
}
"""Schemas by target type."""
_LOGICAL_TYPES: Final[Mapping[str, str]] = {TIMESTAMP: "Timestamp", DATE: "Date", TIME: "Time"}
_UNITS_PER_MS: Final[Mapping[str, int]] = {"microseconds": 1000, "nanoseconds": 1_000_000}
"""Number of units per millisecond, for units shorter than a millisecond."""
_MAX_LONG: Final = 2**63 - 1


class TimestampConverter(PartTransformation):
    """Converts a field, or the whole key or value, between formatted strings, Unix time and Connect's time types."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="field",
                type=ConfigType.STRING,
                default="",
                importance=Importance.HIGH,
                doc="Field with the timestamp; empty: the whole key or value.",
                source="TimestampConverter.FIELD_CONFIG",
            ),
            Key(
                name="target.type",
                type=ConfigType.STRING,
                validator=one_of(*_SCHEMAS),
                importance=Importance.HIGH,
                doc="Target type: a string, a Unix timestamp (unix), or one of Connect's types.",
                source="TimestampConverter.TARGET_TYPE_CONFIG",
            ),
            Key(
                name="format",
                type=ConfigType.STRING,
                default="",
                importance=Importance.MEDIUM,
                doc="Format of strings, in UTC: a pattern of java.text.SimpleDateFormat.",
                source="TimestampConverter.FORMAT_CONFIG",
            ),
            Key(
                name="unix.precision",
                type=ConfigType.STRING,
                default="milliseconds",
                validator=one_of("nanoseconds", "microseconds", "milliseconds", "seconds"),
                importance=Importance.LOW,
                doc="Unit of Unix timestamps. The precision is limited to milliseconds.",
                source="TimestampConverter.UNIX_PRECISION_CONFIG",
            ),
            make_replace_null_key("TimestampConverter"),
        ]
    )

    def __init__(self) -> None:
        self._field = ""
        self._target_type = _STRING
        self._format = ""
        self._pattern: tuple[Element, ...] | None = None
        self._precision = ""
        self._replace_null = True
        self._schemas = PerSchema(self._convert_schema)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._field, self._target_type, self._format = (
            values["field"],
            values["target.type"],
            values["format"],
        )
        self._precision, self._replace_null = values["unix.precision"], values[REPLACE_NULL]
        if is_blank(self._format):
            if self._target_type == _STRING:
                raise ConfigException(
                    "TimestampConverter requires format option to be specified when using string timestamps"
                )
            return
        try:
            self._pattern = parse_pattern(self._format)
        except UnsupportedPattern as exc:
            raise ConfigException(
                f"Invalid value java.lang.IllegalArgumentException: {exc} for configuration TimestampConverter "
                f"requires a SimpleDateFormat-compatible pattern for string timestamps: {self._format}"
            ) from exc

    @override
    def apply(self, record: Record) -> Record:
        schema, value = self.get_schema(record), self.get_value(record)
        if schema is None:
            if value is None or not self._field:
                return self.with_part(record, None, self._convert(value, None))
            obj = require_map(value, _PURPOSE)
            converted_value = self._convert(obj.get(self._field), None)
            return self.with_part(record, None, {**obj, self._field: converted_value})
        if not self._field:
            new_schema = replace(_SCHEMAS[self._target_type], optional=schema.optional)
            return self.with_part(record, new_schema, self._convert(value, schema))
        struct = None if value is None else require_struct(value, _PURPOSE, schema)
        new_schema = self._schemas(schema)
        return self.with_part(
            record, new_schema, None if struct is None else self._convert_struct(struct, new_schema)
        )

    def _convert_schema(self, schema: Schema) -> Schema:
        new_schema = make_struct_schema(
            schema, map(self._convert_field, list_fields(schema)), optional=schema.optional
        )
        if not isinstance(schema.default, Struct):
            return new_schema
        return replace(new_schema, default=self._convert_struct(schema.default, new_schema))

    def _convert_field(self, field: Field) -> Field:
        if field.name != self._field:
            return field
        return replace(field, schema=replace(_SCHEMAS[self._target_type], optional=field.schema.optional))

    def _convert_struct(self, struct: Struct, schema: Schema) -> Struct:
        values = {}
        for field in struct.schema.fields:
            item = read(struct, field, replace_null=self._replace_null)
            values[field.name] = self._convert(item, field.schema) if field.name == self._field else item
        return make_struct(schema, values)

    def _convert(self, value: Any, schema: Schema | None) -> Any:
        """Convert a time to the target type; null stays null. Raises DataException or ConnectException."""
        kind = None if schema is None else _infer_type(schema)
        if value is None:
            return None
        ms = self._to_ms_since_epoch(kind or _guess_type(value), value, schema)
        match self._target_type:
            case "string":
                return format_date(self._pattern or (), ms)
            case "unix":
                return _from_ms(ms, self._precision)
            case "Date":
                return Instant(ms - ms % MS_PER_DAY)
            case "Time":
                return Instant(ms % MS_PER_DAY)
            case _:
                return Instant(ms)

    def _to_ms_since_epoch(self, kind: str, value: Any, schema: Schema | None) -> int:
        """Convert a time to milliseconds since 1970."""
        class_name = f"class {java_class(value, schema)}"
        if kind == _STRING:
            if not isinstance(value, str):
                raise DataException(f"Expected string timestamp to be a String, but found {class_name}")
            if self._pattern is None:
                raise ConfigException(
                    "TimestampConverter requires format option to be specified when using string timestamps"
                )
            ms = parse_date(self._pattern, value)
            if ms is None:
                raise DataException(
                    f"Could not parse timestamp: value ({value}) does not match pattern ({self._format})"
                )
            return ms
        if kind == _UNIX:
            if not isinstance(value, int):
                raise DataException(f"Expected Unix timestamp to be a Long, but found {class_name}")
            return _to_ms(value, self._precision)
        if not isinstance(value, Instant):
            raise DataException(f"Expected {kind} to be a java.util.Date, but found {class_name}")
        return value.ms


def _infer_type(schema: Schema) -> str:
    """Return the time type of a schema. Raises ConnectException."""
    if schema.name is not None and schema.name in _LOGICAL_TYPES:
        return _LOGICAL_TYPES[schema.name]
    if schema.type is Type.STRING:
        return _STRING
    if schema.type is Type.INT64:
        return _UNIX
    raise ConnectException(f"Schema {as_text(schema)} does not correspond to a known timestamp type format")


def _guess_type(value: Any) -> str:
    match value:
        case Instant():
            return "Timestamp"
        case int() if not isinstance(value, bool):
            return _UNIX
        case str():
            return _STRING
        case _:
            raise DataException(
                f"TimestampConverter does not support class {java_class(value)} objects as timestamps"
            )


def _clamp(number: int) -> int:
    return max(-_MAX_LONG - 1, min(_MAX_LONG, number))


def _divide_toward_zero(number: int, unit: int) -> int:
    return number // unit if number >= 0 else -(-number // unit)


def _to_ms(count: int, precision: str) -> int:
    if precision == "seconds":
        return _clamp(count * 1000)
    return _divide_toward_zero(count, _UNITS_PER_MS.get(precision, 1))


def _from_ms(ms: int, precision: str) -> int:
    if precision == "seconds":
        return _divide_toward_zero(ms, 1000)
    return _clamp(ms * _UNITS_PER_MS.get(precision, 1))


class TimestampConverterKey(TimestampConverter):
    """TimestampConverter for record keys."""

    is_key: ClassVar[bool] = True


class TimestampConverterValue(TimestampConverter):
    """TimestampConverter for record values."""

    is_key: ClassVar[bool] = False
