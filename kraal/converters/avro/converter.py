"""AvroConverter: values in Avro, schemas in a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.converters.avro.config import AVRO_CONVERTER
from kraal.converters.avro.encode import put_long
from kraal.converters.avro.from_connect import avro_text
from kraal.converters.avro.model import ANYTHING, NAMED, Node, SchemaInvalid, parse_schema
from kraal.converters.avro.names import PROP_VERSION, AvroOptions
from kraal.converters.avro.read import AvroReader, Cursor, Malformed
from kraal.converters.avro.to_connect import connect_schema
from kraal.converters.avro.write import NULL_FOUND, AvroWriter
from kraal.converters.schema_registry.client import SchemaText, SerializationException
from kraal.converters.schema_registry.config import IGNORE_DEFAULTS
from kraal.converters.schema_registry.converter import (
    HEAD,
    Decode,
    Described,
    Encode,
    Format,
    RegistryConverter,
    VersionOf,
    unreadable,
)
from kraal.plugins.api import DataException, Schema


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """The Avro format with a converter's options."""

    options: AvroOptions
    kind: str = "AVRO"
    title: str = "Avro"

    def writes_null(self, schema: Schema | None) -> bool:
        """Return False if the schema is optional; otherwise raise DataException."""
        if schema is None or schema.optional:
            return False
        raise DataException(NULL_FOUND)

    def describe(self, schema: Schema | None) -> Described:
        """Return the Avro schema for a Connect schema."""
        text = avro_text(schema, self.options)
        return Described(SchemaText(self.kind, text), _record_name(_parse(text, {})))

    def encoder(self, schema: Schema | None, written: SchemaText, named: Mapping[str, SchemaText]) -> Encode:
        """Return a function that encodes values; a value of type bytes is written without a length prefix."""
        node = _parse(written.text, named)
        if schema is None and node.name != ANYTHING.name:
            raise DataException(f"Values without a schema cannot be written as Avro {node.branch_name}")
        write = AvroWriter(self.options).writes(schema, node)
        if node.kind == "bytes":
            return lambda value: _bare(write, value)

        def encode(value: Any) -> bytes:
            out = bytearray()
            write(value, out)
            return bytes(out)

        return encode

    def decoder(
        self, written: SchemaText, named: Mapping[str, SchemaText], read_version: VersionOf
    ) -> Decode:
        """Return a function that reads schema and value.

        The schema takes the registry's version if it has no `connect.version` and is not a union.
        """
        node = _parse(written.text, named)
        schema = None
        if node.name != ANYTHING.name:
            needs = node.kind != "union" and PROP_VERSION not in node.props
            schema = connect_schema(node, self.options, read_version(_record_name(node)) if needs else None)
        read = AvroReader(self.options).reads(node, schema)
        is_bytes = node.kind == "bytes"

        def decode(data: bytes) -> tuple[Schema | None, Any]:
            try:
                if is_bytes:  # the rest of the record, without a length prefix
                    length = len(data) - HEAD
                    return schema, read(_whole_value(data[HEAD:], length))
                return schema, read(Cursor(data, HEAD))
            except Malformed as exc:
                raise unreadable(self.title, data, exc) from exc

        return decode


def _record_name(node: Node) -> str | None:
    return node.name if node.kind in NAMED else None


def _whole_value(data: bytes, length: int) -> Cursor:
    head = bytearray()
    put_long(length, head)
    return Cursor(bytes(head) + data, 0)


def _bare(write: Any, value: Any) -> bytes:
    out = bytearray()
    write(value, out)
    cursor = Cursor(bytes(out), 0)
    cursor.long()
    return bytes(out[cursor.at :])


def _parse(text: str, named: Mapping[str, SchemaText]) -> Node:
    """Parse a schema. Raises SerializationException if it is invalid."""
    nodes: list[Node] = []
    try:
        for each in named.values():
            nodes.append(parse_schema(each.text, nodes))
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
