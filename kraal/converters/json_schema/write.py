"""Encodes Connect values to JSON in Jackson's layout.

A schema is compiled to functions once, as in JsonConverter. Unlike in JsonConverter, a required field without a value
is omitted, and maps with keys other than strings are arrays of objects.
Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
Source of the errors: JsonConverter (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kraal.converters.json.write import format_bool, format_bytes, format_double, format_float, quote
from kraal.converters.json_schema.names import JsonSchemaOptions, is_string_map, is_union
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException, Struct, getter
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.conformance import has_class
from kraal.plugins.values.java_values import java_class
from kraal.plugins.values.logical import date_days, decimal_bytes, time_ms

Write = Callable[[Any], str | None]
"""Returns the JSON of a value, or None to omit it. Raises DataException."""

_PLAIN_WRITERS: Final[dict[Type, Callable[[Any], str]]] = {
    Type.INT8: str,
    Type.INT16: str,
    Type.INT32: str,
    Type.INT64: str,
    Type.FLOAT32: format_float,
    Type.FLOAT64: format_double,
    Type.BOOLEAN: format_bool,
    Type.STRING: quote,
    Type.BYTES: format_bytes,
}


class JsonSchemaWriter:
    """Compiles schemas to encoding functions, with the options of a converter."""

    def __init__(self, options: JsonSchemaOptions) -> None:
        self._options = options

    def text(self, schema: Schema, value: Any) -> str:
        """Return the JSON of one value; `null` if it would be omitted. Raises DataException."""
        return self.compile_writer(schema)(value) or "null"

    def compile_writer(self, schema: Schema | None) -> Write:
        """Return a function that encodes a schema's values, including null."""
        if schema is None:
            raise DataException("An array or map requires a schema for its items")
        write_non_null = self._compile_non_null(schema)
        null_text = "null" if schema.optional else None
        if schema.default is not None and not self._options.ignore_defaults:
            null_text = write_non_null(schema.default)
        return lambda value: null_text if value is None else write_non_null(value)

    def _compile_non_null(self, schema: Schema) -> Write:
        write_plain = self._compile_logical(schema) or _PLAIN_WRITERS.get(schema.type)
        if write_plain is not None:
            return _check_type(schema, write_plain)
        match schema.type:
            case Type.ARRAY:
                return self._compile_array(schema)
            case Type.MAP:
                return self._compile_map(schema)
            case _:
                return self._compile_union(schema) if is_union(schema) else self._compile_struct(schema)

    def _compile_logical(self, schema: Schema) -> Callable[[Any], str] | None:
        match schema.name:
            case str() as name if name == DECIMAL:
                if self._options.numeric_decimals:
                    return str
                return lambda value: format_bytes(decimal_bytes(schema, value))
            case str() as name if name == DATE:
                return lambda value: str(date_days(value))
            case str() as name if name == TIME:
                return lambda value: str(time_ms(value))
            case str() as name if name == TIMESTAMP:
                return lambda value: str(value.ms)
            case _:
                return None

    def _compile_array(self, schema: Schema) -> Write:
        write_item = self.compile_writer(schema.value)

        def write(value: Any) -> str:
            if not isinstance(value, (list, tuple)):
                raise _make_type_error(schema, value)
            return f"[{','.join([write_item(item) or 'null' for item in value])}]"

        return write

    def _compile_map(self, schema: Schema) -> Write:
        write_key, write_value, is_object = (
            self.compile_writer(schema.key),
            self.compile_writer(schema.value),
            is_string_map(schema),
        )

        def write(value: Any) -> str:
            if not isinstance(value, dict):
                raise _make_type_error(schema, value)
            pairs = [(write_key(key) or "null", write_value(item) or "null") for key, item in value.items()]
            if is_object:
                return "{" + ",".join([f"{key}:{item}" for key, item in pairs]) + "}"
            return "[" + ",".join([f'{{"key":{key},"value":{item}}}' for key, item in pairs]) + "]"

        return write

    def _compile_struct(self, schema: Schema) -> Write:
        fields = [
            (
                f"{quote(field.name)}:",
                getter(field, ignores_default=self._options.ignore_defaults),
                self.compile_writer(field.schema),
            )
            for field in schema.fields
        ]

        def write(value: Any) -> str:
            _check_struct(schema, value)
            texts = [(label, write_field(get(value))) for label, get, write_field in fields]
            return "{" + ",".join([label + text for label, text in texts if text is not None]) + "}"

        return write

    def _compile_union(self, schema: Schema) -> Write:
        members = [
            (getter(field, ignores_default=self._options.ignore_defaults), self.compile_writer(field.schema))
            for field in schema.fields
        ]
        null_text = "null" if schema.optional else None

        def write(value: Any) -> str | None:
            _check_struct(schema, value)
            for get, write_member in members:
                item = get(value)
                if item is not None:
                    return write_member(item)
            return null_text

        return write


def _check_struct(schema: Schema, value: Any) -> None:
    if not isinstance(value, Struct):
        raise _make_type_error(schema, value)
    if value.schema is not schema and value.schema != schema:
        raise DataException("Mismatching schema.")


def _check_type(schema: Schema, write_plain: Callable[[Any], str]) -> Write:
    def write(value: Any) -> str:
        if not has_class(schema, value):
            raise _make_type_error(schema, value)
        return write_plain(value)

    return write


def _make_type_error(schema: Schema, value: Any) -> DataException:
    return DataException(f"Invalid type for {schema.type.name}: class {java_class(value, schema)}")
