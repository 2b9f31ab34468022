"""Encoding of Connect values to JSON, in the layout that Jackson writes.

A schema is compiled to functions once, as in JsonConverter. Unlike JsonConverter, a required field without a value is
left out, and maps with keys other than strings are arrays of objects.
Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
Source of the errors: JsonConverter (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kraal.converters.json.write import json_bool, json_bytes, json_double, json_float, quote
from kraal.converters.json_schema.names import JsonSchemaOptions, is_union, string_map
from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException, Struct, getter
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.conformance import has_class
from kraal.plugins.values.java_values import java_class
from kraal.plugins.values.logical import date_days, decimal_bytes, time_ms

Text = Callable[[Any], str | None]
"""Returns a value's JSON, or None to write nothing, not even null. Raises DataException."""

_PLAIN: Final[dict[Type, Callable[[Any], str]]] = {
    Type.INT8: str,
    Type.INT16: str,
    Type.INT32: str,
    Type.INT64: str,
    Type.FLOAT32: json_float,
    Type.FLOAT64: json_double,
    Type.BOOLEAN: json_bool,
    Type.STRING: quote,
    Type.BYTES: json_bytes,
}


class JsonSchemaWriter:
    """Compiles schemas to encoding functions, with a converter's options."""

    def __init__(self, options: JsonSchemaOptions) -> None:
        self._options = options

    def text(self, schema: Schema, value: Any) -> str:
        """Return one value's JSON, or `null` if nothing is written for it. Raises DataException."""
        return self.texts(schema)(value) or "null"

    def texts(self, schema: Schema | None) -> Text:
        """Return a function that encodes a schema's values, including null."""
        if schema is None:
            raise DataException("An array or map needs a schema for its items")
        present = self._present(schema)
        absent = "null" if schema.optional else None
        if schema.default is not None and not self._options.ignore_defaults:
            absent = present(schema.default)
        return lambda value: absent if value is None else present(value)

    def _present(self, schema: Schema) -> Text:
        plain = self._logical(schema) or _PLAIN.get(schema.type)
        if plain is not None:
            return _check(schema, plain)
        match schema.type:
            case Type.ARRAY:
                return self._array(schema)
            case Type.MAP:
                return self._map(schema)
            case _:
                return self._union(schema) if is_union(schema) else self._struct(schema)

    def _logical(self, schema: Schema) -> Callable[[Any], str] | None:
        match schema.name:
            case str() as name if name == DECIMAL:
                if self._options.numeric_decimals:
                    return str
                return lambda value: json_bytes(decimal_bytes(schema, value))
            case str() as name if name == DATE:
                return lambda value: str(date_days(value))
            case str() as name if name == TIME:
                return lambda value: str(time_ms(value))
            case str() as name if name == TIMESTAMP:
                return lambda value: str(value.ms)
            case _:
                return None

    def _array(self, schema: Schema) -> Text:
        item = self.texts(schema.value)

        def write(value: Any) -> str:
            if not isinstance(value, (list, tuple)):
                raise _wrong(schema, value)
            return f"[{','.join([item(each) or 'null' for each in value])}]"

        return write

    def _map(self, schema: Schema) -> Text:
        key, item, is_object = self.texts(schema.key), self.texts(schema.value), string_map(schema)

        def write(value: Any) -> str:
            if not isinstance(value, dict):
                raise _wrong(schema, value)
            pairs = [(key(name) or "null", item(each) or "null") for name, each in value.items()]
            if is_object:
                return "{" + ",".join([f"{name}:{each}" for name, each in pairs]) + "}"
            return "[" + ",".join([f'{{"key":{name},"value":{each}}}' for name, each in pairs]) + "]"

        return write

    def _struct(self, schema: Schema) -> Text:
        fields = [
            (
                f"{quote(each.name)}:",
                getter(each, ignores_default=self._options.ignore_defaults),
                self.texts(each.schema),
            )
            for each in schema.fields
        ]

        def write(value: Any) -> str:
            _check_struct(schema, value)
            texts = [(label, of(get(value))) for label, get, of in fields]
            return "{" + ",".join([label + text for label, text in texts if text is not None]) + "}"

        return write

    def _union(self, schema: Schema) -> Text:
        members = [
            (getter(each, ignores_default=self._options.ignore_defaults), self.texts(each.schema))
            for each in schema.fields
        ]
        absent = "null" if schema.optional else None

        def write(value: Any) -> str | None:
            _check_struct(schema, value)
            for get, of in members:
                item = get(value)
                if item is not None:
                    return of(item)
            return absent

        return write


def _check_struct(schema: Schema, value: Any) -> None:
    if not isinstance(value, Struct):
        raise _wrong(schema, value)
    if value.schema is not schema and value.schema != schema:
        raise DataException("Mismatching schema.")


def _check(schema: Schema, plain: Callable[[Any], str]) -> Text:
    def write(value: Any) -> str:
        if not has_class(schema, value):
            raise _wrong(schema, value)
        return plain(value)

    return write


def _wrong(schema: Schema, value: Any) -> DataException:
    return DataException(f"Invalid type for {schema.type.name}: class {java_class(value, schema)}")
