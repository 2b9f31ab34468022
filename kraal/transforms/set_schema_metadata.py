"""SetSchemaMetadata: sets the name or version of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import DataException, Record, Struct
from kraal.plugins.model.schema import Schema
from kraal.transforms.common.base import (
    REPLACE_NULL,
    PartTransformation,
    PerSchema,
    make_replace_null_key,
    parse_settings,
)
from kraal.transforms.common.column_parts import build_struct, read_fields
from kraal.transforms.common.errors import ConfigException
from kraal.transforms.common.structs import list_fields, make_struct, read


def _make_key(name: str, kind: ConfigType, doc: str) -> Key:
    return Key(
        name=name,
        type=kind,
        default=None,
        importance=Importance.HIGH,
        doc=doc,
        source="SetSchemaMetadata.ConfigName",
    )


class SetSchemaMetadata(PartTransformation):
    """Sets the schema's name, version or both; the data stays unchanged."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            _make_key("schema.name", ConfigType.STRING, "New name of the schema. Default: the name is kept."),
            _make_key(
                "schema.version", ConfigType.INT, "New version of the schema. Default: the version is kept."
            ),
            make_replace_null_key("SetSchemaMetadata"),
        ]
    )

    def __init__(self) -> None:
        self._name: str | None = None
        self._version: int | None = None
        self._replace_null = True
        self._schemas = PerSchema(self._update_schema)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._name, self._version = values["schema.name"], values["schema.version"]
        self._replace_null = values[REPLACE_NULL]
        if self._name is None and self._version is None:
            raise ConfigException("Neither schema name nor version configured")

    @override
    def apply(self, record: Record) -> Record:
        schema, value = self.get_schema(record), self.get_value(record)
        if schema is None:
            if value is None:
                return record
            raise DataException("Schema required for [updating schema metadata]")
        new_schema = self._schemas(schema)
        if isinstance(value, Struct):
            value = make_struct(
                new_schema,
                {
                    field.name: read(value, field, replace_null=self._replace_null)
                    for field in new_schema.fields
                },
            )
        return self.with_part(record, new_schema, value)

    @override
    def columns(self, given: Columns) -> Columns | None:
        part = self.get_part(given)
        if part.schema is None:
            return given
        fields, doubts = read_fields(part, replace_null=self._replace_null)
        struct, more_doubts = build_struct(self._schemas(part.schema), fields)
        return given.with_part(struct, (*doubts, *more_doubts), is_key=self.is_key)

    def _update_schema(self, schema: Schema) -> Schema:
        list_fields(schema)  # as in Java, fails for types other than structs
        return replace(
            schema,
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )


class SetSchemaMetadataKey(SetSchemaMetadata):
    """SetSchemaMetadata for record keys."""

    is_key: ClassVar[bool] = True


class SetSchemaMetadataValue(SetSchemaMetadata):
    """SetSchemaMetadata for record values."""

    is_key: ClassVar[bool] = False
