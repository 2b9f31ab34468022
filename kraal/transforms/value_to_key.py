"""ValueToKey: replaces the key with fields of the value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.engine.columns.parts import is_null
from kraal.plugins.api import Transformation
from kraal.plugins.model.columns import ByRecords, Columns, Part
from kraal.plugins.model.records import DataException, Record
from kraal.plugins.model.schema import Field, Schema
from kraal.transforms.common.base import (
    REPLACE_NULL,
    VERSION,
    PerSchema,
    make_replace_null_key,
    parse_settings,
    validate_distinct_entries,
)
from kraal.transforms.common.column_parts import build_struct, replace_null_by_default
from kraal.transforms.common.paths import SYNTAX, Path
from kraal.transforms.common.structs import (
    find_field,
    make_struct,
    make_struct_schema,
    require_map,
    require_struct,
)

_PURPOSE = "copying fields from value to key"


class ValueToKey(Transformation):
    """Builds a new key from fields of the value; the value stays unchanged."""

    version: ClassVar[str] = VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="fields",
                type=ConfigType.LIST,
                validator=validate_distinct_entries,
                importance=Importance.HIGH,
                doc="Fields of the value that become the key. With syntax V2, these are paths, which are also the "
                "names of the key's fields.",
                source="ValueToKey.FIELDS_CONFIG",
            ),
            make_replace_null_key("ValueToKey"),
            SYNTAX,
        ]
    )

    def __init__(self) -> None:
        self._paths: dict[str, Path] = {}
        """Paths by the names of the key's fields; each name is the path as configured."""
        self._replace_null = True
        self._schemas = PerSchema(self._make_key_schema)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._paths = {text: Path.of(text, values[SYNTAX.name]) for text in values["fields"]}
        self._replace_null = values[REPLACE_NULL]

    @override
    def apply(self, record: Record) -> Record:
        if record.value_schema is None:
            obj = require_map(record.value, _PURPOSE)
            key_values = {name: path.get_from_map(obj) for name, path in self._paths.items()}
            return replace(record, key_schema=None, key=key_values)
        value = require_struct(record.value, _PURPOSE, record.value_schema)
        schema = self._schemas(value.schema)
        key = {
            name: path.get_from_struct(value, replace_null=self._replace_null)
            for name, path in self._paths.items()
        }
        return replace(record, key_schema=schema, key=make_struct(schema, key), value_schema=value.schema)

    @override
    def columns(self, given: Columns) -> Columns | None:
        value = given.value
        if value.schema is None:
            return None
        schema = self._schemas(value.schema)
        doubts = () if value.sure else (is_null(value),)
        key, key_doubts = build_struct(
            schema, {name: self._make_field_column(value, path) for name, path in self._paths.items()}
        )
        return given.with_part(replace(value, sure=True), doubts, is_key=False).with_part(
            key, key_doubts, is_key=True
        )

    def _make_field_column(self, part: Part, path: Path) -> Part:
        """Return an existing field, like `Path.get_from_struct`. Raises ByRecords."""
        last_index = len(path.steps) - 1
        for index, step in enumerate(path.steps):
            if part.schema is None or (field := find_field(part.schema, step)) is None:
                raise ByRecords
            part = replace_null_by_default(
                part.field(field), replace_null=index < last_index or self._replace_null
            )
        return part

    def _make_key_schema(self, schema: Schema) -> Schema:
        fields = []
        for name, path in self._paths.items():
            field = path.field(schema)
            if field is None:
                raise DataException(f"Field does not exist: {name}")
            fields.append(Field(name=name, schema=field.schema))
        return make_struct_schema(None, fields)
