"""Column forms of the keys and values that sinks receive: JSON without schemas, or text as Java prints it.

The results equal those of `records.sink_pass`. The text of a float with many digits depends on the Java version, and
the text of a float with an exponent depends on the library, so rows with these floats are in doubt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from kraal.engine.columns.functions import F
from kraal.engine.columns.parts import make_column
from kraal.plugins.model.columns import ByRecords, Expression, Part
from kraal.plugins.model.records import TIMESTAMP
from kraal.plugins.model.schema import Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kraal.plugins.api import SinkValues

_MILLIS: Final = Schema(type=Type.INT64, optional=True)
_INTEGERS_AND_BOOLEAN: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN)
_MAX_DIGITS: Final[Mapping[Type, int]] = {Type.FLOAT64: 15, Type.FLOAT32: 6}
"""Maximum number of digits for which texts and floats correspond one to one."""


def text_doubts(part: Part) -> tuple[Expression, ...]:
    """Return conditions under which a float's text may differ from the record path."""
    schema = part.schema
    if schema is None:
        return ()
    if schema.type is Type.STRUCT:
        return tuple(doubt for field in schema.fields for doubt in text_doubts(part.field(field)))
    return (partial(_is_ambiguous, part, _MAX_DIGITS[schema.type]),) if schema.type in _MAX_DIGITS else ()


def _is_ambiguous(part: Part, max_digits: int) -> Column:
    value = make_column(part)
    magnitude = F.abs(value)
    is_plain = (magnitude == F.lit(0)) | ((magnitude >= F.lit(1e-3)) & (magnitude < F.lit(1e7)))
    return ~is_plain | (F.length(F.regexp_replace(value.cast("string"), "[^0-9]", "")) > F.lit(max_digits))


def make_sink_column(part: Part, value_form: SinkValues) -> Column:
    """Return the column for the sink: VARIANT for `json`, otherwise text. Raises ByRecords."""
    if part.is_nothing:
        return F.lit(None).cast("variant" if value_form == "json" else "string")
    schema = part.schema
    if schema is None:
        raise ByRecords
    if value_form == "text":
        return make_column(part).cast("string") if _is_plain(schema, Type.BYTES) else _text(part)
    if value_form == "json" and _is_plain(schema, Type.STRING):
        return make_column(part).cast("variant")
    text = _json(part, schema)
    return F.try_parse_json(text) if value_form == "json" else text


def _json(part: Part, schema: Schema) -> Column:
    """Return the column form of `json_text`. Raises ByRecords."""
    if any(_is_plain(schema, schema_type) for schema_type in (*_INTEGERS_AND_BOOLEAN, Type.FLOAT64)):
        return make_column(part).cast("string")
    if schema.type is Type.STRUCT:
        return F.to_json(make_column(_with_millis(part)), {"ignoreNullFields": "false"})
    if not _is_plain(schema, Type.STRING):
        raise ByRecords
    array = F.to_json(F.array(make_column(part)))
    return F.when(make_column(part).isNotNull(), F.substring(array, 2, F.length(array) - F.lit(2)))


def _is_plain(schema: Schema, schema_type: Type) -> bool:
    """Return whether a schema has this type and no name, so that it is not a logical type."""
    return schema.type is schema_type and schema.name is None


def _with_millis(part: Part) -> Part:
    """Return a part with timestamps as milliseconds. Raises ByRecords, like `_check_json`."""
    if part.fields is not None:
        return replace(part, fields={name: _with_millis(item) for name, item in part.fields.items()})
    if part.schema is not None and part.schema.name == TIMESTAMP:
        return Part(schema=_MILLIS, expression=partial(_millis, part))
    _check_json(part)
    return part


def _millis(part: Part) -> Column:
    return F.unix_millis(make_column(part))


def _check_json(part: Part) -> None:
    """Raise ByRecords for values that Spark writes differently from `json_text`."""
    schema = part.schema
    if schema is None or (schema.default is not None and not part.sure):
        raise ByRecords  # `json_text` writes the default for null
    if schema.type is Type.STRUCT and schema.fields:
        for field in schema.fields:
            _check_json(part.field(field))
    elif schema.type is Type.ARRAY and schema.value is not None and schema.name is None:
        if not any(
            _is_plain(schema.value, schema_type)
            for schema_type in (*_INTEGERS_AND_BOOLEAN, Type.STRING, Type.BYTES)
        ):
            raise ByRecords
    elif schema.name is not None or schema.type not in (
        *_INTEGERS_AND_BOOLEAN,
        Type.FLOAT64,
        Type.STRING,
        Type.BYTES,
    ):
        raise ByRecords


def _text(part: Part) -> Column:
    """Return the column form of Java's `toString`; null for null."""
    schema = part.schema
    if schema is None:
        raise ByRecords
    if schema.type is Type.STRUCT:
        parts = []
        for field in schema.fields:
            text = _text(part.field(field))
            if part.schemaless:
                parts.append(F.concat(F.lit(f"{field.name}="), F.coalesce(text, F.lit("null"))))
            else:
                parts.append(F.when(text.isNotNull(), F.concat(F.lit(f"{field.name}="), text)))
        start, between = ("{", ", ") if part.schemaless else ("Struct{", ",")
        struct = F.concat(F.lit(start), F.concat_ws(between, *parts), F.lit("}"))
        return struct if part.fields is not None else F.when(make_column(part).isNotNull(), struct)
    if schema.type is Type.ARRAY and schema.value is not None and schema.name is None:
        if not any(
            _is_plain(schema.value, schema_type) for schema_type in (*_INTEGERS_AND_BOOLEAN, Type.STRING)
        ):
            raise ByRecords
        items = F.transform(make_column(part), lambda item: F.coalesce(item.cast("string"), F.lit("null")))
        return F.concat(F.lit("["), F.array_join(items, ", "), F.lit("]"))
    if schema.name is None and schema.type in (*_INTEGERS_AND_BOOLEAN, *_MAX_DIGITS, Type.STRING):
        return make_column(part).cast("string")
    raise ByRecords
