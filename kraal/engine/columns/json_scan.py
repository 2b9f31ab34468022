"""Reads JSON of a known form into columns with a Java function in Spark's JVM; it covers most records.

It reads a text only if writing its value gives the same bytes: fields in order, no blanks, numbers as Java writes them,
strings without escapes, no negative zero. It returns null for all other texts, and Spark's slower `from_json` reads
those. So the result never depends on it: `from_json` would read the same values. The class is compiled when a session
first needs it (`kraal.engine.session.janino`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kraal.engine.session.janino import invoke_read
from kraal.plugins.model.schema import Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import Column

_CLASS: Final = "kraal.JsonScan"
_NAME: Final = re.compile(r"[ !#-\[\]-~]+")
"""Field names that JSON writes without escapes."""
_SINGLE: Final = frozenset(
    {Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT64, Type.BOOLEAN, Type.STRING}
)


def can_scan(schema: Schema) -> bool:
    """Whether texts of a schema can be read: structs of single values and of structs, fields with plain names."""
    if schema.type is not Type.STRUCT:
        return False
    return bool(schema.fields) and all(
        _NAME.fullmatch(each.name) is not None and (each.schema.type in _SINGLE or can_scan(each.schema))
        for each in schema.fields
    )


def scanned(raw: Column, before: bytes, after: str, ddl: str) -> Column:
    """Return a column of structs: the text between `before` and `after` in bytes; null where `from_json` is needed.

    `ddl`: the struct's type, for a schema that `can_scan`. Job thread.
    """
    return invoke_read(_CLASS, raw, type_of=ddl, arguments=(before, after, ddl))
