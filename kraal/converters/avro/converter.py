"""AvroConverter: Avro values with schemas in a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.converters.avro.config import AVRO_CONVERTER
from kraal.converters.avro.encode import put_long
from kraal.converters.avro.from_connect import make_avro_text
from kraal.converters.avro.model import ANYTHING, NAMED_TYPES, Node, SchemaInvalid, parse_schema
from kraal.converters.avro.names import PROP_VERSION, AvroOptions
from kraal.converters.avro.read import AvroReader, Cursor, MalformedValue
from kraal.converters.avro.to_connect import connect_schema
from kraal.converters.avro.write import NULL_NOT_ALLOWED_ERROR, AvroWriter
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
from kraal.plugins.api import DataException, Schema


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """The Avro format with the options of a converter."""

    options: AvroOptions
    kind: str = "AVRO"
    title: str = "Avro"

    def writes_null(self, schema: Schema | None) -> bool:
        """Return False, since null is always a tombstone. Raises DataException if the schema does not allow null."""
        if schema is None or schema.optional:
            return False
        raise DataException(NULL_NOT_ALLOWED_ERROR)

    def describe(self, schema: Schema | None) -> TranslatedSchema:
        """Return the Avro schema for a Connect schema."""
        text = make_avro_text(schema, self.options)
        return TranslatedSchema(SchemaText(self.kind, text), _get_record_name(_parse(text, {})))

    def encoder(
        self, schema: Schema | None, registered_schema: SchemaText, references: Mapping[str, SchemaText]
    ) -> Encode:
        """Return a function that encodes values. A top-level bytes value is written without a length prefix."""
        node = _parse(registered_schema.text, references)
        if schema is None and node.name != ANYTHING.name:
            raise DataException(f"Values without a schema cannot be written as Avro {node.branch_name}")
        write = AvroWriter(self.options).compile_writer(schema, node)
        if node.kind == "bytes":
            return lambda value: _encode_bytes(write, value)

        def encode(value: Any) -> bytes:
            out = bytearray()
            write(value, out)
            return bytes(out)

        return encode

    def decoder(
        self, registered_schema: SchemaText, references: Mapping[str, SchemaText], get_version: GetVersion
    ) -> Decode:
        """Return a function that decodes data to schema and value.

        The version of the Connect schema is the registry's version, unless the Avro schema is a union or contains
        `connect.version`.
        """
        node = _parse(registered_schema.text, references)
        schema = None
        if node.name != ANYTHING.name:
            needs_version = node.kind != "union" and PROP_VERSION not in node.props
            schema = connect_schema(
                node, self.options, get_version(_get_record_name(node)) if needs_version else None
            )
        read = AvroReader(self.options).compile_reader(node, schema)
        is_bytes = node.kind == "bytes"

        def decode(data: bytes) -> tuple[Schema | None, Any]:
            try:
                if is_bytes:  # the rest of the record, without a length prefix
                    length = len(data) - HEADER_SIZE
                    return schema, read(_make_cursor(data[HEADER_SIZE:], length))
                return schema, read(Cursor(data, HEADER_SIZE))
            except MalformedValue as exc:
                raise unreadable_error(self.title, data, exc) from exc

        return decode


def _get_record_name(node: Node) -> str | None:
    return node.name if node.kind in NAMED_TYPES else None


def _make_cursor(data: bytes, length: int) -> Cursor:
    prefix = bytearray()
    put_long(length, prefix)
    return Cursor(bytes(prefix) + data, 0)


def _encode_bytes(write: Any, value: Any) -> bytes:
    out = bytearray()
    write(value, out)
    cursor = Cursor(bytes(out), 0)
    cursor.long()
    return bytes(out[cursor.at :])


def _parse(text: str, references: Mapping[str, SchemaText]) -> Node:
    """Parse a schema. Raises SerializationException if it is invalid."""
    nodes: list[Node] = []
    try:
        for reference in references.values():
            nodes.append(parse_schema(reference.text, nodes))
        return parse_schema(text, nodes)
    except SchemaInvalid as exc:
        raise SerializationException(f"Invalid Avro schema: {exc}") from exc


class AvroConverter(RegistryConverter):
    """Converter for Avro values that start with the ID of their schema in a registry."""

    config_def: ClassVar[ConfigDef] = AVRO_CONVERTER

    @override
    def make_format(self, parsed: Mapping[str, Any]) -> Format:
        return AvroFormat(
            AvroOptions(
                enhanced=parsed["enhanced.avro.schema.support"] is True,
                meta_data=parsed["connect.meta.data"] is True,
                scrub_names=parsed["scrub.invalid.names"] is True,
                optional_map_keys=parsed["allow.optional.map.keys"] is True,
                flatten_singletons=parsed["flatten.singleton.unions"] is True,
                ignore_defaults=parsed[IGNORE_DEFAULTS] is True,
            )
        )
