"""ExtractField: replaces a key or value with one of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import Record
from kraal.transforms.common.base import (
    REPLACE_NULL,
    PartTransformation,
    make_replace_null_key,
    parse_settings,
)
from kraal.transforms.common.column_parts import replace_null_by_default
from kraal.transforms.common.errors import IllegalArgument
from kraal.transforms.common.paths import SYNTAX, Path
from kraal.transforms.common.structs import find_field, require_map, require_struct

_PURPOSE = "field extraction"


class ExtractField(PartTransformation):
    """Replaces a struct or schemaless object with one of its fields. Null stays null."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name="field",
                type=ConfigType.STRING,
                importance=Importance.MEDIUM,
                doc="Field to extract; with syntax V2, its path.",
                source="ExtractField.FIELD_CONFIG",
            ),
            make_replace_null_key("ExtractField"),
            SYNTAX,
        ]
    )

    def __init__(self) -> None:
        self._path_text = ""
        self._path = Path(("",))
        self._replace_null = True

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._path_text = values["field"]
        self._path = Path.of(self._path_text, values[SYNTAX.name])
        self._replace_null = values[REPLACE_NULL]

    @override
    def apply(self, record: Record) -> Record:
        schema, value = self.get_schema(record), self.get_value(record)
        if schema is None:
            field_value = None if value is None else self._path.get_from_map(require_map(value, _PURPOSE))
            return self.with_part(record, None, field_value)
        struct = None if value is None else require_struct(value, _PURPOSE, schema)
        field = self._path.field(schema)
        if field is None:
            raise IllegalArgument(f"Unknown field: {self._path_text}")
        field_value = (
            None if struct is None else self._path.get_from_struct(struct, replace_null=self._replace_null)
        )
        return self.with_part(record, field.schema, field_value)

    @override
    def columns(self, given: Columns) -> Columns | None:
        part = self.get_part(given)
        schema = part.schema
        if schema is None:
            return given
        last_index = len(self._path.steps) - 1
        for index, step in enumerate(self._path.steps):
            field = find_field(schema, step)
            if field is None:
                return None
            part = replace_null_by_default(
                part.field(field), replace_null=index < last_index or self._replace_null
            )
            schema = field.schema
        return given.with_part(part, is_key=self.is_key)


class ExtractFieldKey(ExtractField):
    """ExtractField for record keys."""

    is_key: ClassVar[bool] = True


class ExtractFieldValue(ExtractField):
    """ExtractField for record values."""

    is_key: ClassVar[bool] = False
