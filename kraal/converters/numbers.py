"""Numbers as big-endian bytes of a fixed length. Source: NumberConverter and its subclasses (Kafka 4.3.0).

The value's type must be the converter's own: a long is not written by the converter of integers, as in Java. Without
a schema a whole number is a long, one with a point a double (see `kraal.plugins.records`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from typing_extensions import override

from kraal import __version__
from kraal.config.converters import NUMBER_CONVERTER
from kraal.converters.keys import parse
from kraal.plugins.api import ConfigDef, Converter, DataException, Schema
from kraal.plugins.java_values import java_class
from kraal.plugins.records import Float32
from kraal.plugins.schema import Type

if TYPE_CHECKING:
    from pyspark.sql import Column


class NumberConverter(Converter):
    """What the converters of numbers have in common."""

    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = NUMBER_CONVERTER

    type_name: ClassVar[str]
    """As Java's messages have it."""
    java_name: ClassVar[str]
    layout: ClassVar[struct.Struct]
    schema: ClassVar[Schema]
    sql_type: ClassVar[str]
    make: ClassVar[Callable[[Any], Any]] = int
    """Turns what was unpacked into Connect's value."""

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        parse(self.config_def, config, is_key=is_key)

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        del topic
        if value is None:
            return None
        found = java_class(value, schema)
        if found != self.java_name:
            raise DataException(f"Failed to serialize to {self.type_name} (was class {found}): ")
        try:
            return self.layout.pack(value)
        except (struct.error, OverflowError) as exc:
            raise DataException(f"Failed to serialize to {self.type_name}: ") from exc

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        del topic
        if data is None:
            return self.schema, None
        if len(data) != self.layout.size:
            raise DataException(self._unreadable)
        return self.schema, type(self).make(self.layout.unpack(data)[0])

    @property
    def _unreadable(self) -> str:
        return f"Failed to deserialize {self.type_name}: "

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        """Columns have a type of their own, which has to be the converter's; without a schema they are cast to it."""
        del topic
        if schema is not None and (schema.type is not self.schema.type or schema.name is not None):
            raise ValueError(f"Failed to serialize to {self.type_name} (was {schema.type.name}): ")
        return self._packed(value.cast(self.sql_type))

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        del topic
        wrong = value.isNotNull() & (F.octet_length(value) != F.lit(self.layout.size))
        return self._unpacked(value), F.when(wrong, F.lit(self._unreadable)), self.schema

    def _packed(self, number: Column) -> Column:
        """Return the bytes of a whole number: the last of its sixteen digits to the base 16."""
        digits = F.lpad(F.hex(number.cast("bigint")), 16, "0")
        return F.unhex(F.right(digits, F.lit(2 * self.layout.size)))

    def _unpacked(self, data: Column) -> Column:
        """Return the whole number, null for bytes of another length."""
        return F.when(self._fits(data), self._signed(data).cast(self.sql_type))

    def _fits(self, data: Column) -> Column:
        return F.octet_length(data) == F.lit(self.layout.size)

    def _signed(self, data: Column) -> Column:
        """Return the bytes as a whole number: shifted up to 64 bits and down again, for its sign."""
        bits = 8 * (8 - self.layout.size)
        digits = F.when(self._fits(data), F.hex(data))
        return F.shiftright(F.shiftleft(F.conv(digits, 16, -10).cast("bigint"), bits), bits)


class ShortConverter(NumberConverter):
    """16 bits."""

    type_name, java_name, sql_type = "short", "java.lang.Short", "smallint"
    layout = struct.Struct(">h")
    schema = Schema(type=Type.INT16, optional=True)


class IntegerConverter(NumberConverter):
    """32 bits."""

    type_name, java_name, sql_type = "integer", "java.lang.Integer", "int"
    layout = struct.Struct(">i")
    schema = Schema(type=Type.INT32, optional=True)


class LongConverter(NumberConverter):
    """64 bits."""

    type_name, java_name, sql_type = "long", "java.lang.Long", "bigint"
    layout = struct.Struct(">q")
    schema = Schema(type=Type.INT64, optional=True)


class _FractionConverter(NumberConverter):
    """Spark has no function for the bits of a float, Java has: it prints what Spark reads back."""

    bits_of: ClassVar[str]
    of_bits: ClassVar[str]
    bits_type: ClassVar[str]

    @override
    def _packed(self, number: Column) -> Column:
        known = F.coalesce(number, F.lit(0).cast(self.sql_type))
        bits = F.reflect(F.lit(self.java_name), F.lit(self.bits_of), known)
        return super()._packed(F.when(number.isNotNull(), bits))

    @override
    def _unpacked(self, data: Column) -> Column:
        bits = F.coalesce(self._signed(data), F.lit(0)).cast(self.bits_type)
        text = F.reflect(F.lit(self.java_name), F.lit(self.of_bits), bits)
        return F.when(self._fits(data), text.cast(self.sql_type))


class FloatConverter(_FractionConverter):
    """32 bits, IEEE 754."""

    type_name, java_name, sql_type = "float", "java.lang.Float", "float"
    bits_of, of_bits, bits_type = "floatToRawIntBits", "intBitsToFloat", "int"
    layout = struct.Struct(">f")
    schema = Schema(type=Type.FLOAT32, optional=True)
    make = Float32


class DoubleConverter(_FractionConverter):
    """64 bits, IEEE 754."""

    type_name, java_name, sql_type = "double", "java.lang.Double", "double"
    bits_of, of_bits, bits_type = "doubleToRawLongBits", "longBitsToDouble", "bigint"
    layout = struct.Struct(">d")
    schema = Schema(type=Type.FLOAT64, optional=True)
    make = float
