"""ReplaceField: removes and renames fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from kraal.config.checks import distinct_entries, rule
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.config.values import as_strings, java_text
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import DataException, Record
from kraal.plugins.model.schema import Field, Schema
from kraal.transforms.common.base import (
    REPLACE_NULL,
    PartTransformation,
    PerSchema,
    make_replace_null_key,
    parse_settings,
)
from kraal.transforms.common.column_parts import build_struct, read_fields
from kraal.transforms.common.structs import (
    find_field,
    list_fields,
    make_struct,
    make_struct_schema,
    read,
    require_map,
    require_struct,
)

_PURPOSE = "field replacement"
_PAIR_LENGTH = 2


def split_pair(text: str) -> list[str]:
    """Split at colons like Java's String.split, without trailing empty parts."""
    parts = text.split(":")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


@rule("pairs of an old and a new name: `foo:bar,abc:xyz`")
def _check_pairs(name: str, value: object) -> str | None:
    entries = as_strings(value)
    for entry in entries:
        if len(split_pair(entry)) != _PAIR_LENGTH:
            return f"Invalid value {java_text(entries)} for configuration {name}: Invalid rename mapping: {entry}"
    return None


def _make_list_key(name: str, doc: str) -> Key:
    return Key(
        name=name,
        type=ConfigType.LIST,
        default=(),
        validator=distinct_entries,
        importance=Importance.MEDIUM,
        doc=doc,
        source="ReplaceField.ConfigName",
    )


class ReplaceField(PartTransformation):
    """Removes the excluded fields, or all fields that are not included, and renames fields."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            _make_list_key("exclude", "Fields to exclude; exclude takes precedence over include."),
            _make_list_key("include", "Fields to include; empty: all fields that are not excluded."),
            replace(_make_list_key("renames", "Fields to rename, as old:new."), validator=_check_pairs),
            make_replace_null_key("ReplaceField"),
        ]
    )

    schemaless_columns: ClassVar[bool] = True

    def __init__(self) -> None:
        self._excluded_names: frozenset[str] = frozenset()
        self._included_names: frozenset[str] = frozenset()
        self._renames: dict[str, str] = {}
        self._old_names: dict[str, str] = {}
        self._replace_null = True
        self._schemas = PerSchema(self._make_schema)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._excluded_names, self._included_names = (
            frozenset(values["exclude"]),
            frozenset(values["include"]),
        )
        self._renames = dict(map(split_pair, values["renames"]))
        self._old_names = {new: old for old, new in self._renames.items()}
        self._replace_null = values[REPLACE_NULL]

    @override
    def apply(self, record: Record) -> Record:
        schema, value = self.get_schema(record), self.get_value(record)
        if value is None:
            return record
        if schema is None:
            obj = require_map(value, _PURPOSE)
            renamed_fields = {
                self._renames.get(name, name): item for name, item in obj.items() if self._is_kept(name)
            }
            return self.with_part(record, None, renamed_fields)
        struct = require_struct(value, _PURPOSE, schema)
        new_schema, old_fields = self._schemas(struct.schema)
        values = {
            name: read(struct, old_field, replace_null=self._replace_null)
            for name, old_field in old_fields.items()
        }
        return self.with_part(record, new_schema, make_struct(new_schema, values))

    @override
    def columns(self, given: Columns) -> Columns | None:
        part = self.get_part(given)
        if part.schema is None:
            return given
        old_parts, doubts = read_fields(part, replace_null=self._replace_null)
        new_schema, old_fields = self._schemas(part.schema)
        fields = {name: old_parts[old_field.name] for name, old_field in old_fields.items()}
        struct, more_doubts = build_struct(new_schema, fields, schemaless=part.schemaless)
        return given.with_part(struct, (*doubts, *more_doubts), is_key=self.is_key)

    def _is_kept(self, name: str) -> bool:
        return name not in self._excluded_names and (not self._included_names or name in self._included_names)

    def _make_schema(self, schema: Schema) -> tuple[Schema, dict[str, Field]]:
        """Return the new schema, and the old field by new name. Raises DataException for types other than structs."""
        new_schema = make_struct_schema(
            schema,
            (
                replace(field, name=self._renames.get(field.name, field.name))
                for field in list_fields(schema)
                if self._is_kept(field.name)
            ),
        )
        old_fields = {}
        for field in new_schema.fields:
            name = self._old_names.get(field.name, field.name)
            old_field = find_field(schema, name)
            if old_field is None:
                raise DataException(f"{name} is not a valid field name")
            old_fields[field.name] = old_field
        return new_schema, old_fields


class ReplaceFieldKey(ReplaceField):
    """ReplaceField for record keys."""

    is_key: ClassVar[bool] = True


class ReplaceFieldValue(ReplaceField):
    """ReplaceField for record values."""

    is_key: ClassVar[bool] = False
