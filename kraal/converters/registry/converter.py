"""What a converter with a registry does with every value: find the schema's id, frame, encode; and back.

Bytes: 0, the schema's id as int32, big endian, and the value as its format has it. Each schema is asked for once and
turned into a function; the registry is asked again only for what was never seen, or was forgotten.
Source: AvroConverter, AbstractKafkaAvroSerializer, AbstractKafkaAvroDeserializer (Confluent Schema Registry 8).
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from typing_extensions import override

from kraal import __version__
from kraal.config import registry_converters as keys
from kraal.config.converters import CONVERTER_TYPE
from kraal.config.key import ConfigDef
from kraal.converters.registry.client import SchemaRegistry, SchemaText, Settings, check_installed
from kraal.converters.registry.errors import SerializationException
from kraal.errors import ConfigInvalid
from kraal.plugins.api import ByRecords, Converter, DataException, RetriableError, Schema

if TYPE_CHECKING:
    from pyspark.sql import Column

MAGIC: Final = b"\x00"
HEAD: Final = 5
"""Bytes before the value: the magic byte and the id."""

UNKNOWN_MAGIC: Final = "Unknown magic byte!"

Encode = Callable[[Any], bytes]
"""Returns a value's bytes, without what stands before them. Raises DataException."""
Decode = Callable[[bytes], tuple[Schema | None, Any]]
"""Reads schema and value from all bytes of a record. Raises SerializationException and DataException."""
VersionOf = Callable[[str | None], int | None]
"""Returns the registry's version of the schema that is read, whose record has this name. Raises as the registry."""


def unreadable(title: str, data: bytes, why: object) -> SerializationException:
    """Return the error for a record's bytes that are none of its schema's, in the words of the format `title`."""
    schema_id = int.from_bytes(data[1:HEAD], "big")
    return SerializationException(f"Error deserializing {title} message for id {schema_id}: {why}")


@dataclass(frozen=True, slots=True)
class Described:
    """A Connect schema in a format's words."""

    schema: SchemaText
    name: str | None
    """The record's full name; None where it has none."""


class Format(Protocol):
    """A format of schemas and values. Can be pickled; raises DataException where Java does."""

    @property
    def kind(self) -> str:
        """Its name, as registries have it."""

    @property
    def title(self) -> str:
        """Its name, as people have it."""

    @property
    def cannot_write(self) -> str:
        """How errors begin, `{}` being the topic."""

    @property
    def cannot_read(self) -> str:
        """The same, on the way in."""

    def writes_null(self, schema: Schema | None) -> bool:
        """Tell whether null has bytes, or is a tombstone. Raises DataException where there can be no null."""

    def described(self, schema: Schema | None) -> Described:
        """Return what is to be registered for a Connect schema."""

    def encoder(self, schema: Schema | None, written: SchemaText, named: Mapping[str, SchemaText]) -> Encode:
        """Return what writes a Connect schema's values as a registered schema says."""

    def decoder(self, written: SchemaText, named: Mapping[str, SchemaText], version_of: VersionOf) -> Decode:
        """Return what reads a registered schema's values; it asks for the version if that is to be the schema's."""


class RegistryConverter(Converter):
    """What the converters with a registry have in common."""

    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef]
    by_columns: ClassVar[bool] = False

    def __init__(self) -> None:
        self._is_key = False
        self._ages = False
        self._ttl_s = -1
        self._since_s = 0.0
        """When the first of the latest schemas that are remembered was asked for."""
        self._forget()

    @abstractmethod
    def make_format(self, parsed: Mapping[str, Any]) -> Format:
        """Return the format under a converter's parsed config. Raises ValueError."""

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        parsed = parse(self.config_def, config, is_key=is_key)
        check_installed()
        self._is_key = is_key
        self._format = self.make_format(parsed)
        self._registry = SchemaRegistry(Settings.of(parsed))
        self._registers = parsed[keys.AUTO_REGISTER] is True
        self._latest = parsed[keys.USE_LATEST] is True
        ttl_s = int(parsed[keys.LATEST_TTL])
        self._ages = self._latest and not self._registers and ttl_s >= 0
        self._ttl_s = ttl_s
        self._normalize = parsed[keys.NORMALIZE] is True
        self._size = int(parsed[keys.CACHE])
        self._strategy = str(parsed[f"{self._part}.subject.name.strategy"])

    @property
    def _part(self) -> str:
        return "key" if self._is_key else "value"

    def _forget(self) -> None:
        self._encoders: dict[tuple[str, int], tuple[Schema | None, bytes, Encode]] = {}
        self._same: dict[tuple[str, str], tuple[bytes, Encode]] = {}
        self._decoders: dict[tuple[str, int], Decode] = {}

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encoders": {}, "_same": {}, "_decoders": {}}

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and not self._format.writes_null(schema):
            return None
        doing = self._format.cannot_write.format(topic)
        try:
            if self._ages and time.monotonic() - self._since_s >= self._ttl_s:
                self._encoders, self._same = {}, {}
            known = self._encoders.get((topic, id(schema)))
            if known is None or known[0] is not schema:
                known = self._known(topic, schema)
            return known[1] + known[2](value)
        except SerializationException as exc:
            raise DataException(f"{doing}: {exc}") from exc
        except RetriableError as exc:
            raise RetriableError(f"{doing}: {exc}") from exc

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        doing = self._format.cannot_read.format(topic)
        try:
            if data[:1] != MAGIC:
                raise SerializationException(UNKNOWN_MAGIC)
            if len(data) < HEAD:
                raise SerializationException("Error deserializing message: the id of its schema is cut off")
            schema_id = int.from_bytes(data[1:HEAD], "big", signed=True)
            known = self._decoders.get((topic, schema_id))
            if known is None:
                known = self._kept(self._decoders, (topic, schema_id), self._decoder(topic, schema_id))
            return known(data)
        except SerializationException as exc:
            raise DataException(f"{doing}: {exc}") from exc
        except RetriableError as exc:
            raise RetriableError(f"{doing}: {exc}") from exc

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        """Raise ByRecords: which schema a value has, its bytes say."""
        raise ByRecords

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        """Raise ByRecords."""
        raise ByRecords

    def _known(self, topic: str, schema: Schema | None) -> tuple[Schema | None, bytes, Encode]:
        """Return how a schema's values are written; remembered by the schema's identity, and by what it says."""
        said = (topic, repr(schema))
        found = self._same.get(said)
        if found is None:
            if not self._same:
                self._since_s = time.monotonic()
            found = self._kept(self._same, said, self._encoder(topic, schema))
        made = (schema, *found)
        self._kept(self._encoders, (topic, id(schema)), made)
        return made

    def _kept(self, among: dict[Any, Any], key: Any, made: Any) -> Any:
        if len(among) >= self._size:
            among.clear()
        among[key] = made
        return made

    def _encoder(self, topic: str, schema: Schema | None) -> tuple[bytes, Encode]:
        title, registry = self._format.title, self._registry
        described = self._format.described(schema)
        subject, written = self._subject(topic, described.name), described.schema
        if self._registers:
            doing = f"Error registering {title} schema: {written.text}"
            schema_id = registry.register(subject, written, doing, normalize=self._normalize)
        elif self._latest:
            doing = f"Error retrieving latest version of {title} schema of subject {subject}"
            schema_id, written = registry.latest(subject, doing)
        else:
            doing = f"Error retrieving {title} schema: {written.text}"
            schema_id = registry.id_of(subject, written, doing, normalize=self._normalize)
        self._check_kind(written, schema_id)
        named = registry.named_by(written, doing)
        return MAGIC + schema_id.to_bytes(4, "big"), self._format.encoder(schema, written, named)

    def _decoder(self, topic: str, schema_id: int) -> Decode:
        title, registry = self._format.title, self._registry
        doing = f"Error retrieving {title} {self._part} schema for id {schema_id}"
        subject = self._subject(topic, None) if self._strategy == keys.TOPIC_NAME else None
        written = registry.schema(schema_id, subject, doing)
        self._check_kind(written, schema_id)
        named = registry.named_by(written, doing)

        def version_of(name: str | None) -> int | None:
            own = subject or self._subject(topic, name)
            return registry.version(
                schema_id, own, f"Error retrieving {title} {self._part} schema version for id {schema_id}"
            )

        return self._format.decoder(written, named, version_of)

    def _check_kind(self, written: SchemaText, schema_id: int) -> None:
        if written.kind != self._format.kind:
            raise SerializationException(
                f"the schema with id {schema_id} is of type {written.kind}, not {self._format.kind}"
            )

    def _subject(self, topic: str, name: str | None) -> str:
        """Return what a schema's subject is called. Raises SerializationException for a schema without a name."""
        if self._strategy == keys.TOPIC_NAME:
            return f"{topic}-{self._part}"
        if name is None:
            raise SerializationException(
                f"In configuration {self._part}.subject.name.strategy = {self._strategy}, the message {self._part} "
                "must only be a record schema"
            )
        return name if self._strategy == keys.RECORD_NAME else f"{topic}-{name}"


def parse(config_def: ConfigDef, config: Mapping[str, str], *, is_key: bool) -> dict[str, Any]:
    """Return a converter's parsed config. Raises ValueError that names every error."""
    try:
        return dict(config_def.parse({**config, CONVERTER_TYPE: "key" if is_key else "value"}))
    except ConfigInvalid as exc:
        raise ValueError(str(exc)) from exc
