"""ValueToKey: replaces the key by fields of the value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.api import Transformation
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import DataException, Record
from kraal.plugins.model.schema import Schema
from kraal.transforms.common.base import (
    REPLACE_NULL,
    VERSION,
    PerSchema,
    replace_null_key,
    settings,
    some_distinct_entries,
)
from kraal.transforms.common.column_parts import built, fields_read
from kraal.transforms.common.structs import field_of, read, require_map, require_struct, struct, struct_schema

_PURPOSE = "copying fields from value to key"


class ValueToKey(Transformation):
    """Makes a new key from some of the value's fields; the value stays unchanged."""

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="fields",
                type=ConfigType.LIST,
                validator=some_distinct_entries,
                importance=Importance.HIGH,
                doc="Fields of the value that become the key.",
                source="ValueToKey.FIELDS_CONFIG",
            ),
            replace_null_key("ValueToKey"),
        ]
    )

    def __init__(self) -> None:
        self._fields: tuple[str, ...] = ()
        self._replace_null = True
        self._schemas = PerSchema(self._key_schema)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = settings(self.config_def, config)
        self._fields = values["fields"]
        self._replace_null = values[REPLACE_NULL]

    @override
    def apply(self, record: Record) -> Record:
        if record.value_schema is None:
            whole = require_map(record.value, _PURPOSE)
            return replace(record, key_schema=None, key={name: whole.get(name) for name in self._fields})
        value = require_struct(record.value, _PURPOSE, record.value_schema)
        schema = self._schemas(value.schema)
        key = {field.name: read(value, field, replace_null=self._replace_null) for field in schema.fields}
        return replace(record, key_schema=schema, key=struct(schema, key), value_schema=value.schema)

    @override
    def columns(self, given: Columns) -> Columns | None:
        value = given.value
        if value.schema is None:
            return None
        fields, doubts = fields_read(value, replace_null=self._replace_null)
        schema = self._schemas(value.schema)
        key, more = built(schema, {name: fields[name] for name in self._fields})
        return given.with_part(replace(value, sure=True), doubts, is_key=False).with_part(
            key, more, is_key=True
        )

    def _key_schema(self, schema: Schema) -> Schema:
        fields = []
        for name in self._fields:
            field = field_of(schema, name)
            if field is None:
                raise DataException(f"Field does not exist: {name}")
            fields.append(field)
        return struct_schema(None, fields)
