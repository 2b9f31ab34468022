"""JsonSchemaConverter: values in JSON, schemas as JSON Schema in a schema registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.converters.json.parse import EXACT, parse, text_of
from kraal.converters.json_schema.config import DECIMAL_FORMAT, JSON_SCHEMA_CONVERTER
from kraal.converters.json_schema.from_connect import schema_text
from kraal.converters.json_schema.loaded import SchemaUnfit
from kraal.converters.json_schema.names import JsonSchemaOptions
from kraal.converters.json_schema.read import read_root
from kraal.converters.json_schema.to_connect import connect_schema, plain_version
from kraal.converters.json_schema.write import JsonSchemaWriter
from kraal.converters.schema_registry.client import SchemaText
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
from kraal.converters.schema_registry.errors import SerializationException
from kraal.plugins.api import DataException, Schema

_TOO_DEEP = "schemas are nested too deeply"


@dataclass(frozen=True, slots=True)
class JsonSchemaFormat:
    """The JSON format with JSON Schema and a converter's options."""

    options: JsonSchemaOptions
    kind: str = "JSON"
    title: str = "JSON"

    def writes_null(self, schema: Schema | None) -> bool:
        """Return whether null is written as JSON null or as the schema's default, and not as a tombstone."""
        if schema is None:
            return False
        return schema.optional or (schema.default is not None and not self.options.ignore_defaults)

    def described(self, schema: Schema | None) -> Described:
        """Return the JSON Schema for a Connect schema."""
        text = schema_text(schema, self.options)
        return Described(SchemaText(self.kind, text), _title(json.loads(text)))

    def encoder(self, schema: Schema | None, written: SchemaText, named: Mapping[str, SchemaText]) -> Encode:
        """Return a function that encodes values. The registered schema does not matter, because JSON contains names."""
        del written, named
        texts = JsonSchemaWriter(self.options).texts(schema)
        return lambda value: (texts(value) or "null").encode("utf-8", "replace")

    def decoder(self, written: SchemaText, named: Mapping[str, SchemaText], version_of: VersionOf) -> Decode:
        """Return a function that decodes schema and value."""
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
    """Parse a schema's JSON. Raises SerializationException."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise SerializationException(f"Invalid JSON Schema: {exc}") from exc


class JsonSchemaConverter(RegistryConverter):
    """Converter for JSON values that start with the ID of their schema in a registry."""

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
