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
_STATIC = "static.field"


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
    _STATIC: Schema(type=Type.STRING),
}
"""Schema of the field that each config key inserts, in the order of the new fields."""


@dataclass(frozen=True, slots=True)
class _Insertion:
    """A field to insert; `of` is the config key with its name."""

    of: str
    name: str
    optional: bool

    @staticmethod
    def parse(of: str, text: str) -> _Insertion:
        return _Insertion(of, text[:-1] if text[-1:] in {"?", "!"} else text, not text.endswith("!"))

    @property
    def field(self) -> Field:
        schema = _SCHEMAS[self.of]
        return Field(
            name=self.name,
            schema=Schema(type=schema.type, name=schema.name, version=schema.version, optional=self.optional),
        )


class InsertField(PartTransformation):
    """Adds fields at the end: the record's topic, partition, offset or timestamp, or a constant string.

    Tombstones stay unchanged. If the record has no partition or timestamp, the field is null, or absent without a
    schema.
    """

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            _make_key("topic.field", f"Field for the topic. {_SUFFIXES}"),
            _make_key("partition.field", f"Field for the partition. {_SUFFIXES}"),
            _make_key("offset.field", f"Field for the offset; only for sinks. {_SUFFIXES}"),
            _make_key("timestamp.field", f"Field for the record's timestamp. {_SUFFIXES}"),
            _make_key(_STATIC, f"Field for static.value. {_SUFFIXES}"),
            _make_key("static.value", "Value of static.field."),
            make_replace_null_key("InsertField"),
        ]
    )

    def __init__(self) -> None:
        self._insertions: tuple[_Insertion, ...] = ()
        self._static = ""
        self._replace_null = True
        self._schemas = PerSchema(self._add_fields)

    @override
    def configure(self, config: Mapping[str, str]) -> None:
        values = parse_settings(self.config_def, config)
        self._insertions = tuple(
            _Insertion.parse(of, values[of]) for of in _SCHEMAS if values[of] is not None
        )
        if not self._insertions:
            raise ConfigException("No field insertion configured")
        if values[_STATIC] is not None and values["static.value"] is None:
            raise ConfigException(
                "Invalid value null for configuration static.value: No value specified for static field: "
                f"{values[_STATIC]}"
            )
        self._static = values["static.value"] or ""
        self._replace_null = values[REPLACE_NULL]

    @override
    def apply(self, record: Record) -> Record:
        schema, value = self.get_schema(record), self.get_value(record)
        if value is None:
            return record
        if schema is None:
            whole = require_map(value, _PURPOSE)
            new = {each.name: item for each, item in self._list_insertions(record)}
            return self.with_part(record, None, {**whole, **new})
        old = require_struct(value, _PURPOSE, schema)
        longer = self._schemas(old.schema)
        values = {
            field.name: read(old, field, replace_null=self._replace_null) for field in old.schema.fields
        }
        new = {
            each.name: Instant(item) if each.of == "timestamp.field" else item
            for each, item in self._list_insertions(record)
        }
        return self.with_part(record, longer, make_struct(longer, {**values, **new}))

    def _list_insertions(self, record: Record) -> Iterator[tuple[_Insertion, Any]]:
        """Yield the insertions for this record. Raises DataException for the offset of a source record."""
        for each in self._insertions:
            match each.of:
                case "topic.field":
                    yield each, record.topic
                case "partition.field":
                    if record.partition is not None:
                        yield each, record.partition
                case "offset.field":
                    if record.offset is None:
                        raise DataException(
                            f"Only SinkRecord supported for [{_PURPOSE}], found: "
                            "org.apache.kafka.connect.source.SourceRecord"
                        )
                    yield each, record.offset
                case "timestamp.field":
                    if record.timestamp_ms is not None:
                        yield each, record.timestamp_ms
                case _:
                    yield each, self._static

    @override
    def columns(self, given: Columns) -> Columns | None:
        part = self.get_part(given)
        if part.schema is None:
            return given
        parts, doubts = read_fields(part, replace_null=self._replace_null)
        longer, fixed = self._schemas(part.schema), set(given.fixed)
        for each in self._insertions:
            parts[each.name] = self._make_column(each, given)
            if each.of in {"topic.field", "timestamp.field"}:
                fixed |= {given.topic, given.timestamp_ms}
        whole, more = build_struct(longer, parts)
        return replace(given.with_part(whole, (*doubts, *more), is_key=self.is_key), fixed=frozenset(fixed))

    def _make_column(self, each: _Insertion, given: Columns) -> Part:
        schema = each.field.schema
        match each.of:
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
                return make_constant(schema, self._static)
            case _:
                raise ByRecords

    def _add_fields(self, schema: Schema) -> Schema:
        return make_struct_schema(schema, (*list_fields(schema), *(each.field for each in self._insertions)))


class InsertFieldKey(InsertField):
    """InsertField of records' keys."""

    is_key: ClassVar[bool] = True


class InsertFieldValue(InsertField):
    """InsertField of records' values."""

    is_key: ClassVar[bool] = False
