"""Column expressions that print values like Java's `toString`.

Differences: schemaless objects and lists, which are VARIANTs, are printed as JSON (Java: `{a=1}`). Bytes stay unchanged
(Java: `[B@5d5d9e5`, the address of the object).
Source: Struct.toString (Kafka 4.4.0), AbstractCollection and AbstractMap of Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraal.engine.columns.functions import F
from kraal.plugins.model.schema import Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import Column


def make_java_text(value: Column, schema: Schema | None) -> Column:
    """Return the text of `value`; null stays null."""
    match None if schema is None else schema.type:
        case Type.STRUCT if schema is not None:
            return F.when(value.isNotNull(), _make_struct_text(value, schema))
        case Type.ARRAY if schema is not None:
            return F.concat(F.lit("["), F.array_join(_make_item_text(value, schema.value), ", "), F.lit("]"))
        case Type.MAP if schema is not None:
            return F.concat(F.lit("{"), F.array_join(_make_map_text(value, schema), ", "), F.lit("}"))
        case _:
            return value.cast("string")


def _replace_null(text: Column) -> Column:
    return F.coalesce(text, F.lit("null"))


def _make_struct_text(value: Column, schema: Schema) -> Column:
    """Return the text of a struct, which omits null fields."""
    fields = [
        F.concat(F.lit(f"{field.name}="), make_java_text(value.getField(field.name), field.schema))
        for field in schema.fields
    ]
    return F.concat(F.lit("Struct{"), F.concat_ws(",", *fields), F.lit("}"))


def _make_item_text(value: Column, schema: Schema | None) -> Column:
    return F.transform(value, lambda item: _replace_null(make_java_text(item, schema)))


def _make_map_text(value: Column, schema: Schema) -> Column:
    def make_entry(entry: Column) -> Column:
        key = make_java_text(entry.getField("key"), schema.key)
        return F.concat(
            _replace_null(key),
            F.lit("="),
            _replace_null(make_java_text(entry.getField("value"), schema.value)),
        )

    return F.transform(F.map_entries(value), make_entry)
