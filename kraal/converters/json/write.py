r"""Writes values as JSON text one record at a time, byte for byte like Java's JsonConverter.

A schema is compiled once to functions that write the text of its parts. The functions are cached by the identity of the
schema, because schema objects are few and long-lived.
Source: JsonConverter.convertToJson and asJsonSchema (Kafka 4.3.0, Jackson 2.21).
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from typing_extensions import override

from kraal.plugins.model.records import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    DataException,
    Float32,
    Instant,
    Struct,
)
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.java_values import double_text, float_text, java_class
from kraal.plugins.values.logical import date_days, decimal_bytes, time_ms

NULL_NOT_ALLOWED_ERROR: Final = (
    "Conversion error: null value for field that is required and has no default value"
)

Write = Callable[[Any], str]

_ESCAPE: Final = re.compile(r"\\(u00[0-9a-f]{2}|.)")
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_dumps: Final = json.JSONEncoder(ensure_ascii=False).encode


def quote(text: str) -> str:
    """Quote a string like Jackson: UTF-8, with surrogate pairs and control characters escaped."""
    json_text = _dumps(text)
    if "\\u" in json_text:
        # Match every escape, so that an escaped backslash is not mistaken for the start of another escape.
        json_text = _ESCAPE.sub(lambda match: _make_uppercase_escape(match[0]), json_text)
    return (
        json_text
        if json_text.isascii()
        else _ASTRAL.sub(lambda match: _escape_surrogate_pair(match[0]), json_text)
    )


def _make_uppercase_escape(escape: str) -> str:
    return "\\u" + escape[2:].upper() if escape.startswith("\\u") else escape


def _escape_surrogate_pair(char: str) -> str:
    digits = char.encode("utf-16-be").hex().upper()
    return f"\\u{digits[:4]}\\u{digits[4:]}"


def format_double(value: float) -> str:
    """Return a double in the format of `Double.toString`, in quotes if it is NaN or infinite."""
    text = double_text(value)
    return f'"{text}"' if text[-1] in "Ny" else text


def format_float(value: float) -> str:
    """Return a float in the format of `Float.toString`, in quotes if it is NaN or infinite."""
    text = float_text(value)
    return f'"{text}"' if text[-1] in "Ny" else text


def format_bool(value: bool) -> str:  # noqa: FBT001 - one of the writers
    """Return `true` or `false`."""
    return "true" if value else "false"


def format_bytes(value: bytes) -> str:
    """Return quoted base64 without line breaks."""
    return f'"{b64encode(value).decode("ascii")}"'


_PLAIN_WRITERS: Final[dict[type, Write]] = {
    str: quote,
    int: str,
    bool: format_bool,
    float: format_double,
    Float32: format_float,
    bytes: format_bytes,
}
_SCALAR_WRITERS: Final[dict[Type, tuple[type, Write]]] = {
    Type.INT8: (int, str),
    Type.INT16: (int, str),
    Type.INT32: (int, str),
    Type.INT64: (int, str),
    Type.FLOAT32: (Float32, format_float),
    Type.FLOAT64: (float, format_double),
    Type.BOOLEAN: (bool, format_bool),
    Type.STRING: (str, quote),
    Type.BYTES: (bytes, format_bytes),
}


def format_schemaless(value: Any) -> str:
    """Return the JSON text of a schemaless value. Raises DataException."""
    write = _PLAIN_WRITERS.get(type(value))
    if write is not None:
        return write(value)
    match value:
        case None:
            return "null"
        case dict():
            if all(type(key) is str for key in value):
                return (
                    "{"
                    + ",".join([f"{quote(key)}:{format_schemaless(item)}" for key, item in value.items()])
                    + "}"
                )
            pairs = [f"[{format_schemaless(key)},{format_schemaless(item)}]" for key, item in value.items()]
            return "[" + ",".join(pairs) + "]"
        case list() | tuple():
            return "[" + ",".join(map(format_schemaless, value)) + "]"
        case Struct():
            raise DataException("Mismatching schema.")
        case _:
            class_name = java_class(value, None)
            raise DataException(f"Java class class {class_name} does not have corresponding schema type.")


class JsonWriter:
    """Writes values with the settings of a converter. Not thread-safe; pickled without caches."""

    def __init__(self, *, numeric_decimals: bool, replace_null: bool, cache_size: int = 1000) -> None:
        self._numeric_decimals = numeric_decimals
        self._replace_null = replace_null
        self._cache_size = cache_size
        self._writers: dict[int, tuple[Schema, Write]] = {}
        self._schema_texts: dict[int, tuple[Schema, str]] = {}

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_writers": {}, "_schema_texts": {}}

    def text(self, schema: Schema | None, value: Any) -> str:
        """Return the JSON text of a value. Raises DataException."""
        if schema is None:
            return format_schemaless(value)
        cached = self._writers.get(id(schema))
        if cached is None:
            if len(self._writers) >= self._cache_size:
                self._writers.clear()
            cached = self._writers[id(schema)] = (schema, self._compile_writer(schema))
        return cached[1](value)

    def describe(self, schema: Schema | None) -> str:
        """Return the JSON text of a schema. Cached. Raises DataException for an invalid default."""
        if schema is None:
            return "null"
        cached = self._schema_texts.get(id(schema))
        if cached is None:
            if len(self._schema_texts) >= self._cache_size:
                self._schema_texts.clear()
            cached = self._schema_texts[id(schema)] = (schema, self.schema_text(schema))
        return cached[1]

    def _compile_writer(self, schema: Schema | None) -> Write:
        """Return a function that writes a schema's values, including null."""
        if schema is None:
            return format_schemaless
        write_non_null = self._compile_non_null(schema)
        default, optional = schema.default, schema.optional

        def write(value: Any) -> str:
            if value is not None:
                return write_non_null(value)
            if default is not None and self._replace_null:
                return write_non_null(default)
            if optional:
                return "null"
            raise DataException(NULL_NOT_ALLOWED_ERROR)

        return write

    def _compile_non_null(self, schema: Schema) -> Write:
        write_logical = self._compile_logical(schema)
        if write_logical is not None:
            return write_logical
        if schema.type in _SCALAR_WRITERS:
            return _check_exact_type(schema, *_SCALAR_WRITERS[schema.type])
        match schema.type:
            case Type.ARRAY:
                return self._compile_array(schema)
            case Type.MAP:
                return self._compile_map(schema)
            case _:
                return self._compile_struct(schema)

    def _compile_logical(self, schema: Schema) -> Write | None:
        match schema.name:
            case str() as name if name == DECIMAL:
                is_numeric = self._numeric_decimals
                return _check_type(
                    Decimal,
                    "Invalid type for Decimal, expected BigDecimal but was class ",
                    str if is_numeric else lambda value: format_bytes(decimal_bytes(schema, value)),
                )
            case str() as name if name == DATE:
                return _check_type(Instant, _make_date_message("Date"), lambda value: str(date_days(value)))
            case str() as name if name == TIME:
                return _check_type(Instant, _make_date_message("Time"), lambda value: str(time_ms(value)))
            case str() as name if name == TIMESTAMP:
                return _check_type(Instant, _make_date_message("Timestamp"), lambda value: str(value.ms))
            case _:
                return None

    def _compile_array(self, schema: Schema) -> Write:
        write_element = self._compile_writer(schema.value)

        def write(value: Any) -> str:
            if not isinstance(value, (list, tuple)):
                raise _make_type_error(schema, value)
            return "[" + ",".join(map(write_element, value)) + "]"

        return write

    def _compile_map(self, schema: Schema) -> Write:
        """Return a function that writes a map: as an object if keys are strings, otherwise as an array of pairs."""
        write_key, write_value = self._compile_writer(schema.key), self._compile_writer(schema.value)
        is_object = schema.key is not None and schema.key.type is Type.STRING

        def write(value: Any) -> str:
            if not isinstance(value, dict):
                raise _make_type_error(schema, value)
            if is_object:
                parts = {_quote_member_name(write_key(key)): write_value(item) for key, item in value.items()}
                return "{" + ",".join([f"{name}:{text}" for name, text in parts.items()]) + "}"
            return (
                "["
                + ",".join([f"[{write_key(key)},{write_value(item)}]" for key, item in value.items()])
                + "]"
            )

        return write

    def _compile_struct(self, schema: Schema) -> Write:
        fields = [
            (("," if index else "") + quote(field.name) + ":", field.name, self._compile_writer(field.schema))
            for index, field in enumerate(schema.fields)
        ]

        def write(value: Any) -> str:
            if not isinstance(value, Struct):
                raise _make_type_error(schema, value)
            if value.schema is not schema and value.schema != schema:
                raise DataException("Mismatching schema.")
            values = value.values
            return (
                "{"
                + "".join([label + write_field(values.get(name)) for label, name, write_field in fields])
                + "}"
            )

        return write

    def schema_text(self, schema: Schema | None, field: str | None = None) -> str:
        """Return the JSON text of a schema for the envelope, with members in Java's order."""
        if schema is None:
            return "null"
        parts = [("type", quote(schema.type.value))]
        match schema.type:
            case Type.ARRAY:
                parts.append(("items", self.schema_text(schema.value)))
            case Type.MAP:
                parts.append(("keys", self.schema_text(schema.key)))
                parts.append(("values", self.schema_text(schema.value)))
            case Type.STRUCT:
                fields = [self.schema_text(member.schema, member.name) for member in schema.fields]
                parts.append(("fields", f"[{','.join(fields)}]"))
            case _:
                pass
        parts.append(("optional", format_bool(schema.optional)))
        if schema.name is not None:
            parts.append(("name", quote(schema.name)))
        if schema.version is not None:
            parts.append(("version", str(schema.version)))
        if schema.doc is not None:
            parts.append(("doc", quote(schema.doc)))
        if schema.parameters:
            inner = ",".join(f"{quote(name)}:{quote(text)}" for name, text in schema.parameters.items())
            parts.append(("parameters", f"{{{inner}}}"))
        if schema.default is not None:
            parts.append(("default", self._compile_writer(schema)(schema.default)))
        if field is not None:
            parts.append(("field", quote(field)))
        return "{" + ",".join(f"{quote(name)}:{text}" for name, text in parts) + "}"


def _make_date_message(name: str) -> str:
    return f"Invalid type for {name}, expected Date but was class "


def _check_type(kind: type, message: str, write: Write) -> Write:
    def write_checked(value: Any) -> str:
        if not isinstance(value, kind):
            raise DataException(message + java_class(value, None))
        return write(value)

    return write_checked


def _check_exact_type(schema: Schema, kind: type, write: Write) -> Write:
    def write_checked(value: Any) -> str:
        if type(value) is not kind:
            raise _make_type_error(schema, value)
        return write(value)

    return write_checked


def _make_type_error(schema: Schema, value: Any) -> DataException:
    name = "bytes type" if schema.type is Type.BYTES else schema.type.name
    return DataException(f"Invalid type for {name}: class {java_class(value, None)}")


def _quote_member_name(name: str) -> str:
    """Return the JSON text of a map key as a member name; `null` becomes `"null"`."""
    return name if name.startswith('"') else f'"{name}"'
