"""Bytes as they are. Source: ByteArrayConverter (Kafka 4.3.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from kraal import __version__
from kraal.config.converters import BYTE_ARRAY_CONVERTER
from kraal.plugins.api import ConfigDef, Converter, Schema
from kraal.plugins.schema import OPTIONAL_BYTES, Type

if TYPE_CHECKING:
    from pyspark.sql import Column


class ByteArrayConverter(Converter):
    """Kafka's bytes pass unchanged in both directions."""

    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = BYTE_ARRAY_CONVERTER

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        del config, is_key

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        del topic
        if schema is not None and schema.type is not Type.BYTES:
            raise ValueError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        return value.cast("binary")

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        del topic
        return value, None, OPTIONAL_BYTES
