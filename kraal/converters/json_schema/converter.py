"""JsonSchemaConverter: JSON values with JSON Schemas in a schema registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.converters.json.parse import EXACT_DECODER, MISSING, decode_text, parse
from kraal.converters.json_schema.config import DECIMAL_FORMAT, FAIL_INVALID, JSON_SCHEMA_CONVERTER
from kraal.converters.json_schema.from_connect import schema_text
from kraal.converters.json_schema.loaded import UnsupportedSchema
from kraal.converters.json_schema.names import JsonSchemaOptions
from kraal.converters.json_schema.read import compile_root_reader
from kraal.converters.json_schema.to_connect import connect_schema, has_version
from kraal.converters.json_schema.write import JsonSchemaWriter
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

_DEPTH_ERROR = "schemas are nested too deeply"


@dataclass(frozen=True, slots=True)
class JsonSchemaFormat:
    """The JSON format with JSON Schema and the options of a converter."""

    options: JsonSchemaOptions
    kind: str = "JSON"
    title: str = "JSON"

    def writes_null(self, schema: Schema | None) -> bool:
        """Return whether null is written as JSON null or as the schema's default, instead of a tombstone."""
        if schema is None:
            return False
        return schema.optional or (schema.default is not None and not self.options.ignore_defaults)

    def describe(self, schema: Schema | None) -> TranslatedSchema:
        """Return the JSON Schema for a Connect schema."""
        text = schema_text(schema, self.options)
        return TranslatedSchema(SchemaText(self.kind, text), _get_title(json.loads(text)))

    def encoder(
        self, schema: Schema | None, registered_schema: SchemaText, references: Mapping[str, SchemaText]
    ) -> Encode:
        """Return a function that encodes values. The registered schema is used only for validation."""
        write = JsonSchemaWriter(self.options).compile_writer(schema)
        check_text = self._make_checker(registered_schema, references)

        def encode(value: Any) -> bytes:
            text = write(value) or "null"
            check_text(text)
            return text.encode("utf-8", "replace")

        return encode

    def decoder(
        self, registered_schema: SchemaText, references: Mapping[str, SchemaText], get_version: GetVersion
    ) -> Decode:
        """Return a function that decodes data to schema and value."""
        parsed, parsed_references = _parse(registered_schema.text), _parse_all(references)
        version = None if has_version(parsed) else get_version(_get_title(parsed))
        with _explain_schema_errors():
            schema = connect_schema(parsed, parsed_references, self.options, version)
        check = self._make_checker(registered_schema, references)
        read = compile_root_reader(schema)

        def decode(data: bytes) -> tuple[Schema | None, Any]:
            text = decode_text(data[HEADER_SIZE:])
            try:
                node = parse(text, EXACT_DECODER)
            except DataException as exc:
                raise unreadable_error(self.title, data, exc.__cause__ or exc) from exc
            if node is not MISSING:
                check(text)
            return schema, read(node)

        return decode

    def _make_checker(
        self, registered_schema: SchemaText, references: Mapping[str, SchemaText]
    ) -> Callable[[str], None]:
        """Return a function that raises SerializationException for a JSON text that does not match the schema.

        The function accepts any text unless `fail_invalid` is set.
        """
        if not self.options.fail_invalid:
            return lambda _: None
        conformance = import_module("kraal.converters.json_schema.conformance")  # needs the extra "registry"
        with _explain_schema_errors():
            validate = conformance.make_validator(_parse(registered_schema.text), _parse_all(references))

        def check(text: str) -> None:
            with _explain_schema_errors():
                error = validate(text)
            if error is not None:
                raise SerializationException(f"the value does not match its JSON Schema at {error}")

        return check


@contextmanager
def _explain_schema_errors() -> Iterator[None]:
    """Translate the errors of an invalid JSON Schema to SerializationException."""
    try:
        yield
    except UnsupportedSchema as exc:
        raise SerializationException(f"Invalid JSON Schema: {exc}") from exc
    except RecursionError as exc:
        raise SerializationException(f"Invalid JSON Schema: {_DEPTH_ERROR}") from exc


def _parse_all(references: Mapping[str, SchemaText]) -> dict[str, Any]:
    return {name: _parse(reference.text) for name, reference in references.items()}


def _get_title(parsed: Any) -> str | None:
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
