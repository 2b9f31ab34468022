"""Values as JSON, their schemas as JSON Schema in a registry.

Source: JsonSchemaConverter (Confluent Schema Registry 8).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.config.registry_converters import DECIMAL_FORMAT, IGNORE_DEFAULTS, JSON_SCHEMA_CONVERTER
from kraal.converters.json_parse import EXACT, parse, text_of
from kraal.converters.jsonschema.from_connect import schema_text
from kraal.converters.jsonschema.loaded import SchemaUnfit
from kraal.converters.jsonschema.names import JsonSchemaOptions
from kraal.converters.jsonschema.read import read_root
from kraal.converters.jsonschema.to_connect import connect_schema, plain_version
from kraal.converters.jsonschema.write import JsonSchemaWriter
from kraal.converters.registry.client import SchemaText
from kraal.converters.registry.converter import (
    HEAD,
    Decode,
    Described,
    Encode,
    Format,
    RegistryConverter,
    VersionOf,
    unreadable,
)
from kraal.converters.registry.errors import SerializationException
from kraal.plugins.api import DataException, Schema

_TOO_DEEP = "schemas within schemas go too deep"


@dataclass(frozen=True, slots=True)
class JsonSchemaFormat:
    """JSON with JSON Schema, under a converter's options."""

    options: JsonSchemaOptions
    kind: str = "JSON"
    title: str = "JSON"
    cannot_write: str = (
        "Converting Kafka Connect data to byte[] failed due to serialization error of topic {}"
    )
    cannot_read: str = "Converting byte[] to Kafka Connect data failed due to serialization error of topic {}"

    def writes_null(self, schema: Schema | None) -> bool:
        """Tell whether null is JSON's null, or the schema's default: where it may be."""
        if schema is None:
            return False
        return schema.optional or (schema.default is not None and not self.options.ignore_defaults)

    def described(self, schema: Schema | None) -> Described:
        """Return JSON Schema's text for a Connect schema."""
        text = schema_text(schema, self.options)
        return Described(SchemaText(self.kind, text), _title(json.loads(text)))

    def encoder(self, schema: Schema | None, written: SchemaText, named: Mapping[str, SchemaText]) -> Encode:
        """Return what writes values: JSON says its names, so the schema it is registered under does not matter."""
        del written, named
        texts = JsonSchemaWriter(self.options).texts(schema)
        return lambda value: (texts(value) or "null").encode("utf-8", "replace")

    def decoder(self, written: SchemaText, named: Mapping[str, SchemaText], version_of: VersionOf) -> Decode:
        """Return what reads schema and value."""
        said, others = _parsed(written.text), {name: _parsed(each.text) for name, each in named.items()}
        version = None if plain_version(said) else version_of(_title(said))
        try:
            schema = connect_schema(said, others, self.options, version)
        except SchemaUnfit as exc:
            raise SerializationException(f"Invalid JSON Schema: {exc}") from exc
        except RecursionError as exc:
            raise SerializationException(f"Invalid JSON Schema: {_TOO_DEEP}") from exc
        read = read_root(schema)

        def decode(data: bytes) -> tuple[Schema | None, Any]:
            try:
                node = parse(text_of(data[HEAD:]), EXACT)
            except DataException as exc:
                raise unreadable(self.title, data, exc.__cause__ or exc) from exc
            return schema, read(node)

        return decode


def _title(said: Any) -> str | None:
    found = said.get("title") if isinstance(said, dict) else None
    return None if found is None else str(found)


def _parsed(text: str) -> Any:
    """Return a schema's JSON. Raises SerializationException."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise SerializationException(f"Invalid JSON Schema: {exc}") from exc


class JsonSchemaConverter(RegistryConverter):
    """Values as JSON, framed with the id of their schema in a registry."""

    config_def: ClassVar[ConfigDef] = JSON_SCHEMA_CONVERTER

    @override
    def make_format(self, parsed: Mapping[str, Any]) -> Format:
        return JsonSchemaFormat(
            JsonSchemaOptions(
                additional_properties=parsed["object.additional.properties"] is True,
                optional_for_nonrequired=parsed["use.optional.for.nonrequired"] is True,
                numeric_decimals=str(parsed[DECIMAL_FORMAT]).upper() == "NUMERIC",
                flatten_singletons=parsed["flatten.singleton.unions"] is True,
                ignore_defaults=parsed[IGNORE_DEFAULTS] is True,
            )
        )
