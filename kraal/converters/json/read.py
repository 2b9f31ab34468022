"""Converts parsed JSON to Connect values by schema. Source: JsonConverter.convertToConnect (Kafka 4.4.0).

As in `write`, a schema is compiled to functions once. Nodes are the results of `parse`. As with Jackson's nodes, a
number that is read as text becomes null, and text that is read as a number becomes 0.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from kraal.converters.json.parse import Fraction, Missing
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
from kraal.plugins.values.conformance import validate
from kraal.plugins.values.java_values import exact_float32
from kraal.plugins.values.logical import narrow, to_date, to_decimal, to_time
from kraal.plugins.values.map_keys import as_key

Read = Callable[[Any], Any]

_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_ZERO_BITS_EXPONENT: Final = 64
"""Exponent of ten from which the lowest 64 bits of a number are 0."""


def get_node_type(node: Any) -> str:
    """Return Jackson's type name of a node."""
    match node:
        case None:
            return "NULL"
        case bool():
            return "BOOLEAN"
        case dict():
            return "OBJECT"
        case list():
            return "ARRAY"
        case Missing():
            return "MISSING"
        case Fraction() | int() | float():
            return "NUMBER"
        case _:
            return "STRING"


def to_schemaless(node: Any) -> Any:
    """Convert a node to a schemaless value: int for Long (truncated to 64 bits), float for Double, dict, list."""
    match node:
        case Fraction():
            return to_double(node)
        case bool():
            return node
        case int():
            return narrow(node, 64)
        case dict():
            return {name: to_schemaless(item) for name, item in node.items()}
        case list():
            return [to_schemaless(item) for item in node]
        case Missing():
            return None
        case _:
            return node


def to_double(node: Any) -> float:
    """Convert a node to a double; 0 if the node is not a number."""
    if isinstance(node, Fraction):
        number = float(node)
        return abs(number) if number == 0 and not Decimal(node) else number  # a BigDecimal has no -0
    if type(node) is not int:
        return 0.0
    try:
        return float(node)
    except OverflowError:
        return float("inf") if node > 0 else float("-inf")


def to_exact(node: Fraction | int) -> Decimal:
    """Convert a number to a Decimal with all its digits."""
    number = Decimal(node)
    return number or number.copy_abs()


def _read_integer(node: Any, bits: int) -> int:
    if isinstance(node, Fraction):
        decimal_number = Decimal(node)
        if decimal_number.adjusted() < 0:
            return 0
        exponent = decimal_number.as_tuple().exponent
        return narrow(
            0 if isinstance(exponent, int) and exponent >= _ZERO_BITS_EXPONENT else int(decimal_number), bits
        )
    return narrow(node, bits) if type(node) is int else 0


def _read_float(node: Any) -> Float32:
    if isinstance(node, Fraction) or type(node) is int:
        return exact_float32(to_exact(node))
    return Float32(0)


def _read_text(node: Any) -> str | None:
    return node if type(node) is str else None


def decode_base64(text: str) -> bytes:
    """Decode base64 like Jackson, which accepts whitespace between groups of four characters. Raises ValueError."""
    try:
        return a2b_base64(text, strict_mode=True)
    except ValueError:
        data, remaining_text = b"", text.strip("".join(map(chr, range(33))))
        while remaining_text:
            data += a2b_base64(remaining_text[:4], strict_mode=True)
            remaining_text = remaining_text[4:].lstrip("".join(map(chr, range(33))))
        return data


def _read_bytes(node: Any) -> bytes | None:
    if type(node) is not str:
        return None
    try:
        return decode_base64(node)
    except ValueError as exc:
        raise DataException("Invalid bytes field") from exc


def _read_decimal(schema: Schema, node: Any) -> Decimal:
    if isinstance(node, Fraction) or type(node) is int:
        return to_exact(node)
    if type(node) is not str:
        raise DataException(
            "Invalid type for Decimal, underlying representation should be numeric or bytes but was "
            + get_node_type(node)
        )
    try:
        return to_decimal(schema, decode_base64(node))
    except (ValueError, DataException) as exc:
        raise DataException("Invalid bytes for Decimal field") from exc


def _read_int(name: str, node: Any) -> int:
    if type(node) is not int or node != narrow(node, 32):
        raise DataException(
            f"Invalid type for {name}, underlying representation should be integer but was {get_node_type(node)}"
        )
    return node


def _read_timestamp(node: Any) -> Instant:
    if type(node) is not int:
        raise DataException(
            "Invalid type for Timestamp, underlying representation should be integral but was "
            + get_node_type(node)
        )
    return Instant(narrow(node, 64))


def compile_leaf(schema: Schema) -> Read | None:
    """Return a function that reads non-null values of a primitive or logical schema; None for other schemas."""
    match schema.name:
        case str() as name if name == DECIMAL:
            return lambda node: _read_decimal(schema, node)
        case str() as name if name == DATE:
            return lambda node: to_date(_read_int("Date", node))
        case str() as name if name == TIME:
            return lambda node: to_time(_read_int("Time", node))
        case str() as name if name == TIMESTAMP:
            return _read_timestamp
        case _:
            pass
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            bits = _BITS[schema.type]
            return lambda node: _read_integer(node, bits)
        case Type.FLOAT32:
            return _read_float
        case Type.FLOAT64:
            return to_double
        case Type.BOOLEAN:
            return lambda node: node is True
        case Type.STRING:
            return _read_text
        case Type.BYTES:
            return _read_bytes
        case _:
            return None


class JsonReader:
    """Compiles schemas to reading functions, with the settings of a converter."""

    def __init__(self, *, replace_null: bool) -> None:
        self._replace_null = replace_null

    def compile_reader(self, schema: Schema | None) -> Read:
        """Return a function that reads a schema's values, including null."""
        if schema is None:
            return to_schemaless
        read_non_null = self._compile_non_null(schema)
        default = schema.default if self._replace_null else None
        null_error = f"Invalid null value for required {schema.type.name} field"
        optional = schema.optional

        def read(node: Any) -> Any:
            if node is not None:
                return read_non_null(node)
            if default is not None or optional:
                return default
            raise DataException(null_error)

        return read

    def _compile_non_null(self, schema: Schema) -> Read:
        read = compile_leaf(schema)
        if read is not None:
            return read
        match schema.type:
            case Type.ARRAY:
                return self._compile_array(schema)
            case Type.MAP:
                return self._compile_map(schema)
            case _:
                return self._compile_struct(schema)

    def _compile_array(self, schema: Schema) -> Read:
        read_element = self.compile_reader(schema.value)

        def read(node: Any) -> list[Any]:
            items = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
            return [read_element(item) for item in items]

        return read

    def _compile_map(self, schema: Schema) -> Read:
        read_key, read_value = self.compile_reader(schema.key), self.compile_reader(schema.value)
        is_object = schema.key is not None and schema.key.type is Type.STRING

        def read(node: Any) -> dict[Any, Any]:
            if is_object:
                if not isinstance(node, dict):
                    raise DataException(
                        f"Maps with string fields should be encoded as JSON objects, but found {get_node_type(node)}"
                    )
                return {key: read_value(member) for key, member in node.items()}
            if not isinstance(node, list):
                raise DataException(
                    "Maps with non-string fields should be encoded as JSON array of tuples, but found "
                    + get_node_type(node)
                )
            entries = {}
            for entry in node:
                if not isinstance(entry, list):
                    raise DataException(
                        f"Found invalid map entry instead of array tuple: {get_node_type(entry)}"
                    )
                if len(entry) != 2:  # noqa: PLR2004 - key and value
                    raise DataException(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
                entries[as_key(read_key(entry[0]))] = read_value(entry[1])
            return entries

        return read

    def _compile_struct(self, schema: Schema) -> Read:
        fields = [
            (field.name, field.schema, self.compile_reader(field.schema), _may_return_null(field.schema))
            for field in schema.fields
        ]

        def read(node: Any) -> Struct:
            if not isinstance(node, dict):
                raise DataException(
                    f"Structs should be encoded as JSON objects, but found {get_node_type(node)}"
                )
            values = {}
            for name, field_schema, read_value, may_be_null in fields:
                value = read_value(node.get(name))
                if may_be_null:
                    validate(field_schema, value, name)
                values[name] = value
            return Struct(schema, values)

        return read


def _may_return_null(schema: Schema) -> bool:
    """Return whether the reader may return null for a required value, such as for a number node and a string schema."""
    if schema.name == DECIMAL:
        return False
    match schema.type:
        case Type.STRING | Type.BYTES:
            return not schema.optional
        case Type.ARRAY | Type.MAP:
            return any(_may_return_null(part) for part in (schema.key, schema.value) if part is not None)
        case _:
            return False
