r"""Values with a schema to JSON text, byte for byte as Java's JsonConverter writes them.

Every value becomes an expression for its text, and the texts of fields and elements are joined. Only strings
go through Spark's JSON writer, for it escapes as Jackson does, with one exception: Jackson writes characters
over U+FFFF as two `\uXXXX`, Spark as UTF-8. `escape_astral` mends that.
Source: JsonConverter.convertToJson and asJsonSchema (Kafka 4.3.0, Jackson 2.21).
"""

from __future__ import annotations

import base64
import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from kraal.plugins.schema import Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import Column

NULL_REFUSED: Final = "Conversion error: null value for field that is required and has no default value"

ASTRAL: Final = r"[\x{10000}-\x{10FFFF}]"
"""Characters over U+FFFF, as a Java regular expression."""

_PLAIN_FROM: Final = 1e-3
_PLAIN_TO: Final = 1e7
"""Between these Java writes floats without an exponent."""


class JsonText:
    """Builds the expressions under a converter's settings."""

    def __init__(self, *, numeric_decimals: bool, replace_null: bool) -> None:
        self._numeric_decimals = numeric_decimals
        self._replace_null = replace_null

    def text(self, value: Column, schema: Schema) -> Column:
        """Return the JSON text of `value`, `null` for null. Fails the job on a null that is required."""
        if schema.default is not None and self._replace_null:
            absent = F.lit(self.plain(schema, schema.default))
        elif schema.optional:
            absent = F.lit("null")
        else:
            absent = F.raise_error(F.lit(NULL_REFUSED)).cast("string")
        # Not `when(value is null, …)`: Spark computes a shared part once only where it is needed in any case.
        return F.coalesce(self._present(value, schema), absent)

    def _present(self, value: Column, schema: Schema) -> Column:
        """Return the JSON text of a value that is there; null for null."""
        logical = self._logical(value, schema)
        if logical is not None:
            return logical
        match schema.type:
            case Type.STRING | Type.BYTES:  # the writer's base64 has no line breaks; F.base64 has
                return quoted(value)
            case Type.FLOAT32 | Type.FLOAT64:
                text = value.cast("string")
                finite = ~text.isin("NaN", "Infinity", "-Infinity")
                return F.when(finite, text).otherwise(F.concat(F.lit('"'), text, F.lit('"')))
            case Type.STRUCT:
                return self._struct(value, schema)
            case Type.ARRAY:
                element = _known(schema.value, "array")
                return _joined("[", F.transform(value, lambda each: self.text(each, element)), "]")
            case Type.MAP:
                return self._map(value, schema)
            case _:
                return value.cast("string")

    def _logical(self, value: Column, schema: Schema) -> Column | None:
        """Write a decimal, date or time, whose columns have Spark's types; None for everything else."""
        match schema.name:
            case "org.apache.kafka.connect.data.Decimal":
                if not self._numeric_decimals:
                    raise ValueError("decimals can be written with decimal.format=NUMERIC only, for now")
                return value.cast("string")
            case "org.apache.kafka.connect.data.Date":
                return F.unix_date(value).cast("string")
            case "org.apache.kafka.connect.data.Timestamp":
                return F.unix_millis(value).cast("string")
            case _:
                return None

    def _struct(self, value: Column, schema: Schema) -> Column:
        parts: list[Column] = []
        for index, field in enumerate(schema.fields):
            parts.append(F.lit(("{" if index == 0 else ",") + quote(field.name) + ":"))
            parts.append(self.text(value.getField(field.name), field.schema))
        return F.when(value.isNotNull(), F.concat(*parts, F.lit("}")) if parts else F.lit("{}"))

    def _map(self, value: Column, schema: Schema) -> Column:
        """Write an object where keys are strings, else an array of pairs."""
        key, element = _known(schema.key, "map"), _known(schema.value, "map")
        is_object = key.type is Type.STRING

        def entry(each: Column) -> Column:
            name, item = self.text(each.getField("key"), key), self.text(each.getField("value"), element)
            if is_object:
                return F.concat(name, F.lit(":"), item)
            return F.concat(F.lit("["), name, F.lit(","), item, F.lit("]"))

        entries = F.transform(F.map_entries(value), entry)
        return _joined("{", entries, "}") if is_object else _joined("[", entries, "]")

    def plain(self, schema: Schema | None, value: Any) -> str:
        """Return the JSON text of a Python value; for defaults."""
        match value:
            case None:
                return "null"
            case bool():
                return "true" if value else "false"
            case str():
                return quote(value)
            case bytes():
                return quote(base64.b64encode(value).decode("ascii"))
            case float():
                return java_double(value)
            case list() | tuple():
                element = schema.value if schema is not None else None
                return "[" + ",".join(self.plain(element, each) for each in value) + "]"
            case dict():
                return (
                    "{" + ",".join(f"{quote(str(k))}:{self.plain(None, v)}" for k, v in value.items()) + "}"
                )
            case _:
                return str(value)

    def schema_text(self, schema: Schema, field: str | None = None) -> str:
        """Return the JSON text of a schema, as the envelope holds it; fields in Java's order."""
        parts = [("type", quote(schema.type.value))]
        match schema.type:
            case Type.ARRAY:
                parts.append(("items", self.schema_text(_known(schema.value, "array"))))
            case Type.MAP:
                parts.append(("keys", self.schema_text(_known(schema.key, "map"))))
                parts.append(("values", self.schema_text(_known(schema.value, "map"))))
            case Type.STRUCT:
                fields = [self.schema_text(each.schema, each.name) for each in schema.fields]
                parts.append(("fields", f"[{','.join(fields)}]"))
            case _:
                pass
        parts.append(("optional", "true" if schema.optional else "false"))
        if schema.name is not None:
            parts.append(("name", quote(schema.name)))
        if schema.version is not None:
            parts.append(("version", str(schema.version)))
        if schema.doc is not None:
            parts.append(("doc", quote(schema.doc)))
        if schema.parameters:
            inner = ",".join(f"{quote(name)}:{quote(text)}" for name, text in schema.parameters.items())
            parts.append(("parameters", f"{{{inner}}}"))
        if schema.default is not None:
            parts.append(("default", self.plain(schema, schema.default)))
        if field is not None:
            parts.append(("field", quote(field)))
        return "{" + ",".join(f"{quote(name)}:{text}" for name, text in parts) + "}"


def _known(schema: Schema | None, kind: str) -> Schema:
    if schema is None:
        raise ValueError(f"the schema of this {kind}'s elements is not known, so JSON cannot be written")
    return schema


def _joined(left: str, texts: Column, right: str) -> Column:
    return F.concat(F.lit(left), F.array_join(texts, ","), F.lit(right))


def quoted(value: Column) -> Column:
    """Return a column of strings or bytes as JSON strings; 0.25 µs each, of all the ways tried the fastest by far."""
    # {"p":"…"}; bytes are sliced without a scan.
    wrapped = F.to_json(F.when(value.isNotNull(), F.struct(value.alias("p")))).cast("binary")
    return F.substring(wrapped, F.lit(6), F.octet_length(wrapped) - F.lit(6)).cast("string")


def escape_astral(text: Column) -> Column:
    r"""Write characters over U+FFFF in JSON text as Jackson does: `\uD83D\uDE00`."""

    def escaped(letter: Column) -> Column:
        digits = F.hex(F.encode(letter, "UTF-16BE"))
        pair = F.concat(F.lit("\\u"), F.substring(digits, 1, 4), F.lit("\\u"), F.substring(digits, 5, 4))
        return F.when(F.octet_length(letter) == F.lit(4), pair).otherwise(letter)

    # The first test is cheap and lets ASCII pass, the second is ten times dearer.
    none = (F.octet_length(text) == F.length(text)) | ~text.rlike(ASTRAL)
    return F.when(none, text).otherwise(F.array_join(F.transform(F.split(text, ""), escaped), ""))


def quote(text: str) -> str:
    """Return a Python string as Jackson writes it: UTF-8, but surrogate pairs and controls escaped."""
    plain = json.dumps(text, ensure_ascii=False)
    # Every escape is matched, so that the backslash of one is not taken for the start of another.
    plain = re.sub(r"\\(u00[0-9a-f]{2}|.)", lambda found: _upper(found[0]), plain)
    return re.sub("[\U00010000-\U0010ffff]", lambda found: _pair(found[0]), plain)


def _upper(escape: str) -> str:
    return "\\u" + escape[2:].upper() if escape.startswith("\\u") else escape


def _pair(letter: str) -> str:
    digits = letter.encode("utf-16-be").hex().upper()
    return f"\\u{digits[:4]}\\u{digits[4:]}"


def java_double(value: float) -> str:
    """Return a float as Java's `Double.toString` writes it, quoted where JSON has no number for it."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return repr(value)
    # As many digits as it takes to read the same number back.
    short = next(text for text in (format(value, f".{n}e") for n in range(1, 18)) if float(text) == value)
    mantissa, _, exponent = short.partition("e")
    return f"{mantissa}E{int(exponent)}"
