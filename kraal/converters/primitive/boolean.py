"""BooleanConverter: one byte, 0 or 1. Source: BooleanConverter (Kafka 4.4.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from kraal import __version__
from kraal.config.converter import parse
from kraal.converters.primitive.config import BOOLEAN_CONVERTER
from kraal.engine.columns.functions import F
from kraal.plugins.api import ConfigDef, Converter, DataException, Schema
from kraal.plugins.model.schema import Type
from kraal.plugins.values.java_values import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column

INVALID_TYPE_ERROR: Final = "Invalid schema type for BooleanConverter: "
DESERIALIZATION_ERROR: Final = "Failed to deserialize boolean: "

_OPTIONAL_BOOLEAN: Final = Schema(type=Type.BOOLEAN, optional=True)
_VALUES_BY_BYTE: Final = {b"\x00": False, b"\x01": True}


class BooleanConverter(Converter):
    """Converter between booleans and single bytes."""

    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = BOOLEAN_CONVERTER

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        parse(self.config_def, config, is_key=is_key)

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        del topic
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataException(INVALID_TYPE_ERROR + schema.type.name)
        if value is None:
            return None
        if not isinstance(value, bool):
            class_name = java_class(value, schema)
            raise DataException(f"BooleanConverter is not compatible with objects of type class {class_name}")
        return b"\x01" if value else b"\x00"

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        del topic
        if data is None:
            return _OPTIONAL_BOOLEAN, None
        if data not in _VALUES_BY_BYTE:
            raise DataException(DESERIALIZATION_ERROR)
        return _OPTIONAL_BOOLEAN, _VALUES_BY_BYTE[data]

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        del topic
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise ValueError(INVALID_TYPE_ERROR + schema.type.name)
        value = value.cast("boolean")
        return F.when(value.isNotNull(), F.unhex(F.when(value, F.lit("01")).otherwise(F.lit("00"))))

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        del topic
        digits = F.hex(value)
        is_invalid = value.isNotNull() & ~digits.isin("00", "01")
        return (
            F.when(~is_invalid, digits == F.lit("01")),
            F.when(is_invalid, F.lit(DESERIALIZATION_ERROR)),
            _OPTIONAL_BOOLEAN,
        )
