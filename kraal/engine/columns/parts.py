"""Converts parts of records (`kraal.plugins.model.columns`) to Spark columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kraal.engine.columns.functions import F
from kraal.plugins.model.columns import ByRecords, Expression, Part
from kraal.plugins.model.schema import Type

if TYPE_CHECKING:
    from pyspark.sql import Column

SPARK_TYPES: Final[Mapping[Type, str]] = {
    Type.INT8: "tinyint",
    Type.INT16: "smallint",
    Type.INT32: "int",
    Type.INT64: "bigint",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
}
"""The Spark type of each primitive type except BYTES."""


def make_column(part: Part) -> Column:
    """Return the column for a part. Raises ByRecords for a part without a schema or an expression.

    In text that is unchanged since it was read, invalid UTF-8 becomes U+FFFD, as on the record path.
    """
    if part.fields is not None:
        return F.struct(*[make_column(field).alias(name) for name, field in part.fields.items()])
    if part.expression is None or part.schema is None:
        raise ByRecords
    column: Column = part.expression()
    if part.as_read and part.schema.type is Type.STRING:
        return F.make_valid_utf8(column)
    return column


def is_null(part: Part) -> Expression:
    """Return an expression that tests whether a part is null. Raises ByRecords for a part without an expression."""
    expression = part.expression
    if part.fields is not None or expression is None:
        raise ByRecords
    return lambda: expression().isNull()
