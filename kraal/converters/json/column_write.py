r"""Column expressions that write values with a schema as JSON text, byte for byte like Java's JsonConverter.

The expression of a value concatenates the texts of its fields or elements. Strings are quoted by `quote_column`.
Values without a schema are written by Spark's JSON writer. It escapes like Jackson with one exception: Jackson writes
characters over U+FFFF as two `\uXXXX` escapes, and Spark writes them as UTF-8. `escape_astral` corrects the difference.
Source: JsonConverter.convertToJson and asJsonSchema (Kafka 4.3.0, Jackson 2.21).
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from kraal.converters.json.write import NULL_NOT_ALLOWED_ERROR, JsonWriter, quote
from kraal.engine.columns.functions import F
from kraal.engine.session.janino import call_function
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.logical import get_scale

if TYPE_CHECKING:
    from pyspark.sql import Column


ASTRAL: Final = r"[\x{10000}-\x{10FFFF}]"
"""Characters over U+FFFF, as a Java regular expression."""

_BASE: Final = Decimal(2**32)
_PLAIN_SCALE: Final = 6
"""BigDecimal prints an exponent if the adjusted exponent is less than the negative of this number."""
_REDUNDANT_SIGN_BYTES: Final = "^(?:(?:00)+(?=[0-7][0-9A-F])|(?:FF)+(?=[89A-F][0-9A-F]))"
"""Redundant leading sign bytes, in hexadecimal."""


class JsonText:
    """Builds JSON text expressions with the settings of a converter."""

    def __init__(self, *, numeric_decimals: bool, replace_null: bool) -> None:
        self._numeric_decimals = numeric_decimals
        self._replace_null = replace_null
        self._record_writer = JsonWriter(numeric_decimals=numeric_decimals, replace_null=replace_null)

    def text(self, value: Column, schema: Schema) -> Column:
        """Return the JSON text of `value`. Null becomes the default or `null`; the job fails if neither is allowed."""
        if schema.default is not None and self._replace_null:
            null_text = F.lit(self._record_writer.text(schema, schema.default))
        elif schema.optional:
            null_text = F.lit("null")
        else:
            null_text = F.raise_error(F.lit(NULL_NOT_ALLOWED_ERROR)).cast("string")
        # Not `when(value is null, …)`: Spark shares common subexpressions only if they are always evaluated.
        return F.coalesce(self._make_non_null_text(value, schema), null_text)

    def _make_non_null_text(self, value: Column, schema: Schema) -> Column:
        """Return the JSON text of a value; SQL NULL for null."""
        logical_text = self._make_logical_text(value, schema)
        if logical_text is not None:
            return logical_text
        match schema.type:
            case Type.STRING:
                return quote_column(value)
            case Type.BYTES:
                return encode_base64(value)
            case Type.FLOAT32 | Type.FLOAT64:
                text = value.cast("string")
                is_finite = ~text.isin("NaN", "Infinity", "-Infinity")
                return F.when(is_finite, text).otherwise(F.concat(F.lit('"'), text, F.lit('"')))
            case Type.STRUCT:
                return self._make_struct_text(value, schema)
            case Type.ARRAY:
                element = _require_schema(schema.value, "array")
                return _join("[", F.transform(value, lambda item: self.text(item, element)), "]")
            case Type.MAP:
                return self._make_map_text(value, schema)
            case _:
                return value.cast("string")

    def _make_logical_text(self, value: Column, schema: Schema) -> Column | None:
        """Return the JSON text of a decimal, date or timestamp in Spark's types; None for other schemas."""
        match schema.name:
            case "org.apache.kafka.connect.data.Decimal":
                if self._numeric_decimals:
                    return make_decimal_text(value, get_scale(schema))
                return encode_base64(make_decimal_bytes(value, get_scale(schema)))
            case "org.apache.kafka.connect.data.Date":
                return F.unix_date(value).cast("string")
            case "org.apache.kafka.connect.data.Timestamp":
                return F.unix_millis(value).cast("string")
            case _:
                return None

    def _make_struct_text(self, value: Column, schema: Schema) -> Column:
        parts: list[Column] = []
        for index, field in enumerate(schema.fields):
            parts.append(F.lit(("{" if index == 0 else ",") + quote(field.name) + ":"))
            parts.append(self.text(value.getField(field.name), field.schema))
        return F.when(value.isNotNull(), F.concat(*parts, F.lit("}")) if parts else F.lit("{}"))

    def _make_map_text(self, value: Column, schema: Schema) -> Column:
        """Return the JSON text of a map: an object if keys are strings, else an array of pairs."""
        key, element = _require_schema(schema.key, "map"), _require_schema(schema.value, "map")
        is_object = key.type is Type.STRING

        def make_entry(entry: Column) -> Column:
            name, item = self.text(entry.getField("key"), key), self.text(entry.getField("value"), element)
            if is_object:
                return F.concat(name, F.lit(":"), item)
            return F.concat(F.lit("["), name, F.lit(","), item, F.lit("]"))

        entries = F.transform(F.map_entries(value), make_entry)
        return _join("{", entries, "}") if is_object else _join("[", entries, "]")


def make_decimal_text(value: Column, scale: int) -> Column:
    """Return decimals in the format of `BigDecimal.toString`, which writes small numbers with an exponent."""
    text = value.cast(f"decimal(38, {scale})").cast("string")
    if scale <= _PLAIN_SCALE:
        return text
    digits = F.regexp_replace(F.replace(text, F.lit("."), F.lit("")), "^-?0+(?=.)|^-", "")
    power = F.length(digits) - F.lit(1 + scale)
    fraction = F.substring(digits, F.lit(2), F.length(digits))
    parts = (
        F.when(text.startswith("-"), F.lit("-")).otherwise(F.lit("")),
        F.substring(digits, 1, 1),
        F.when(F.length(digits) > F.lit(1), F.concat(F.lit("."), fraction)).otherwise(F.lit("")),
        F.lit("E"),
        power.cast("string"),
    )
    return F.when(power < F.lit(-_PLAIN_SCALE), F.concat(*parts)).otherwise(text)


def make_decimal_bytes(value: Column, scale: int) -> Column:
    """Return decimals as the minimal big-endian bytes of their unscaled values."""
    # The unscaled value is the text without the decimal point, whose position is the same in all rows.
    number = F.replace(value.cast(f"decimal(38, {scale})").cast("string"), F.lit("."), F.lit(""))
    remaining = number.cast("decimal(38, 0)")
    digits = F.lit("")
    for _ in range(4):
        lowest_digit = F.pmod(remaining, F.lit(_BASE))
        digits = F.concat(F.lpad(F.hex(lowest_digit.cast("bigint")), 8, "0"), digits)
        remaining = ((remaining - lowest_digit) / F.lit(_BASE)).cast("decimal(38, 0)")
    return F.unhex(F.regexp_replace(digits, _REDUNDANT_SIGN_BYTES, ""))


def _require_schema(schema: Schema | None, kind: str) -> Schema:
    if schema is None:
        raise ValueError(f"the {kind} has no schema for its elements, so it cannot be written as JSON")
    return schema


def _join(left: str, texts: Column, right: str) -> Column:
    return F.concat(F.lit(left), F.array_join(texts, ","), F.lit(right))


def encode_base64(value: Column) -> Column:
    """Return bytes as base64 JSON strings. Uses Spark's JSON writer because `F.base64` inserts line breaks."""
    # Slice the string out of {"p":"…"}. Unlike slicing characters, slicing bytes needs no scan.
    wrapper_json = F.to_json(F.when(value.isNotNull(), F.struct(value.alias("p")))).cast("binary")
    return F.substring(wrapper_json, F.lit(6), F.octet_length(wrapper_json) - F.lit(6)).cast("string")


def escape_astral(text: Column) -> Column:
    r"""Escape characters over U+FFFF in JSON text like Jackson: `\uD83D\uDE00`."""

    def escape(char: Column) -> Column:
        digits = F.hex(F.encode(char, "UTF-16BE"))
        pair = F.concat(F.lit("\\u"), F.substring(digits, 1, 4), F.lit("\\u"), F.substring(digits, 5, 4))
        return F.when(F.octet_length(char) == F.lit(4), pair).otherwise(char)

    # The first test is cheap and is true for ASCII; the second takes ten times as long.
    is_unchanged = (F.octet_length(text) == F.length(text)) | ~text.rlike(ASTRAL)
    return F.when(is_unchanged, text).otherwise(F.array_join(F.transform(F.split(text, ""), escape), ""))


_QUOTER_CLASS: Final = "kraal.JsonQuote"


def quote_column(value: Column) -> Column:
    """Return strings as JSON strings; null stays null. Must be called on the job thread."""
    return call_function(_QUOTER_CLASS, lambda quoter: quoter.function(), value)
