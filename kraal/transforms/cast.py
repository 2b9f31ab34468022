"""Cast: changes the types of fields, or of a whole key or value."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, ClassVar, Final

from typing_extensions import override

from kraal.config.checks import rule
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.config.values import as_strings, java_text, trim
from kraal.engine.columns.parts import is_null
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import DATE, TIME, DataException, Float32, Instant, Record
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.plugins.values.java_time import MS_PER_DAY, format_iso_date, format_iso_time, split_timestamp
from kraal.plugins.values.java_values import double_text, exact_float32, float32, float_text
from kraal.transforms.common.base import (
    REPLACE_NULL,
    PartTransformation,
    PerSchema,
    make_replace_null_key,
    parse_settings,
)
from kraal.transforms.common.cast_columns import BITS, cast_column
from kraal.transforms.common.column_parts import build_struct, read_fields
from kraal.transforms.common.errors import ConfigException
from kraal.transforms.common.java_numbers import (
    parse_double,
    parse_float,
    parse_integer,
    to_long,
    truncate,
    wrap_integer,
)
from kraal.transforms.common.structs import (
    copy_metadata,
    java_class,
    list_fields,
    make_struct,
    make_struct_schema,
    read,
    require_map,
    require_struct,
)
from kraal.transforms.replace_field import split_pair

_PURPOSE = "cast types"
_TARGET_TYPES: Final = (
    Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING,
)  # fmt: skip
_SOURCE_TYPES: Final = (*_TARGET_TYPES, Type.BYTES)


def _format_type_names(types: Sequence[Type]) -> str:
    return f"[{', '.join(kind.name for kind in types)}]"


def _parse_type(text: str) -> Type:
    name = trim(text).upper()
    if name not in Type.__members__:
        raise ConfigException(
            "Invalid value java.lang.IllegalArgumentException: No enum constant org.apache.kafka.connect.data."
            f"Schema.Type.{name} for configuration Invalid type found in casting spec: {trim(text)}"
        )
    kind = Type[name]
    if kind not in _TARGET_TYPES:
        raise ConfigException(
            f"Cast transformation does not support casting to {name}; supported types are "
            f"{_format_type_names(_TARGET_TYPES)}"
        )
    return kind


def parse_spec(entries: Sequence[str]) -> dict[str | None, Type]:
    """Return the target types by field name; the name None means the whole key or value. Raises ConfigException."""
    casts: dict[str | None, Type] = {}
    for entry in entries:
        match split_pair(entry):
            case [kind]:
                casts[None] = _parse_type(kind)
            case [name, kind]:
                casts[trim(name)] = _parse_type(kind)
            case _:
                raise ConfigException(
                    f"Invalid value {java_text(tuple(entries))} for configuration renames: Invalid rename "
                    f"mapping: {entry}"
                )
    if None in casts and len(entries) > 1:
        raise ConfigException(
            "Cast transformations that specify a type to cast the entire value to may only specify a single "
            "cast in their spec"
        )
    return casts


@rule("pairs of a field and a type: `foo:int32,abc:string`; or one type")
def _validate_spec(_name: str, value: object) -> str | None:
    entries = as_strings(value)
    if not entries:
        return "Must specify at least one field to cast."
    try:
        parse_spec(entries)
    except ConfigException as exc:
        return str(exc)
    return None


class Cast(PartTransformation):
    """Casts fields, or the whole key or value, between numbers, booleans and strings, and from bytes to base64 strings.

    Numbers are narrowed as in Java: integers wrap around; floats lose their fraction and are clamped to the limits.
    """

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="spec",
                type=ConfigType.LIST,
                validator=_validate_spec,
                importance=Importance.HIGH,
                doc="Fields and their types, as field:type, or one type for the whole key or value. Types: int8, "
                "int16, int32, int64, float32, float64, boolean and string.",
                source="Cast.SPEC_CONFIG",
            ),
            make_replace_null_key("Cast"),
        ]
    )

    schemaless_columns: ClassVar[bool] = True

    def __init__(self) -> None:
        self._casts: dict[str | None, Type] = {}
        self._whole_type: Type | None = None
        self._replace_null = True
        self._schemas = PerSchema(self._cast_schema)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._casts = parse_spec(values["spec"])
        self._whole_type = self._casts.get(None)
        self._replace_null = values[REPLACE_NULL]

    @override
    def apply(self, record: Record) -> Record:
        schema, value = self.get_schema(record), self.get_value(record)
        if value is None:
            return record
        if schema is not None:
            return self._apply_with_schema(record, schema, value)
        if self._whole_type is not None:
            return self.with_part(record, None, cast(None, value, self._whole_type))
        obj = require_map(value, _PURPOSE)
        cast_values = {
            name: cast(None, obj.get(name), kind) for name, kind in self._casts.items() if name is not None
        }
        return self.with_part(record, None, {**obj, **cast_values})

    def _apply_with_schema(self, record: Record, schema: Schema, value: Any) -> Record:
        new_schema = self._schemas(schema)
        if self._whole_type is not None:
            return self.with_part(record, new_schema, cast(schema, value, self._whole_type))
        struct = require_struct(value, _PURPOSE, schema)
        values = {}
        for field in struct.schema.fields:
            item = read(struct, field, replace_null=self._replace_null)
            kind = self._casts.get(field.name)
            values[field.name] = item if kind is None else cast(field.schema, item, kind)
        return self.with_part(record, new_schema, make_struct(new_schema, values))

    @override
    def columns(self, given: Columns) -> Columns | None:
        part = self.get_part(given)
        if part.schema is None:
            return given if part.is_nothing else None
        new_schema = self._schemas(part.schema)
        if self._whole_type is not None:
            column, doubts = cast_column(part, new_schema)
            null_doubts = () if part.sure else (is_null(part),)
            return given.with_part(replace(column, sure=True), (*doubts, *null_doubts), is_key=self.is_key)
        fields, doubts = read_fields(part, replace_null=self._replace_null)
        if part.schemaless and not self._casts.keys() <= fields.keys():
            return None  # in a map, missing fields become null
        for field in new_schema.fields:
            if field.name in self._casts:
                fields[field.name], more_doubts = cast_column(fields[field.name], field.schema)
                doubts = (*doubts, *more_doubts)
        struct, more_doubts = build_struct(new_schema, fields, schemaless=part.schemaless)
        return given.with_part(struct, (*doubts, *more_doubts), is_key=self.is_key)

    def _cast_schema(self, schema: Schema) -> Schema:
        if self._whole_type is not None:
            result = copy_metadata(schema, self._whole_type)
        else:
            result = make_struct_schema(schema, map(self._cast_field, list_fields(schema)))
        default = None if schema.default is None else cast(schema, schema.default, result.type)
        return replace(result, optional=schema.optional, default=default)

    def _cast_field(self, field: Field) -> Field:
        kind, old_schema = self._casts.get(field.name), field.schema
        if kind is None:
            return field
        default = None if old_schema.default is None else cast(old_schema, old_schema.default, kind)
        return Field(name=field.name, schema=Schema(type=kind, optional=old_schema.optional, default=default))


def cast(schema: Schema | None, value: Any, kind: Type) -> Any:
    """Convert a value to another type; null stays null. Raises DataException."""
    if value is None:
        return None
    source_type = _infer_source_type(value) if schema is None else schema.type
    if source_type not in _SOURCE_TYPES:
        raise DataException(
            f"Cast transformation does not support casting from {source_type.name}; supported types are "
            f"{_format_type_names(_SOURCE_TYPES)}"
        )
    if kind is Type.STRING:
        return _to_text(value)
    plain_value = _encode_time(schema, value) if schema is not None and isinstance(value, Instant) else value
    if isinstance(plain_value, str):
        result = _parse_text(plain_value, kind)
        if result is None:
            raise DataException(f"Value ({plain_value}) was out of range for requested data type")
        return result
    if isinstance(plain_value, (int, float, Decimal)):
        return _convert_number(plain_value, kind)
    raise DataException(f"Unexpected type in Cast transformation: class {java_class(plain_value, schema)}")


def _infer_source_type(value: Any) -> Type:
    """Infer the type of a schemaless value. Raises DataException if Connect has no type for it."""
    match value:
        case bool():
            return Type.BOOLEAN
        case int():
            return Type.INT64
        case float():
            return Type.FLOAT64
        case str():
            return Type.STRING
        case bytes():
            return Type.BYTES
        case list() | tuple():
            return Type.ARRAY
        case dict():
            return Type.MAP
        case Instant() | Decimal():
            raise DataException(
                f"Cast transformation was passed a value of type class {java_class(value)} which is not "
                "supported by Connect's data API"
            )
        case _:
            return Type.STRUCT


def _encode_time(schema: Schema, value: Instant) -> int:
    """Convert a date to days, and a time or timestamp to milliseconds. Raises DataException."""
    if schema.name == DATE:
        if value.ms % MS_PER_DAY:
            raise DataException(
                "Kafka Connect Date type should not have any time fields set to non-zero values."
            )
        return value.ms // MS_PER_DAY
    if schema.name == TIME and not 0 <= value.ms <= MS_PER_DAY:
        raise DataException("Kafka Connect Time type should not have any date fields set to non-zero values.")
    return value.ms


def _parse_text(text: str, kind: Type) -> Any:
    """Parse a string as a type; None if it is invalid."""
    if kind is Type.BOOLEAN:
        return text.lower() == "true"
    if kind is Type.FLOAT32:
        return parse_float(text)
    return parse_double(text) if kind is Type.FLOAT64 else parse_integer(text, BITS[kind])


def _convert_number(value: float | Decimal, kind: Type) -> Any:
    """Convert a number or a boolean to a number or a boolean of another type."""
    if kind in BITS:
        if isinstance(value, float):
            return truncate(value, BITS[kind])
        return wrap_integer(to_long(value) if isinstance(value, Decimal) else int(value), BITS[kind])
    if kind is Type.BOOLEAN:
        return _convert_number(value, Type.INT64) != 0
    if kind is Type.FLOAT64:
        return float(value)
    return float32(value) if isinstance(value, float) else exact_float32(Decimal(value))


def _to_text(value: Any) -> str:
    match value:
        case str():
            return value
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case bool():
            return "true" if value else "false"
        case Float32():
            return float_text(value)
        case float():
            return double_text(value)
        case Instant(ms) if ms < MS_PER_DAY:
            return format_iso_time(ms)
        case Instant(ms):
            is_day = split_timestamp(ms)[0] * MS_PER_DAY == ms
            return format_iso_date(ms) if is_day else f"{format_iso_date(ms)}T{format_iso_time(ms)}"
        case _:
            return str(value)


class CastKey(Cast):
    """Cast for record keys."""

    is_key: ClassVar[bool] = True


class CastValue(Cast):
    """Cast for record values."""

    is_key: ClassVar[bool] = False
