"""Base of the converters with a schema registry: schema IDs, framing, caching.

Encoded values consist of the magic byte 0, the schema ID (big-endian int32), and the value in its format. The converter
fetches each schema once and compiles it to a function. Requests are sent to the registry only for schemas that are not
cached.
Implements "Wire format" of the Confluent documentation:
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from typing_extensions import override

from kraal import __version__
from kraal.config.converter import CONVERTER_TYPE
from kraal.config.key import ConfigDef
from kraal.converters.schema_registry import config as keys
from kraal.converters.schema_registry.client import (
    SchemaRegistry,
    SchemaText,
    SerializationException,
    Settings,
    check_installed,
)
from kraal.core.errors import ConfigInvalid
from kraal.plugins.api import ByRecords, Converter, DataException, RetriableError, Schema

if TYPE_CHECKING:
    from pyspark.sql import Column

MAGIC: Final = b"\x00"
HEADER_SIZE: Final = 5
"""Number of bytes before the value: the magic byte and the ID."""

UNKNOWN_MAGIC_ERROR: Final = (
    "expected magic byte 0 as the first byte, got {}; the value was not written with a schema registry"
)

Encode = Callable[[Any], bytes]
"""Returns the bytes of a value without the header. Raises DataException."""
Decode = Callable[[bytes], tuple[Schema | None, Any]]
"""Decodes schema and value from bytes that include the header. Raises SerializationException and DataException."""
GetVersion = Callable[[str | None], int | None]
"""Returns the registered version of the schema; the argument is its record name. Raises the registry's errors."""


def unreadable_error(title: str, data: bytes, reason: object) -> SerializationException:
    """Return the error for bytes that do not match their schema; `title` names the format."""
    schema_id = int.from_bytes(data[1:HEADER_SIZE], "big")
    return SerializationException(f"{title} value does not match its schema with ID {schema_id}: {reason}")


@dataclass(frozen=True, slots=True)
class TranslatedSchema:
    """A Connect schema translated to a format."""

    schema: SchemaText
    name: str | None
    """The full name of the record; None for a schema without a name."""


class Format(Protocol):
    """A serialization format: Avro, JSON Schema or Protobuf. Implementations must be picklable."""

    @property
    def kind(self) -> str:
        """The name of the format in the registry: AVRO, JSON or PROTOBUF."""

    @property
    def title(self) -> str:
        """The display name of the format, for errors."""

    def writes_null(self, schema: Schema | None) -> bool:
        """Return whether null is encoded as a value, not as a tombstone. Raises DataException if it is not allowed."""

    def describe(self, schema: Schema | None) -> TranslatedSchema:
        """Return the schema to register for a Connect schema."""

    def encoder(
        self, schema: Schema | None, registered_schema: SchemaText, references: Mapping[str, SchemaText]
    ) -> Encode:
        """Return a function that encodes the values of a Connect schema with a registered schema."""

    def decoder(
        self, registered_schema: SchemaText, references: Mapping[str, SchemaText], get_version: GetVersion
    ) -> Decode:
        """Return a function that decodes values. `get_version` returns the registered version of the schema."""


class RegistryConverter(Converter):
    """Base class of the converters with a schema registry."""

    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef]
    by_columns: ClassVar[bool] = False

    def __init__(self) -> None:
        self._is_key = False
        self._cache_expires = False
        self._ttl_s = -1
        self._oldest_cached_s = 0.0
        """Monotonic time in seconds at which the oldest cached latest schema was fetched."""
        self._reset_caches()

    @abstractmethod
    def make_format(self, parsed: Mapping[str, Any]) -> Format:
        """Create the format from a converter's parsed config. Raises ValueError."""

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        parsed = parse(self.config_def, config, is_key=is_key)
        check_installed()
        self._is_key = is_key
        self._format = self.make_format(parsed)
        self._registry = SchemaRegistry(Settings.of(parsed))
        self._auto_registers = parsed[keys.AUTO_REGISTER] is True
        self._uses_latest = parsed[keys.USE_LATEST] is True
        ttl_s = int(parsed[keys.LATEST_TTL])
        self._cache_expires = self._uses_latest and not self._auto_registers and ttl_s >= 0
        self._ttl_s = ttl_s
        self._normalize = parsed[keys.NORMALIZE] is True
        self._cache_size = int(parsed[keys.CACHE])
        self._strategy = str(parsed[f"{self._part}.subject.name.strategy"])

    @property
    def _part(self) -> str:
        return "key" if self._is_key else "value"

    def _reset_caches(self) -> None:
        self._encoders: dict[tuple[str, int], tuple[Schema | None, bytes, Encode]] = {}
        self._encoders_by_schema: dict[tuple[str, str], tuple[bytes, Encode]] = {}
        self._decoders: dict[tuple[str, int], Decode] = {}

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encoders": {}, "_encoders_by_schema": {}, "_decoders": {}}

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and not self._format.writes_null(schema):
            return None
        operation = f"Cannot encode a record of topic {topic} as {self._format.title}"
        try:
            if self._cache_expires and time.monotonic() - self._oldest_cached_s >= self._ttl_s:
                self._encoders, self._encoders_by_schema = {}, {}
            encoder = self._encoders.get((topic, id(schema)))
            if encoder is None or encoder[0] is not schema:
                encoder = self._find_encoder(topic, schema)
            return encoder[1] + encoder[2](value)
        except SerializationException as exc:
            raise DataException(f"{operation}: {exc}") from exc
        except RetriableError as exc:
            raise RetriableError(f"{operation}: {exc}") from exc

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        operation = f"Cannot decode a record of topic {topic} as {self._format.title}"
        try:
            if data[:1] != MAGIC:
                raise SerializationException(
                    UNKNOWN_MAGIC_ERROR.format(f"0x{data[:1].hex()}" if data else "none")
                )
            if len(data) < HEADER_SIZE:
                raise SerializationException(
                    f"truncated header: expected {HEADER_SIZE} bytes (magic byte and schema ID), got {len(data)}"
                )
            schema_id = int.from_bytes(data[1:HEADER_SIZE], "big", signed=True)
            decoder = self._decoders.get((topic, schema_id))
            if decoder is None:
                decoder = self._add_to_cache(
                    self._decoders, (topic, schema_id), self._make_decoder(topic, schema_id)
                )
            return decoder(data)
        except SerializationException as exc:
            raise DataException(f"{operation}: {exc}") from exc
        except RetriableError as exc:
            raise RetriableError(f"{operation}: {exc}") from exc

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        """Raise ByRecords, because each value contains a schema ID."""
        raise ByRecords

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        """Raise ByRecords, as `from_connect` does."""
        raise ByRecords

    def _find_encoder(self, topic: str, schema: Schema | None) -> tuple[Schema | None, bytes, Encode]:
        """Return a schema with its header and encoder. Cached by the identity and by the content of the schema."""
        cache_key = (topic, repr(schema))
        encoding = self._encoders_by_schema.get(cache_key)
        if encoding is None:
            if not self._encoders_by_schema:
                self._oldest_cached_s = time.monotonic()
            encoding = self._add_to_cache(
                self._encoders_by_schema, cache_key, self._make_encoder(topic, schema)
            )
        encoder = (schema, *encoding)
        self._add_to_cache(self._encoders, (topic, id(schema)), encoder)
        return encoder

    def _add_to_cache(self, cache: dict[Any, Any], key: Any, value: Any) -> Any:
        if len(cache) >= self._cache_size:
            cache.clear()
        cache[key] = value
        return value

    def _make_encoder(self, topic: str, schema: Schema | None) -> tuple[bytes, Encode]:
        title, registry = self._format.title, self._registry
        translated_schema = self._format.describe(schema)
        subject, registered_schema = (
            self._make_subject_name(topic, translated_schema.name),
            translated_schema.schema,
        )
        if self._auto_registers:
            operation = f"cannot register {title} schema under subject {subject}: {registered_schema.text}"
            schema_id = registry.register(subject, registered_schema, operation, normalize=self._normalize)
        elif self._uses_latest:
            operation = f"cannot get the latest {title} schema of subject {subject}"
            schema_id, registered_schema = registry.latest_schema(subject, operation)
        else:
            operation = f"cannot find {title} schema under subject {subject}: {registered_schema.text}"
            schema_id = registry.look_up_id(subject, registered_schema, operation, normalize=self._normalize)
        self._check_schema_type(registered_schema, schema_id)
        references = registry.referenced_schemas(registered_schema, operation)
        return MAGIC + schema_id.to_bytes(4, "big"), self._format.encoder(
            schema, registered_schema, references
        )

    def _make_decoder(self, topic: str, schema_id: int) -> Decode:
        title, registry = self._format.title, self._registry
        operation = f"cannot get the {title} schema with ID {schema_id} of a {self._part}"
        subject = self._make_subject_name(topic, None) if self._strategy == keys.TOPIC_NAME else None
        registered_schema = registry.schema(schema_id, subject, operation)
        self._check_schema_type(registered_schema, schema_id)
        references = registry.referenced_schemas(registered_schema, operation)

        def get_version(name: str | None) -> int | None:
            version_subject = subject or self._make_subject_name(topic, name)
            return registry.version(
                schema_id,
                version_subject,
                f"cannot get the version of {title} schema {schema_id} in subject {version_subject}",
            )

        return self._format.decoder(registered_schema, references, get_version)

    def _check_schema_type(self, registered_schema: SchemaText, schema_id: int) -> None:
        if registered_schema.kind != self._format.kind:
            raise SerializationException(
                f"the schema with ID {schema_id} has the type {registered_schema.kind}, not {self._format.kind}"
            )

    def _make_subject_name(self, topic: str, name: str | None) -> str:
        """Return the subject of a schema. Raises SerializationException if the strategy requires a missing name."""
        if self._strategy == keys.TOPIC_NAME:
            return f"{topic}-{self._part}"
        if name is None:
            raise SerializationException(
                f"{self._part}.subject.name.strategy={self._strategy} requires a record name, which this schema does "
                f"not have; use {keys.TOPIC_NAME} or add a name to the schema"
            )
        return name if self._strategy == keys.RECORD_NAME else f"{topic}-{name}"


def parse(config_def: ConfigDef, config: Mapping[str, str], *, is_key: bool) -> dict[str, Any]:
    """Parse the config of a converter. Raises ValueError with all errors."""
    try:
        return dict(config_def.parse({**config, CONVERTER_TYPE: "key" if is_key else "value"}))
    except ConfigInvalid as exc:
        raise ValueError(str(exc)) from exc
