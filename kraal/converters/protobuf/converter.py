"""ProtobufConverter: Protobuf values with .proto schemas in a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.converters.protobuf.config import PROTOBUF_CONVERTER
from kraal.converters.protobuf.from_connect import to_proto
from kraal.converters.protobuf.link import LinkedFile, link
from kraal.converters.protobuf.model import ProtoInvalid
from kraal.converters.protobuf.names import ProtobufOptions
from kraal.converters.protobuf.parse import parse_proto
from kraal.converters.protobuf.read import Convert, ProtobufReader
from kraal.converters.protobuf.to_connect import connect_schema
from kraal.converters.protobuf.wire import MalformedMessage, MessageReader, encode_indexes, read_indexes
from kraal.converters.protobuf.write import ProtobufWriter
from kraal.converters.schema_registry.client import SchemaText, SerializationException
from kraal.converters.schema_registry.config import IGNORE_DEFAULTS
from kraal.converters.schema_registry.converter import (
    HEADER_SIZE,
    Decode,
    Encode,
    Format,
    GetVersion,
    RegistryConverter,
    TranslatedSchema,
    unreadable_error,
)
from kraal.plugins.api import Schema


@dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """The Protobuf format with the options of a converter."""

    options: ProtobufOptions
    kind: str = "PROTOBUF"
    title: str = "Protobuf"

    def writes_null(self, schema: Schema | None) -> bool:
        """Return False, since null is always a tombstone."""
        del schema
        return False

    def describe(self, schema: Schema | None) -> TranslatedSchema:
        """Return the .proto text for a Connect schema."""
        text, name = to_proto(schema, self.options)
        return TranslatedSchema(SchemaText(self.kind, text), name)

    def encoder(
        self, schema: Schema | None, registered_schema: SchemaText, references: Mapping[str, SchemaText]
    ) -> Encode:
        """Return a function that encodes values as message indexes and fields.

        Uses the first message if no message has the schema's name, as is possible in the latest schema of a subject.
        """
        linked_file = _link(registered_schema, references)
        _, name = to_proto(schema, self.options)
        assert schema is not None  # noqa: S101 - `to_proto` rejects None
        path = linked_file.find_path(name) or [0]
        indexes = encode_indexes(path)
        try:
            write = ProtobufWriter(self.options).compile_root(schema, linked_file.message_at(path))
        except ProtoInvalid as exc:
            raise SerializationException(str(exc)) from exc

        def encode(value: Any) -> bytes:
            out = bytearray(indexes)
            write(value, out)
            return bytes(out)

        return encode

    def decoder(
        self, registered_schema: SchemaText, references: Mapping[str, SchemaText], get_version: GetVersion
    ) -> Decode:
        """Return a function that decodes data to schema and value. The message indexes must follow the header."""
        linked_file = _link(registered_schema, references)
        reader, converters = MessageReader(), dict[tuple[int, ...], tuple[Any, Schema, Convert]]()

        def add_converter(path: tuple[int, ...]) -> tuple[Any, Schema, Convert]:
            message = linked_file.message_at(path)
            schema = connect_schema(message, self.options, get_version(message.full_name))
            converters[path] = message, schema, ProtobufReader(self.options).compile_root(message, schema)
            return converters[path]

        def decode(data: bytes) -> tuple[Schema | None, Any]:
            try:
                path, at = read_indexes(data, HEADER_SIZE)
                message, schema, convert = converters.get(path) or add_converter(path)
                return schema, convert(reader.read(message, data, at, len(data), {}))
            except (MalformedMessage, ProtoInvalid, RecursionError) as exc:
                raise unreadable_error(self.title, data, exc) from exc

        return decode


def _link(registered_schema: SchemaText, references: Mapping[str, SchemaText]) -> LinkedFile:
    """Parse and link a schema. Raises SerializationException if it is invalid."""
    try:
        files = {name: parse_proto(reference.text) for name, reference in references.items()}
        return link(parse_proto(registered_schema.text), files)
    except ProtoInvalid as exc:
        raise SerializationException(f"Invalid Protobuf schema: {exc}") from exc


class ProtobufConverter(RegistryConverter):
    """Converter for Protobuf values that start with the ID of their schema in a registry."""

    config_def: ClassVar[ConfigDef] = PROTOBUF_CONVERTER

    @override
    def make_format(self, parsed: Mapping[str, Any]) -> Format:
        return ProtobufFormat(
            ProtobufOptions(
                enhanced=parsed["enhanced.protobuf.schema.support"] is True,
                scrub_names=parsed["scrub.invalid.names"] is True,
                int_for_enums=parsed["int.for.enums"] is True,
                optional_for_nullables=parsed["optional.for.nullables"] is True,
                optional_for_proto2=parsed["optional.for.proto2"] is True,
                wrapper_for_nullables=parsed["wrapper.for.nullables"] is True,
                wrapper_for_raw=parsed["wrapper.for.raw.primitives"] is True,
                struct_for_nulls=parsed["generate.struct.for.nulls"] is True,
                index_for_unions=parsed["generate.index.for.unions"] is True,
                flatten_unions=parsed["flatten.unions"] is True,
                ignore_defaults=parsed[IGNORE_DEFAULTS] is True,
            )
        )
