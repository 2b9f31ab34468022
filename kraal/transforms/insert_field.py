"""InsertField: adds fields with a record's metadata or a constant string."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from typing_extensions import override

from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.plugins.model.columns import ByRecords, Columns, Part
from kraal.plugins.model.records import TIMESTAMP, DataException, Instant, Record
from kraal.plugins.model.schema import Field, Schema, Type
from kraal.transforms.common.base import (
    REPLACE_NULL,
    PartTransformation,
    PerSchema,
    make_replace_null_key,
    parse_settings,
)
from kraal.transforms.common.column_parts import (
    build_struct,
    make_constant,
    make_frame_column,
    make_null,
    read_fields,
)
from kraal.transforms.common.errors import ConfigException
from kraal.transforms.common.structs import (
    list_fields,
    make_struct,
    make_struct_schema,
    read,
    require_map,
    require_struct,
)

_PURPOSE = "field insertion"
_SUFFIXES = "The suffix ! makes the field required; ? or no suffix makes it optional."
_STATIC_FIELD = "static.field"


def _make_key(name: str, doc: str) -> Key:
    return Key(
        name=name,
        type=ConfigType.STRING,
        default=None,
        importance=Importance.MEDIUM,
        doc=doc,
        source="InsertField.ConfigName",
    )


_SCHEMAS: Mapping[str, Schema] = {
    "topic.field": Schema(type=Type.STRING),
    "partition.field": Schema(type=Type.INT32),
    "offset.field": Schema(type=Type.INT64),
    "timestamp.field": Schema(type=Type.INT64, name=TIMESTAMP, version=1),
    _STATIC_FIELD: Schema(type=Type.STRING),
}
"""Schema of the field that each config key inserts, in the order of the new fields."""


@dataclass(frozen=True, slots=True)
class _Insertion:
    """A field to insert; `config_key` is the config key that contains the field's name."""

    config_key: str
    name: str
    optional: bool

    @staticmethod
    def parse(config_key: str, text: str) -> _Insertion:
        return _Insertion(config_key, text[:-1] if text[-1:] in {"?", "!"} else text, not text.endswith("!"))

    @property
    def field(self) -> Field:
        schema = _SCHEMAS[self.config_key]
        return Field(
            name=self.name,
            schema=Schema(type=schema.type, name=schema.name, version=schema.version, optional=self.optional),
        )


class InsertField(PartTransformation):
    """Adds fields at the end: the record's topic, partition, offset or timestamp, or a constant string.

    Tombstones stay unchanged. If the record has no partition or timestamp, the inserted field is null in a struct and
    absent in a schemaless object.
    """

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            _make_key("topic.field", f"Field for the topic. {_SUFFIXES}"),
            _make_key("partition.field", f"Field for the partition. {_SUFFIXES}"),
            _make_key("offset.field", f"Field for the offset; only for sinks. {_SUFFIXES}"),
            _make_key("timestamp.field", f"Field for the record's timestamp. {_SUFFIXES}"),
            _make_key(_STATIC_FIELD, f"Field for static.value. {_SUFFIXES}"),
            _make_key("static.value", "Value of static.field."),
            make_replace_null_key("InsertField"),
        ]
    )

    def __init__(self) -> None:
        self._insertions: tuple[_Insertion, ...] = ()
        self._static_value = ""
        self._replace_null = True
        self._schemas = PerSchema(self._add_fields)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._insertions = tuple(
            _Insertion.parse(config_key, values[config_key])
            for config_key in _SCHEMAS
            if values[config_key] is not None
        )
        if not self._insertions:
            raise ConfigException("No field insertion configured")
        if values[_STATIC_FIELD] is not None and values["static.value"] is None:
            raise ConfigException(
                "Invalid value null for configuration static.value: No value specified for static field: "
                f"{values[_STATIC_FIELD]}"
            )
        self._static_value = values["static.value"] or ""
        self._replace_null = values[REPLACE_NULL]

    @override
    def apply(self, record: Record) -> Record:
        schema, value = self.get_schema(record), self.get_value(record)
        if value is None:
            return record
        if schema is None:
            obj = require_map(value, _PURPOSE)
            inserted_values = {insertion.name: item for insertion, item in self._list_insertions(record)}
            return self.with_part(record, None, {**obj, **inserted_values})
        struct = require_struct(value, _PURPOSE, schema)
        new_schema = self._schemas(struct.schema)
        values = {
            field.name: read(struct, field, replace_null=self._replace_null) for field in struct.schema.fields
        }
        inserted_values = {
            insertion.name: Instant(item) if insertion.config_key == "timestamp.field" else item
            for insertion, item in self._list_insertions(record)
        }
        return self.with_part(record, new_schema, make_struct(new_schema, {**values, **inserted_values}))

    def _list_insertions(self, record: Record) -> Iterator[tuple[_Insertion, Any]]:
        """Yield a record's insertions with their values. Raises DataException for the offset of a source record."""
        for insertion in self._insertions:
            match insertion.config_key:
                case "topic.field":
                    yield insertion, record.topic
                case "partition.field":
                    if record.partition is not None:
                        yield insertion, record.partition
                case "offset.field":
                    if record.offset is None:
                        raise DataException(
                            f"Only SinkRecord supported for [{_PURPOSE}], found: "
                            "org.apache.kafka.connect.source.SourceRecord"
                        )
                    yield insertion, record.offset
                case "timestamp.field":
                    if record.timestamp_ms is not None:
                        yield insertion, record.timestamp_ms
                case _:
                    yield insertion, self._static_value

    @override
    def columns(self, given: Columns) -> Columns | None:
        part = self.get_part(given)
        if part.schema is None:
            return given
        fields, doubts = read_fields(part, replace_null=self._replace_null)
        new_schema, fixed_columns = self._schemas(part.schema), set(given.fixed)
        for insertion in self._insertions:
            fields[insertion.name] = self._make_column(insertion, given)
            if insertion.config_key in {"topic.field", "timestamp.field"}:
                fixed_columns |= {given.topic, given.timestamp_ms}
        struct, more_doubts = build_struct(new_schema, fields)
        return replace(
            given.with_part(struct, (*doubts, *more_doubts), is_key=self.is_key),
            fixed=frozenset(fixed_columns),
        )

    def _make_column(self, insertion: _Insertion, given: Columns) -> Part:
        schema = insertion.field.schema
        match insertion.config_key:
            case "topic.field" if given.topic is None:
                return make_frame_column("topic", schema)
            case "topic.field":
                return make_constant(schema, given.topic)
            case "partition.field" if "partition" in given.has:
                return make_frame_column("partition", schema)
            case "offset.field" if "offset" in given.has:
                return make_frame_column("offset", schema)
            case "timestamp.field" if "timestamp" in given.has:
                return make_frame_column("timestamp", schema)
            case "timestamp.field" if given.timestamp_ms is not None:
                return make_constant(schema, Instant(given.timestamp_ms))
            case "partition.field" | "timestamp.field":
                return make_null(schema)
            case "static.field":
                return make_constant(schema, self._static_value)
            case _:
                raise ByRecords

    def _add_fields(self, schema: Schema) -> Schema:
        return make_struct_schema(
            schema, (*list_fields(schema), *(insertion.field for insertion in self._insertions))
        )


class InsertFieldKey(InsertField):
    """InsertField for record keys."""

    is_key: ClassVar[bool] = True


class InsertFieldValue(InsertField):
    """InsertField for record values."""

    is_key: ClassVar[bool] = False
