"""What turns values into Kafka's bytes and back. Plugin authors import it from `kraal.plugins.api`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.plugins.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import Column


class HeaderConverter(ABC):
    """Turns values of headers into bytes and back, one by one.

    Stateless after `configure`; pickled to Spark's Python processes.
    Source: org.apache.kafka.connect.storage.HeaderConverter.
    """

    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]

    @abstractmethod
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        """Take the converter's own keys, prefix removed; for headers `is_key` is False. Raises ValueError."""

    @abstractmethod
    def encode_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return a header's bytes. Raises DataException with Java's message (`fromConnectHeader`)."""

    @abstractmethod
    def decode_header(self, topic: str, name: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return a header's schema and value. Raises DataException with Java's message (`toConnectHeader`)."""


class Converter(HeaderConverter):
    """Turns values into Kafka's bytes and back, as column expressions and record by record.

    Columns are for what is known before a job, records for what comes with each of them. Every converter converts
    headers as well, by the record path. Source: org.apache.kafka.connect.storage.Converter.
    """

    by_columns: ClassVar[bool] = True
    """Whether it can write and read columns. False: records go one by one; nobody calls the two methods for columns."""

    @abstractmethod
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value as `kraal.plugins.records` has them; None is a tombstone.

        Raises DataException with Java's message (`fromConnectData`).
        """

    @abstractmethod
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return schema (None: schemaless) and value. Raises DataException with Java's message (`toConnectData`)."""

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
        """Return an expression of type binary for `value`, which has `schema`. Null stays null.

        Raises ValueError when this converter cannot write the schema (as Java's DataException).
        """

    @abstractmethod
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        """Return for binary `value`: an expression, an error text column (null = good) or None, the schema."""
