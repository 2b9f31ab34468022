"""HoistField: wraps a key or value in a struct or map with one field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import Record
from kraal.plugins.model.schema import Field, Schema
from kraal.transforms.common.base import PartTransformation, PerSchema, parse_settings
from kraal.transforms.common.column_parts import build_struct
from kraal.transforms.common.structs import make_struct, make_struct_schema


class HoistField(PartTransformation):
    """Wraps the whole key or value as the only field of a struct, or of a map if there is no schema."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="field",
                type=ConfigType.STRING,
                importance=Importance.MEDIUM,
                doc="Name of the only field of the new struct or map.",
                source="HoistField.FIELD_CONFIG",
            )
        ]
    )

    def __init__(self) -> None:
        self._field = ""
        self._schemas = PerSchema(self._hoist_schema)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        self._field = parse_settings(self.config_def, config)["field"]

    @override
    def apply(self, record: Record) -> Record:
        schema, value = self.get_schema(record), self.get_value(record)
        if schema is None:
            return self.with_part(record, None, {self._field: value})
        new_schema = self._schemas(schema)
        return self.with_part(record, new_schema, make_struct(new_schema, {self._field: value}))

    @override
    def columns(self, given: Columns) -> Columns | None:
        part = self.get_part(given)
        if part.schema is None:
            return None
        new_schema = self._schemas(part.schema)
        return given.with_part(*build_struct(new_schema, {self._field: part}), is_key=self.is_key)

    def _hoist_schema(self, schema: Schema) -> Schema:
        return make_struct_schema(None, [Field(name=self._field, schema=schema)])


class HoistFieldKey(HoistField):
    """HoistField for record keys."""

    is_key: ClassVar[bool] = True


class HoistFieldValue(HoistField):
    """HoistField for record values."""

    is_key: ClassVar[bool] = False
