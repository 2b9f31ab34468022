"""Converts values to text, and text to values with inferred types. Source: Values (Kafka 4.4.0).

Java's Byte, Short and Integer are all represented by int; the schema returned with the value distinguishes them.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from kraal.plugins.model.records import DATE, DECIMAL, TIME, TIMESTAMP, DataException, Instant, Struct
from kraal.plugins.model.schema import STRING, Schema, Type
from kraal.plugins.values.inferred_schemas import SchemaMerger, align
from kraal.plugins.values.java_time import MS_PER_DAY, format_iso_date, format_iso_time, to_epoch_day
from kraal.plugins.values.java_values import exact_float32, java_class, java_text
from kraal.plugins.values.logical import decimal_parts
from kraal.plugins.values.map_keys import as_key
from kraal.plugins.values.tokens import BLANK, Tokens

_SchemaAndValue = tuple[Schema | None, Any]

_LITERALS: Final[tuple[tuple[str, _SchemaAndValue | None], ...]] = (
    ("null", None),
    ("true", (Schema(type=Type.BOOLEAN), True)),
    ("false", (Schema(type=Type.BOOLEAN), False)),
)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_INTEGER_TYPES: Final = ((8, Type.INT8), (16, Type.INT16), (32, Type.INT32), (64, Type.INT64))
_DATE_SHAPE: Final = r"[ \t]*(-?\d+)-[ \t]*(-?\d+)-[ \t]*(-?\d+)"
_TIME_SHAPE: Final = r"[ \t]*(-?\d+):[ \t]*(-?\d+):[ \t]*(-?\d+)\.[ \t]*(-?\d+)Z"
_TIME_FORMATS: Final = {
    len("yyyy-MM-dd"): (re.compile(_DATE_SHAPE), Schema(type=Type.INT32, name=DATE, version=1)),
    len("HH:mm:ss.SSSZ"): (re.compile(_TIME_SHAPE), Schema(type=Type.INT32, name=TIME, version=1)),
    len("yyyy-MM-ddTHH:mm:ss.SSSZ"): (
        re.compile(f"{_DATE_SHAPE}T{_TIME_SHAPE}"),
        Schema(type=Type.INT64, name=TIMESTAMP, version=1),
    ),
}
_DATE_PARTS, _TIME_PARTS = 3, 4
_TOO_LARGE_EXPONENT: Final = 1000
"""An exponent of ten for which no integer fits into 64 bits."""


def convert_to_string(value: Any) -> str | None:
    """Convert a value to text; None stays None. Raises DataException for an unsupported value."""
    return None if value is None else _format_value(value, embedded=False)


def _format_value(value: Any, *, embedded: bool) -> str:
    match value:
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"' if embedded else value
        case bytes():
            text = b64encode(value).decode("ascii")
            return f'"{text}"' if embedded else text
        case list() | tuple():
            return "[" + ",".join(_format_value(item, embedded=True) for item in value) + "]"
        case Mapping():
            pairs = (
                f"{_format_value(key, embedded=True)}:{_format_value(item, embedded=True)}"
                for key, item in value.items()
            )
            return "{" + ",".join(pairs) + "}"
        case Struct():
            fields = (
                f"{_format_value(field.name, embedded=True)}:{_format_value(value.get(field.name), embedded=True)}"
                for field in value.schema.fields
            )
            return "{" + ",".join(fields) + "}"
        case Instant():
            return _format_time(value.ms)
        case None | bool() | int() | float() | Decimal():
            return java_text(value)
        case _:
            class_name = java_class(value, None)
            raise DataException(f"Failed to serialize unexpected value type {class_name}: {value}")


def _format_time(ms: int) -> str:
    if ms < MS_PER_DAY:
        return format_iso_time(ms)
    return format_iso_date(ms) if ms % MS_PER_DAY == 0 else f"{format_iso_date(ms)}T{format_iso_time(ms)}"


def parse_string(text: str | None) -> _SchemaAndValue:
    """Parse a null, boolean, number, date, list, map or string; return its inferred schema and its value.

    Return `(None, None)` for None and for text that represents null.
    """
    if text is None:
        return None, None
    if not text:
        return STRING, text
    return _Parser(text).parse(embedded=False) or (None, None)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)

    def parse(self, *, embedded: bool) -> _SchemaAndValue | None:
        """Parse the next value; return None for null. Raises DataException only within lists and maps."""
        tokens = self._tokens
        if not tokens.has_next():
            return None
        if embedded and tokens.take('"'):
            return self._parse_quoted()
        for literal, value in _LITERALS:
            if self._is_literal(literal, embedded=embedded):
                return value
        start = tokens.mark()
        try:
            if tokens.take("["):
                return self._parse_list()
            if tokens.take("{"):
                return self._parse_map()
        except DataException:
            tokens.rewind(start)
        token = tokens.next()
        trimmed_token = token.strip(BLANK)
        return self._parse_scalar(trimmed_token, embedded=embedded) if trimmed_token else (STRING, token)

    def _is_literal(self, literal: str, *, embedded: bool) -> bool:
        """Consume the literal if it is next; outside lists and maps, it must be the whole text."""
        start = self._tokens.mark()
        if self._tokens.take(literal) and (embedded or not self._tokens.has_next()):
            return True
        self._tokens.rewind(start)
        return False

    def _parse_scalar(self, token: str, *, embedded: bool) -> _SchemaAndValue:
        value = None
        if token[0].isdigit():
            value = self._parse_time_tokens(token)
        if value is None and (token[0].isdigit() or token[0] in "+-"):
            value = _parse_number(token)
        if value is None and embedded:
            raise DataException("Failed to parse embedded value")
        return value or (STRING, self._tokens.text)

    def _parse_time_tokens(self, token: str) -> _SchemaAndValue | None:
        """Parse a time of up to five tokens, because colons delimit tokens."""
        start = self._tokens.mark()
        next_tokens = self._tokens.take_many(4)
        time = None if next_tokens is None else _parse_time(token + next_tokens)
        if time is None:
            self._tokens.rewind(start)
            time = _parse_time(token)
        return time

    def _parse_quoted(self) -> _SchemaAndValue:
        parts = []
        while self._tokens.has_next() and not self._tokens.take('"'):
            parts.append(self._tokens.next())
        text = "".join(parts)
        return _parse_time(text) or (STRING, text)

    def _parse_list(self) -> _SchemaAndValue:
        tokens, items, schemas = self._tokens, list[Any](), SchemaMerger()
        while tokens.has_next():
            if tokens.take("]"):
                schema = Schema(type=Type.ARRAY, value=schemas.common)
                return schema, [align(schemas.common, item) for item in items]
            if tokens.take(","):
                raise DataException(f"Unable to parse an empty array element: {tokens.text}")
            element = self.parse(embedded=True)
            schemas.merge(element)
            items.append(None if element is None else element[1])
            position = tokens.mark()
            if tokens.take("]"):
                tokens.rewind(position)
            elif not tokens.take(","):
                raise DataException("Array elements missing ',' delimiter")
        raise DataException(f"Array is missing terminating ']': {tokens.text}")

    def _parse_map(self) -> _SchemaAndValue:
        tokens, items = self._tokens, dict[Any, Any]()
        keys, values = SchemaMerger(), SchemaMerger()
        while tokens.has_next():
            if tokens.take("}"):
                value_schema = values.common if keys.common is not None else None
                pairs = {as_key(align(keys.common, k)): align(value_schema, v) for k, v in items.items()}
                return Schema(type=Type.MAP, key=keys.common, value=value_schema), pairs
            if tokens.take(","):
                raise DataException(f"Unable to parse a map entry with no key or value: {tokens.text}")
            key = self.parse(embedded=True)
            if key is None or key[1] is None:
                raise DataException(f"Map entry may not have a null key: {tokens.text}")
            if not tokens.take(":"):
                raise DataException(f"Map entry is missing ':' at {tokens.mark()} in {tokens.text}")
            value = self.parse(embedded=True)
            items[as_key(key[1])] = None if value is None else value[1]
            tokens.take(",")
            keys.merge(key)
            values.merge(value)
        raise DataException(f"Map is missing terminating '}}': {tokens.text}")


def _parse_number(token: str) -> _SchemaAndValue | None:
    """Parse a number as the smallest type that can represent it; return None if the token is not a number."""
    if _NUMBER.fullmatch(token) is None:
        return None
    try:
        number = Decimal(token)
    except InvalidOperation:
        return None
    number = number or number.copy_abs()
    unscaled, scale = decimal_parts(number)
    if number.adjusted() < _TOO_LARGE_EXPONENT and (not unscaled or scale <= 0 or unscaled % 10**scale == 0):
        integer = int(number)
        for bits, kind in _INTEGER_TYPES:
            if -(1 << (bits - 1)) <= integer < 1 << (bits - 1):
                return Schema(type=kind), integer
    if scale:
        float_number = exact_float32(number)
        if abs(float_number) != float("inf"):
            return Schema(type=Type.FLOAT32), float_number
        if abs(float(number)) != float("inf"):
            return Schema(type=Type.FLOAT64), float(number)
    return Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters={"scale": str(scale)}), number


def _parse_time(text: str) -> _SchemaAndValue | None:
    """Parse a date, a time or a timestamp, depending on the text's length; fields out of range overflow."""
    text = text.replace("\\:", ":")
    shape, schema = _TIME_FORMATS.get(len(text), (None, None))
    match = None if shape is None else shape.match(text)
    if match is None:
        return None
    parts = list(map(int, match.groups()))
    days = to_epoch_day(*parts[:_DATE_PARTS]) if len(parts) != _TIME_PARTS else 0
    hour, minute, second, ms = parts[-_TIME_PARTS:] if len(parts) != _DATE_PARTS else (0, 0, 0, 0)
    return schema, Instant(days * MS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1000 + ms)
