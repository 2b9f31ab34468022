"""ByteArrayConverter: bytes unchanged. Source: ByteArrayConverter (Kafka 4.4.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from kraal import __version__
from kraal.converters.primitive.config import BYTE_ARRAY_CONVERTER
from kraal.plugins.api import ColumnFormat, ConfigDef, Converter, DataException, Schema
from kraal.plugins.model.schema import OPTIONAL_BYTES, Type
from kraal.plugins.values.java_values import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column

INVALID_TYPE_ERROR: Final = "Invalid schema type for ByteArrayConverter: "


class ByteArrayConverter(Converter):
    """Converter that passes bytes unchanged in both directions."""

    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = BYTE_ARRAY_CONVERTER
    reads_any_header: ClassVar[bool] = True

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        del config, is_key

    @property
    @override
    def column_format(self) -> ColumnFormat | None:
        return ColumnFormat.BYTES

    @override
    def writes_columns_exactly(self, schema: Schema) -> bool:
        return schema.name is None and schema.type is Type.BYTES

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        del topic
        if schema is not None and schema.type is not Type.BYTES:
            raise DataException(INVALID_TYPE_ERROR + schema.type.name)
        if value is None or isinstance(value, bytes):
            return value
        class_name = java_class(value, schema)
        raise DataException(f"ByteArrayConverter is not compatible with objects of type class {class_name}")

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        del topic
        return OPTIONAL_BYTES, data

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        del topic
        if schema is not None and schema.type is not Type.BYTES:
            raise ValueError(INVALID_TYPE_ERROR + schema.type.name)
        return value.cast("binary")

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        del topic
        return value, None, OPTIONAL_BYTES
