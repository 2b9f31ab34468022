"""Converters of numbers to big-endian bytes of fixed length. Source: NumberConverter and its subclasses (Kafka 4.4.0).

As in Java, a value must have the type of the converter: IntegerConverter does not write a long. Without a schema, an
integer is a long, and a number with a fraction is a double (see `kraal.plugins.model.records`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from kraal import __version__
from kraal.config.converter import parse
from kraal.converters.primitive.config import NUMBER_CONVERTER
from kraal.engine.columns.functions import F
from kraal.plugins.api import ConfigDef, Converter, DataException, Schema
from kraal.plugins.model.records import Float32
from kraal.plugins.model.schema import Type
from kraal.plugins.values.java_values import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column


class NumberConverter(Converter):
    """Base class of the number converters."""

    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = NUMBER_CONVERTER

    type_name: ClassVar[str]
    """Name of the type in Java's error messages."""
    java_name: ClassVar[str]
    layout: ClassVar[struct.Struct]
    schema: ClassVar[Schema]
    sql_type: ClassVar[str]
    make_value: ClassVar[Callable[[Any], Any]] = int
    """Converts the unpacked number to the Connect value."""

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        parse(self.config_def, config, is_key=is_key)

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        del topic
        if value is None:
            return None
        class_name = java_class(value, schema)
        if class_name != self.java_name:
            raise DataException(f"Failed to serialize to {self.type_name} (was class {class_name}): ")
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
            raise DataException(self._deserialization_error)
        return self.schema, type(self).make_value(self.layout.unpack(data)[0])

    @property
    def _deserialization_error(self) -> str:
        return f"Failed to deserialize {self.type_name}: "

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        """Return bytes. A column with a schema must have the converter's type; a column without a schema is cast."""
        del topic
        if schema is not None and (schema.type is not self.schema.type or schema.name is not None):
            raise ValueError(f"Failed to serialize to {self.type_name} (was {schema.type.name}): ")
        return self._pack(value.cast(self.sql_type))

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        del topic
        is_invalid = value.isNotNull() & (F.octet_length(value) != F.lit(self.layout.size))
        return self._unpack(value), F.when(is_invalid, F.lit(self._deserialization_error)), self.schema

    def _pack(self, number: Column) -> Column:
        """Return the lowest bytes of an integer, taken from the end of its 16 hexadecimal digits."""
        digits = F.lpad(F.hex(number.cast("bigint")), 16, "0")
        return F.unhex(F.right(digits, F.lit(2 * self.layout.size)))

    def _unpack(self, data: Column) -> Column:
        """Return the integer; null if the bytes do not have the length of the type."""
        return F.when(self._has_width(data), self._extend_sign(data).cast(self.sql_type))

    def _has_width(self, data: Column) -> Column:
        return F.octet_length(data) == F.lit(self.layout.size)

    def _extend_sign(self, data: Column) -> Column:
        """Return the bytes as an integer, shifted to 64 bits and back to extend the sign."""
        bits = 8 * (8 - self.layout.size)
        digits = F.when(self._has_width(data), F.hex(data))
        return F.shiftright(F.shiftleft(F.conv(digits, 16, -10).cast("bigint"), bits), bits)


class ShortConverter(NumberConverter):
    """Converter for 16-bit integers."""

    type_name, java_name, sql_type = "short", "java.lang.Short", "smallint"
    layout = struct.Struct(">h")
    schema = Schema(type=Type.INT16, optional=True)


class IntegerConverter(NumberConverter):
    """Converter for 32-bit integers."""

    type_name, java_name, sql_type = "integer", "java.lang.Integer", "int"
    layout = struct.Struct(">i")
    schema = Schema(type=Type.INT32, optional=True)


class LongConverter(NumberConverter):
    """Converter for 64-bit integers."""

    type_name, java_name, sql_type = "long", "java.lang.Long", "bigint"
    layout = struct.Struct(">q")
    schema = Schema(type=Type.INT64, optional=True)


class _FloatingPointConverter(NumberConverter):
    """Base class of the float converters. Uses Java methods, because Spark cannot convert floats to their bits."""

    to_bits_method: ClassVar[str]
    from_bits_method: ClassVar[str]
    bits_type: ClassVar[str]

    @override
    def _pack(self, number: Column) -> Column:
        non_null_number = F.coalesce(number, F.lit(0).cast(self.sql_type))
        bits = F.reflect(F.lit(self.java_name), F.lit(self.to_bits_method), non_null_number)
        return super()._pack(F.when(number.isNotNull(), bits))

    @override
    def _unpack(self, data: Column) -> Column:
        bits = F.coalesce(self._extend_sign(data), F.lit(0)).cast(self.bits_type)
        text = F.reflect(F.lit(self.java_name), F.lit(self.from_bits_method), bits)
        return F.when(self._has_width(data), text.cast(self.sql_type))


class FloatConverter(_FloatingPointConverter):
    """Converter for 32-bit IEEE 754 numbers."""

    type_name, java_name, sql_type = "float", "java.lang.Float", "float"
    to_bits_method, from_bits_method, bits_type = "floatToRawIntBits", "intBitsToFloat", "int"
    layout = struct.Struct(">f")
    schema = Schema(type=Type.FLOAT32, optional=True)
    make_value = Float32


class DoubleConverter(_FloatingPointConverter):
    """Converter for 64-bit IEEE 754 numbers."""

    type_name, java_name, sql_type = "double", "java.lang.Double", "double"
    to_bits_method, from_bits_method, bits_type = "doubleToRawLongBits", "longBitsToDouble", "bigint"
    layout = struct.Struct(">d")
    schema = Schema(type=Type.FLOAT64, optional=True)
    make_value = float
