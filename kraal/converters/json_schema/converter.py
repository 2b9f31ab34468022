"""JsonSchemaConverter: values in JSON, schemas as JSON Schema in a schema registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.converters.json.parse import EXACT, MISSING, decode_text, parse
from kraal.converters.json_schema.config import DECIMAL_FORMAT, FAIL_INVALID, JSON_SCHEMA_CONVERTER
from kraal.converters.json_schema.from_connect import schema_text
from kraal.converters.json_schema.loaded import UnsupportedSchema
from kraal.converters.json_schema.names import JsonSchemaOptions
from kraal.converters.json_schema.read import read_root
from kraal.converters.json_schema.to_connect import connect_schema, plain_version
from kraal.converters.json_schema.write import JsonSchemaWriter
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

    def describe(self, schema: Schema | None) -> Described:
        """Return the JSON Schema for a Connect schema."""
        text = schema_text(schema, self.options)
        return Described(SchemaText(self.kind, text), _title(json.loads(text)))

    def encoder(self, schema: Schema | None, written: SchemaText, named: Mapping[str, SchemaText]) -> Encode:
        """Return a function that encodes values. Only checks need the registered schema: JSON contains names."""
        texts = JsonSchemaWriter(self.options).texts(schema)
        check = self._checker(written, named)

        def encode(value: Any) -> bytes:
            text = texts(value) or "null"
            check(text)
            return text.encode("utf-8", "replace")

        return encode

    def decoder(
        self, written: SchemaText, named: Mapping[str, SchemaText], read_version: VersionOf
    ) -> Decode:
        """Return a function that decodes schema and value."""
        parsed, references = _parse(written.text), _all_parsed(named)
        version = None if plain_version(parsed) else read_version(_title(parsed))
        with _schema_errors():
            schema = connect_schema(parsed, references, self.options, version)
        check = self._checker(written, named)
        read = read_root(schema)

        def decode(data: bytes) -> tuple[Schema | None, Any]:
            text = decode_text(data[HEAD:])
            try:
                node = parse(text, EXACT)
            except DataException as exc:
                raise unreadable(self.title, data, exc.__cause__ or exc) from exc
            if node is not MISSING:
                check(text)
            return schema, read(node)

        return decode

    def _checker(self, written: SchemaText, named: Mapping[str, SchemaText]) -> Callable[[str], None]:
        """Return a function that raises SerializationException for a JSON text that breaks a schema."""
        if not self.options.fail_invalid:
            return lambda _: None
        conformance = import_module("kraal.converters.json_schema.conformance")  # needs the extra "registry"
        with _schema_errors():
            mismatch = conformance.mismatch_finder(_parse(written.text), _all_parsed(named))

        def check(text: str) -> None:
            with _schema_errors():
                error = mismatch(text)
            if error is not None:
                raise SerializationException(f"the value does not match its JSON Schema at {error}")

        return check


@contextmanager
def _schema_errors() -> Iterator[None]:
    """Raise SerializationException for a JSON Schema that is invalid."""
    try:
        yield
    except UnsupportedSchema as exc:
        raise SerializationException(f"Invalid JSON Schema: {exc}") from exc
    except RecursionError as exc:
        raise SerializationException(f"Invalid JSON Schema: {_TOO_DEEP}") from exc


def _all_parsed(named: Mapping[str, SchemaText]) -> dict[str, Any]:
    return {name: _parse(each.text) for name, each in named.items()}


def _title(parsed: Any) -> str | None:
    title = parsed.get("title") if isinstance(parsed, dict) else None
    return None if title is None else str(title)


def _parse(text: str) -> Any:
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
                fail_invalid=parsed[FAIL_INVALID] is True,
            )
        )
