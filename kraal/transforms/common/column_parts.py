"""Column expressions for transforms: fields, structs, constants and masks.

The module `structs` contains the counterparts for single values. Expressions access Spark only when they are called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from kraal.engine.columns.functions import F
from kraal.engine.columns.parts import SPARK_TYPES, is_null, make_column
from kraal.plugins.model.columns import ByRecords, Expression, Part
from kraal.plugins.model.records import DATE, TIMESTAMP, Instant
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.java_time import MS_PER_DAY

_JAVA_CLASSES: Final[Mapping[Type, str]] = {
    Type.INT8: "java.lang.Byte",
    Type.INT16: "java.lang.Short",
    Type.INT32: "java.lang.Integer",
    Type.INT64: "java.lang.Long",
    Type.FLOAT32: "java.lang.Float",
    Type.FLOAT64: "java.lang.Double",
    Type.BOOLEAN: "java.lang.Boolean",
    Type.STRING: "java.lang.String",
}


def get_java_class_of_column(schema: Schema) -> str | None:
    """Return the Java class of the values; None for arrays and maps. Raises ByRecords for other types."""
    if schema.type in {Type.ARRAY, Type.MAP} and schema.name is None:
        return None
    if schema.name in {DATE, TIMESTAMP}:
        return "java.util.Date"
    if schema.name is not None or schema.type not in _JAVA_CLASSES:
        raise ByRecords
    return _JAVA_CLASSES[schema.type]


def read_fields(part: Part, *, replace_null: bool) -> tuple[dict[str, Part], tuple[Expression, ...]]:
    """Return a struct's fields, and a doubt for null structs. Raises ByRecords.

    If `replace_null` is set, nulls are replaced by the defaults of the fields.
    """
    schema = part.schema
    if schema is None or schema.type is not Type.STRUCT:
        raise ByRecords
    fields = {
        field.name: replace_null_by_default(part.field(field), replace_null=replace_null)
        for field in schema.fields
    }
    return fields, () if part.sure else (is_null(part),)


def build_struct(
    schema: Schema, fields: Mapping[str, Part], *, schemaless: bool = False
) -> tuple[Part, tuple[Expression, ...]]:
    """Return a struct of `fields`, and doubts for rows in which a required field is null. Raises ByRecords."""
    if not schema.fields:
        raise ByRecords
    parts_by_name, doubts = {}, []
    for field in schema.fields:
        part = fields[field.name]
        if not field.schema.optional and not part.sure:
            doubts.append(is_null(part))
            part = replace(part, sure=True)
        parts_by_name[field.name] = part
    return Part(schema=schema, fields=parts_by_name, sure=True, schemaless=schemaless), tuple(doubts)


def replace_null_by_default(part: Part, *, replace_null: bool) -> Part:
    """Replace nulls with the schema's default if `replace_null` is set and there is a default. Raises ByRecords."""
    if part.schema is None or part.schema.default is None or not replace_null or part.sure:
        return part
    default = make_constant(part.schema, part.schema.default)
    return Part(
        schema=part.schema, expression=lambda: F.coalesce(make_column(part), make_column(default)), sure=True
    )


def preserve_nulls(part: Part, other: Part) -> Part:
    """Return `other`, or null in rows in which `part` is null."""
    if part.sure:
        return other
    return Part(schema=part.schema, expression=lambda: F.when(~is_null(part)(), make_column(other)))


def make_empty(part: Part) -> Part:
    """Return an empty array or map; null stays null."""
    is_map = part.schema is not None and part.schema.type is Type.MAP

    def empty_items() -> Any:
        items, false_literal = make_column(part), F.lit(False)  # noqa: FBT003 - Spark's literal
        return (
            F.map_filter(items, lambda _, __: false_literal)
            if is_map
            else F.filter(items, lambda _: false_literal)
        )

    return Part(schema=part.schema, expression=empty_items, sure=part.sure)


def make_constant(schema: Schema, value: Any) -> Part:
    """Return a non-null constant. Raises ByRecords if Spark has no literal for it."""
    is_date, is_timestamp = schema.name == DATE, schema.name == TIMESTAMP
    is_logical = isinstance(value, Instant)
    if isinstance(value, Decimal) or is_logical is not (is_date or is_timestamp):
        raise ByRecords
    if not is_logical and (schema.name is not None or schema.type not in SPARK_TYPES):
        raise ByRecords

    def literal() -> Any:
        if is_date:
            return F.date_from_unix_date(F.lit(value.ms // MS_PER_DAY))
        if is_timestamp:
            return F.timestamp_millis(F.lit(value.ms).cast("bigint"))
        plain_value = float(value) if isinstance(value, float) else value
        return F.lit(plain_value).cast(SPARK_TYPES[schema.type])

    return Part(schema=schema, expression=literal, sure=True)


def make_null(schema: Schema) -> Part:
    """Return a constant null."""

    def null() -> Any:
        return F.lit(None).cast("timestamp" if schema.name == TIMESTAMP else SPARK_TYPES[schema.type])

    return Part(schema=schema, expression=null)


def make_frame_column(name: str, schema: Schema) -> Part:
    """Return a metadata column of the frame: topic, partition, offset, or timestamp in milliseconds."""

    def column() -> Any:
        raw = F.col(name)
        return F.timestamp_millis(F.unix_millis(raw)) if schema.name == TIMESTAMP else raw

    return Part(schema=schema, expression=column, as_read=True)
