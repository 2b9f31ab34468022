"""MaskField: replaces sensitive fields with an empty value or a replacement."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final

from typing_extensions import override

from kraal.config.checks import non_empty
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.model.columns import ByRecords, Columns, Part
from kraal.plugins.model.records import DataException, Float32, Instant, Record
from kraal.plugins.model.schema import Schema
from kraal.plugins.values.java_values import float32
from kraal.transforms.common.base import (
    REPLACE_NULL,
    PartTransformation,
    make_replace_null_key,
    parse_settings,
    validate_distinct_entries,
)
from kraal.transforms.common.column_parts import (
    build_struct,
    get_java_class_of_column,
    make_constant,
    make_empty,
    preserve_nulls,
    read_fields,
)
from kraal.transforms.common.java_numbers import parse_big_decimal, to_long, wrap_integer
from kraal.transforms.common.structs import java_class, make_struct, read, require_map, require_struct

_PURPOSE = "mask fields"

_EMPTY_VALUES: Final[Mapping[str, Any]] = {
    "java.lang.Boolean": False,
    "java.lang.Byte": 0,
    "java.lang.Short": 0,
    "java.lang.Integer": 0,
    "java.lang.Long": 0,
    "java.lang.Float": Float32(0.0),
    "java.lang.Double": 0.0,
    "java.math.BigDecimal": Decimal(0),
    "java.util.Date": Instant(0),
    "java.lang.String": "",
}
"""Masks by the Java class of the value."""

_BITS: Final[Mapping[str, int]] = {
    "java.lang.Byte": 8,
    "java.lang.Short": 16,
    "java.lang.Integer": 32,
    "java.lang.Long": 64,
}

_CAST_ONLY_CLASSES: Final = frozenset(_BITS) - {"java.lang.Long"}
"""Classes that schemaless JSON values have only after a cast."""


class MaskField(PartTransformation):
    """Replaces the values of fields with empty values, such as 0, or with a configured number or string."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="fields",
                type=ConfigType.LIST,
                validator=validate_distinct_entries,
                importance=Importance.HIGH,
                doc="Fields to mask.",
                source="MaskField.FIELDS_CONFIG",
            ),
            Key(
                name="replacement",
                type=ConfigType.STRING,
                default=None,
                validator=non_empty,
                importance=Importance.LOW,
                doc="Replacement for the values of the fields, which must be numbers or strings.",
                source="MaskField.REPLACEMENT_CONFIG",
            ),
            make_replace_null_key("MaskField"),
        ]
    )

    schemaless_columns: ClassVar[bool] = True

    def __init__(self) -> None:
        self._fields: tuple[str, ...] = ()
        self._replacement: str | None = None
        self._replace_null = True

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._fields = tuple(dict.fromkeys(values["fields"]))
        self._replacement = values["replacement"]
        self._replace_null = values[REPLACE_NULL]

    @override
    def apply(self, record: Record) -> Record:
        schema, value = self.get_schema(record), self.get_value(record)
        if schema is None:
            obj = require_map(value, _PURPOSE)
            masked_values = {name: self._mask_value(obj.get(name), None) for name in self._fields}
            return self.with_part(record, None, {**obj, **masked_values})
        struct = require_struct(value, _PURPOSE, schema)
        values = {}
        for field in struct.schema.fields:
            item = read(struct, field, replace_null=self._replace_null)
            values[field.name] = self._mask_value(item, field.schema) if field.name in self._fields else item
        return self.with_part(record, schema, make_struct(struct.schema, values))

    @override
    def columns(self, given: Columns) -> Columns | None:
        part = self.get_part(given)
        if part.schema is None:
            return None
        fields, doubts = read_fields(part, replace_null=self._replace_null)
        if part.schemaless and not fields.keys() >= set(self._fields):
            return None  # in a map, missing fields become null
        for name in self._fields:
            if name in fields:
                fields[name] = self._mask_column(fields[name])
        struct, more_doubts = build_struct(part.schema, fields, schemaless=part.schemaless)
        return given.with_part(struct, (*doubts, *more_doubts), is_key=self.is_key)

    def _mask_column(self, part: Part) -> Part:
        schema = part.schema
        class_name = None if schema is None else get_java_class_of_column(schema)
        if schema is None or class_name is None:
            if self._replacement is not None:
                raise ByRecords
            return make_empty(part)
        if self._replacement is not None and part.schemaless and class_name in _CAST_ONLY_CLASSES:
            raise ByRecords  # in a map, the value is a Long
        mask = (
            _EMPTY_VALUES[class_name]
            if self._replacement is None
            else _convert_replacement(class_name, self._replacement)
        )
        return preserve_nulls(part, make_constant(schema, mask))

    def _mask_value(self, value: Any, schema: Schema | None) -> Any:
        if value is None:
            return None
        class_name = java_class(value, schema)
        if self._replacement is not None:
            return _convert_replacement(class_name, self._replacement)
        if class_name in _EMPTY_VALUES:
            return _EMPTY_VALUES[class_name]
        if isinstance(value, (list, tuple)):
            return []
        if isinstance(value, dict):
            return {}
        raise DataException(f"Cannot mask value of type: class {class_name}")


def _convert_replacement(class_name: str, text: str) -> Any:
    """Convert the replacement to a value of the class. Raises DataException."""
    if class_name == "java.lang.String":
        return text
    if class_name not in _EMPTY_VALUES or class_name in {"java.lang.Boolean", "java.util.Date"}:
        raise DataException(f"Cannot mask value of type class {class_name} with custom replacement.")
    number = parse_big_decimal(text)
    if number is None:
        target = "number" if class_name == "java.math.BigDecimal" else "a number"
        raise DataException(f"Unable to convert {text} (class java.lang.String) to {target}")
    if class_name in _BITS:
        return wrap_integer(to_long(number), _BITS[class_name])
    if class_name == "java.math.BigDecimal":
        return number
    return float32(float(number)) if class_name == "java.lang.Float" else float(number)


class MaskFieldKey(MaskField):
    """MaskField for record keys."""

    is_key: ClassVar[bool] = True


class MaskFieldValue(MaskField):
    """MaskField for record values."""

    is_key: ClassVar[bool] = False
