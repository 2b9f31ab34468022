"""Parses JSON documents of a known schema with a Java function in Spark's JVM.

The function parses a document only if writing its value results in the same bytes: fields in order, no whitespace,
numbers as Java writes them, strings without escapes, no negative zero. It returns null for any other document, which
Spark's slower `from_json` parses instead. So the function affects only the speed: `from_json` would return the same
values. The class is compiled when a session first uses it (`kraal.engine.session.janino`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kraal.engine.session.janino import invoke_read
from kraal.plugins.model.schema import Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import Column

_CLASS: Final = "kraal.JsonScan"
_PLAIN_NAME: Final = re.compile(r"[ !#-\[\]-~]+")
"""Matches names of printable ASCII characters that JSON does not escape."""
_SCALAR_TYPES: Final = frozenset(
    {Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT64, Type.BOOLEAN, Type.STRING}
)


def can_scan(schema: Schema) -> bool:
    """Return whether the function can parse documents of a schema.

    The schema must be a struct with at least one field. Each field must be a scalar (`_SCALAR_TYPES`) or such a struct,
    and its name must match `_PLAIN_NAME`.
    """
    if schema.type is not Type.STRUCT:
        return False
    return bool(schema.fields) and all(
        _PLAIN_NAME.fullmatch(field.name) is not None
        and (field.schema.type in _SCALAR_TYPES or can_scan(field.schema))
        for field in schema.fields
    )


def scan_json(raw: Column, prefix: bytes, suffix: str, ddl: str) -> Column:
    """Return a column of structs, parsed from the bytes between `prefix` and `suffix`.

    The column is null where `from_json` must parse the document. `ddl` is the type of the struct, whose schema must
    satisfy `can_scan`. Must be called on a job thread.
    """
    return invoke_read(_CLASS, raw, type_of=ddl, arguments=(prefix, suffix, ddl))
