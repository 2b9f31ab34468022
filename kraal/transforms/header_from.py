"""HeaderFrom: copies or moves fields of a key or value to headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from kraal.config.checks import one_of
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.model.records import DataException, Header, Record
from kraal.plugins.model.schema import Schema
from kraal.transforms.common.base import (
    REPLACE_NULL,
    PartTransformation,
    PerSchema,
    make_replace_null_key,
    parse_settings,
    validate_non_empty_list,
)
from kraal.transforms.common.errors import ConfigException, NullPointer
from kraal.transforms.common.structs import (
    as_text,
    find_field,
    list_fields,
    make_struct,
    make_struct_schema,
    read,
    require_map,
    require_struct,
)

_MISSING_FIELD_ERROR = (
    'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return value of '
    '"org.apache.kafka.connect.data.Schema.field(String)" is null'
)


def _make_names_key(name: str, doc: str) -> Key:
    return Key(
        name=name,
        type=ConfigType.LIST,
        validator=validate_non_empty_list,
        importance=Importance.HIGH,
        doc=doc,
        source=f"HeaderFrom.{name.upper()}_FIELD",
    )


class HeaderFrom(PartTransformation):
    """Copies or moves fields to headers, pairing fields and headers by position."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            _make_names_key("fields", "Fields whose values become headers."),
            _make_names_key("headers", "Names of the headers, in the order of the fields."),
            Key(
                name="operation",
                type=ConfigType.STRING,
                validator=one_of("move", "copy"),
                importance=Importance.HIGH,
                doc="Whether to move the fields to headers or to copy them.",
                source="HeaderFrom.OPERATION_FIELD",
            ),
            make_replace_null_key("HeaderFrom"),
        ]
    )

    def __init__(self) -> None:
        self._pairs: tuple[tuple[str, str], ...] = ()
        self._moves_fields = False
        self._purpose = ""
        self._replace_null = True
        self._schemas = PerSchema(self._remove_moved_fields)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        fields, headers = values["fields"], values["headers"]
        if len(fields) != len(headers):
            raise ConfigException(
                "'fields' config must have the same number of elements as 'headers' config."
            )
        self._pairs = tuple(zip(fields, headers, strict=True))
        self._moves_fields = values["operation"] == "move"
        self._purpose = f"header {values['operation']}"
        self._replace_null = values[REPLACE_NULL]

    @override
    def apply(self, record: Record) -> Record:
        schema = self.get_schema(record)
        return self._apply_schemaless(record) if schema is None else self._apply_with_schema(record, schema)

    def _apply_with_schema(self, record: Record, schema: Schema) -> Record:
        struct = require_struct(self.get_value(record), self._purpose, schema)
        remaining_schema, remaining_struct = schema, struct
        if self._moves_fields:
            remaining_schema = self._schemas(schema)
            remaining_struct = make_struct(
                remaining_schema,
                {
                    field.name: read(struct, field, replace_null=self._replace_null)
                    for field in remaining_schema.fields
                },
            )
        headers = []
        for name, header in self._pairs:
            field = find_field(schema, name)
            if field is None:
                raise NullPointer(_MISSING_FIELD_ERROR)
            value = read(struct, field, replace_null=self._replace_null)
            if value is None and not field.schema.optional:
                raise DataException(
                    f"A null value requires an optional schema but was {as_text(field.schema)}"
                )
            headers.append(Header(header, field.schema, value))
        new_record = self.with_part(record, remaining_schema, remaining_struct)
        return replace(new_record, headers=(*record.headers, *headers))

    def _remove_moved_fields(self, schema: Schema) -> Schema:
        """Return the schema without the moved fields."""
        moved_names = {name for name, _ in self._pairs}
        return make_struct_schema(
            schema, (field for field in list_fields(schema) if field.name not in moved_names)
        )

    def _apply_schemaless(self, record: Record) -> Record:
        obj = require_map(self.get_value(record), self._purpose)
        headers = tuple(Header(header, None, obj.get(name)) for name, header in self._pairs)
        moved_names = {name for name, _ in self._pairs} if self._moves_fields else frozenset()
        remaining_fields = {name: value for name, value in obj.items() if name not in moved_names}
        return replace(self.with_part(record, None, remaining_fields), headers=(*record.headers, *headers))


class HeaderFromKey(HeaderFrom):
    """HeaderFrom for record keys."""

    is_key: ClassVar[bool] = True


class HeaderFromValue(HeaderFrom):
    """HeaderFrom for record values."""

    is_key: ClassVar[bool] = False
