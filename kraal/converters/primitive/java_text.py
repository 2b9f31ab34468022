"""Column expressions that print values as Java's `toString` does.

Differences: schemaless objects and lists, which are VARIANTs, print as JSON text (Java: `{a=1}`), and bytes print
unchanged (Java: `[B@5d5d9e5`, the object's address).
Source: Struct.toString (Kafka 4.4.0), AbstractCollection and AbstractMap of Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraal.engine.columns.functions import F
from kraal.plugins.model.schema import Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import Column


def java_text(value: Column, schema: Schema | None) -> Column:
    """Return `value` as a string; null stays null."""
    match None if schema is None else schema.type:
        case Type.STRUCT if schema is not None:
            return F.when(value.isNotNull(), _struct(value, schema))
        case Type.ARRAY if schema is not None:
            return F.concat(F.lit("["), F.array_join(_render_item(value, schema.value), ", "), F.lit("]"))
        case Type.MAP if schema is not None:
            return F.concat(F.lit("{"), F.array_join(_pairs(value, schema), ", "), F.lit("}"))
        case _:
            return value.cast("string")


def _or_null(text: Column) -> Column:
    return F.coalesce(text, F.lit("null"))


def _struct(value: Column, schema: Schema) -> Column:
    """Return the text of a struct's fields other than null."""
    fields = [
        F.concat(F.lit(f"{field.name}="), java_text(value.getField(field.name), field.schema))
        for field in schema.fields
    ]
    return F.concat(F.lit("Struct{"), F.concat_ws(",", *fields), F.lit("}"))


def _render_item(value: Column, schema: Schema | None) -> Column:
    return F.transform(value, lambda each: _or_null(java_text(each, schema)))


def _pairs(value: Column, schema: Schema) -> Column:
    def pair(entry: Column) -> Column:
        key = java_text(entry.getField("key"), schema.key)
        return F.concat(_or_null(key), F.lit("="), _or_null(java_text(entry.getField("value"), schema.value)))

    return F.transform(F.map_entries(value), pair)
