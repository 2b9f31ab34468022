"""Base classes of converters and header converters. Plugin authors import them from `kraal.plugins.api`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.plugins.model.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column


class ColumnFormat(Enum):
    """The formats of a converter's input that the engine can read as columns."""

    TEXT = "text"
    """UTF-8, read as an optional string without a name; U+FFFD replaces invalid bytes."""
    BYTES = "bytes"
    """Any bytes, read as optional bytes."""
    JSON = "json"
    """JSON without a schema."""
    JSON_ENVELOPE = "json-envelope"
    """JSON of the form `{"schema":…,"payload":…}`."""


class HeaderConverter(ABC):
    """Converts header values to bytes and back, one by one.

    Stateless after `configure`; pickled for Spark's Python processes.
    Source: org.apache.kafka.connect.storage.HeaderConverter.
    """

    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]
    reads_any_header: ClassVar[bool] = False
    """Whether `decode_header` accepts all bytes and never raises."""

    @abstractmethod
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        """Apply the converter's own keys, without prefix; `is_key` is False for headers. Raises ValueError."""

    @abstractmethod
    def encode_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a header value. Raises DataException with Java's message (`fromConnectHeader`)."""

    @abstractmethod
    def decode_header(self, topic: str, name: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return the schema and value of a header. Raises DataException with Java's message (`toConnectHeader`)."""


class Converter(HeaderConverter):
    """Converts values to Kafka's bytes and back, as column expressions and record by record.

    The column path requires a schema that is known before the job; on the record path, each record may have its own.
    Every converter also converts headers, on the record path. Source: org.apache.kafka.connect.storage.Converter.
    """

    by_columns: ClassVar[bool] = True
    """Whether the converter can write and read columns. If False, `from_connect` and `to_connect` are never called."""

    @property
    def column_format(self) -> ColumnFormat | None:
        """The format that `decode` reads, if the engine may read it as columns instead; evaluated after `configure`.

        `TEXT` and `BYTES` also mean that strings and bytes are written unchanged. A subclass that overrides `decode`,
        `encode` or `from_connect` must redeclare this property. Otherwise, its records are converted one by one or by
        Spark.
        """
        return None

    def writes_columns_exactly(self, schema: Schema) -> bool:
        """Return whether `from_connect` produces the same bytes as `encode` for every value of this schema.

        A subclass that overrides either method must redeclare this method. Otherwise, its records are written one by
        one if the connector has transforms, and by Spark jobs, even for small batches, if it has no transforms.
        """
        del schema
        return False

    def for_columns(self, data: bytes) -> bytes:
        """Return bytes that `to_connect` converts to the value of `decode(data)`. Must not raise.

        Called for all records of a sink's batch if `to_connect` rejects a record that `decode` accepts.
        """
        return data

    @abstractmethod
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value as `kraal.plugins.model.records` defines it; None is a tombstone.

        Raises DataException with Java's message (`fromConnectData`).
        """

    @abstractmethod
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return schema (None if schemaless) and value. Raises DataException with Java's message (`toConnectData`)."""

    @override
    def encode_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        del name
        return self.encode(topic, schema, value)

    @override
    def decode_header(self, topic: str, name: str, data: bytes | None) -> tuple[Schema | None, Any]:
        del name
        return self.decode(topic, data)

    @abstractmethod
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        """Return an expression of type binary for `value`, whose schema is `schema`. Null stays null.

        Raises ValueError if this converter cannot write the schema (Java: DataException).
        """

    @abstractmethod
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        """Return an expression that decodes the binary column `value`, an expression for errors, and the schema.

        The errors are texts, or null for values without an error. The expression for errors is None if there cannot be
        errors.
        """
