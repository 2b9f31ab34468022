"""Conversion of parsed JSON to Connect values by schema. Source: JsonConverter.convertToConnect (Kafka 4.4.0).

As in `write`, a schema is compiled to functions once. Nodes are the results of `parse`. As with Jackson's nodes, a
number read as text is null, and text read as a number is 0.
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
_ALL_ZERO: Final = 64
"""Power of ten from which a number's lowest 64 bits are 0."""


def node_type(node: Any) -> str:
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


def plain(node: Any) -> Any:
    """Return a schemaless value: int for Long (cut to 64 bits), float for Double, dict, list."""
    match node:
        case Fraction():
            return to_double(node)
        case bool():
            return node
        case int():
            return narrow(node, 64)
        case dict():
            return {name: plain(item) for name, item in node.items()}
        case list():
            return [plain(item) for item in node]
        case Missing():
            return None
        case _:
            return node


def to_double(node: Any) -> float:
    """Return a node as a double, or 0 if it is not a number."""
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
    """Return a number with all its digits."""
    number = Decimal(node)
    return number or number.copy_abs()


def _read_integer(node: Any, bits: int) -> int:
    if isinstance(node, Fraction):
        exact = Decimal(node)
        if exact.adjusted() < 0:
            return 0
        exponent = exact.as_tuple().exponent
        return narrow(0 if isinstance(exponent, int) and exponent >= _ALL_ZERO else int(exact), bits)
    return narrow(node, bits) if type(node) is int else 0


def _float(node: Any) -> Float32:
    if isinstance(node, Fraction) or type(node) is int:
        return exact_float32(to_exact(node))
    return Float32(0)


def _text(node: Any) -> str | None:
    return node if type(node) is str else None


def decode_base64(text: str) -> bytes:
    """Decode base64 as Jackson does, accepting blanks between groups of four. Raises ValueError."""
    try:
        return a2b_base64(text, strict_mode=True)
    except ValueError:
        data, remaining = b"", text.strip("".join(map(chr, range(33))))
        while remaining:
            data += a2b_base64(remaining[:4], strict_mode=True)
            remaining = remaining[4:].lstrip("".join(map(chr, range(33))))
        return data


def _bytes(node: Any) -> bytes | None:
    if type(node) is not str:
        return None
    try:
        return decode_base64(node)
    except ValueError as exc:
        raise DataException("Invalid bytes field") from exc


def _decimal(schema: Schema, node: Any) -> Decimal:
    if isinstance(node, Fraction) or type(node) is int:
        return to_exact(node)
    if type(node) is not str:
        raise DataException(
            "Invalid type for Decimal, underlying representation should be numeric or bytes but was "
            + node_type(node)
        )
    try:
        return to_decimal(schema, decode_base64(node))
    except (ValueError, DataException) as exc:
        raise DataException("Invalid bytes for Decimal field") from exc


def _to_int(name: str, node: Any) -> int:
    if type(node) is not int or node != narrow(node, 32):
        raise DataException(
            f"Invalid type for {name}, underlying representation should be integer but was {node_type(node)}"
        )
    return node


def _timestamp(node: Any) -> Instant:
    if type(node) is not int:
        raise DataException(
            "Invalid type for Timestamp, underlying representation should be integral but was "
            + node_type(node)
        )
    return Instant(narrow(node, 64))


def leaf(schema: Schema) -> Read | None:
    """Return a function that reads primitive and logical values other than null; None for other schemas."""
    match schema.name:
        case str() as name if name == DECIMAL:
            return lambda node: _decimal(schema, node)
        case str() as name if name == DATE:
            return lambda node: to_date(_to_int("Date", node))
        case str() as name if name == TIME:
            return lambda node: to_time(_to_int("Time", node))
        case str() as name if name == TIMESTAMP:
            return _timestamp
        case _:
            pass
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            bits = _BITS[schema.type]
            return lambda node: _read_integer(node, bits)
        case Type.FLOAT32:
            return _float
        case Type.FLOAT64:
            return to_double
        case Type.BOOLEAN:
            return lambda node: node is True
        case Type.STRING:
            return _text
        case Type.BYTES:
            return _bytes
        case _:
            return None


class JsonReader:
    """Compiles schemas to reading functions, with a converter's settings."""

    def __init__(self, *, replace_null: bool) -> None:
        self._replace_null = replace_null

    def reads(self, schema: Schema | None) -> Read:
        """Return a function that reads a schema's values, including null."""
        if schema is None:
            return plain
        present = self._present(schema)
        default = schema.default if self._replace_null else None
        refused = f"Invalid null value for required {schema.type.name} field"
        optional = schema.optional

        def read(node: Any) -> Any:
            if node is not None:
                return present(node)
            if default is not None or optional:
                return default
            raise DataException(refused)

        return read

    def _present(self, schema: Schema) -> Read:
        read = leaf(schema)
        if read is not None:
            return read
        match schema.type:
            case Type.ARRAY:
                return self._array(schema)
            case Type.MAP:
                return self._map(schema)
            case _:
                return self._struct(schema)

    def _array(self, schema: Schema) -> Read:
        element = self.reads(schema.value)

        def read(node: Any) -> list[Any]:
            members = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
            return [element(each) for each in members]

        return read

    def _map(self, schema: Schema) -> Read:
        name, item = self.reads(schema.key), self.reads(schema.value)
        is_object = schema.key is not None and schema.key.type is Type.STRING

        def read(node: Any) -> dict[Any, Any]:
            if is_object:
                if not isinstance(node, dict):
                    raise DataException(
                        f"Maps with string fields should be encoded as JSON objects, but found {node_type(node)}"
                    )
                return {key: item(each) for key, each in node.items()}
            if not isinstance(node, list):
                raise DataException(
                    "Maps with non-string fields should be encoded as JSON array of tuples, but found "
                    + node_type(node)
                )
            entries = {}
            for entry in node:
                if not isinstance(entry, list):
                    raise DataException(f"Found invalid map entry instead of array tuple: {node_type(entry)}")
                if len(entry) != 2:  # noqa: PLR2004 - key and value
                    raise DataException(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
                entries[as_key(name(entry[0]))] = item(entry[1])
            return entries

        return read

    def _struct(self, schema: Schema) -> Read:
        fields = [
            (field.name, field.schema, self.reads(field.schema), _may_be_wrong(field.schema))
            for field in schema.fields
        ]

        def read(node: Any) -> Struct:
            if not isinstance(node, dict):
                raise DataException(f"Structs should be encoded as JSON objects, but found {node_type(node)}")
            values = {}
            for name, of_field, value_of, may_be_wrong in fields:
                value = value_of(node.get(name))
                if may_be_wrong:
                    validate(of_field, value, name)
                values[name] = value
            return Struct(schema, values)

        return read


def _may_be_wrong(schema: Schema) -> bool:
    """Return whether reading can produce null for a required value, as strings and bytes do for other nodes."""
    if schema.name == DECIMAL:
        return False
    match schema.type:
        case Type.STRING | Type.BYTES:
            return not schema.optional
        case Type.ARRAY | Type.MAP:
            return any(_may_be_wrong(part) for part in (schema.key, schema.value) if part is not None)
        case _:
            return False
