"""JSON with and without schemas. Source: JsonConverter and JsonConverterConfig (Kafka 4.3.0).

**What is read** is a VARIANT, Spark's own type for values without a schema, and its schema is None. Cast to
string it is what a text sink prints: strings without quotes, numbers and booleans as text, objects and lists as
JSON text, null as null. `to_json` gives the JSON back. JSON's `null`, and no bytes at all, are null.

**What is written** with a schema is Java's, byte for byte (`tests/golden/converters`). Without one the value is
a VARIANT, or a column of a plain type, and is written as the JSON for it.

What differs from Java: an object's fields come sorted by name (Java: as its hash map has them); whole numbers
over 64 bits keep their value (Java: cut to 64 bits); `100.0` prints as `100`; `007` is an error (Java: 7). Of
repeated names the last counts, as in Java, because the engine sets `spark.sql.variant.allowDuplicateKeys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from typing_extensions import override

from kraal import __version__
from kraal.config.converters import JSON_CONVERTER
from kraal.converters.json_envelope import opened
from kraal.converters.json_parse import NOT_JSON
from kraal.converters.json_records import JsonRecords
from kraal.converters.json_text import JsonText, escape_astral
from kraal.converters.json_write import JsonWriter
from kraal.converters.keys import parse
from kraal.plugins.api import ConfigDef, Converter, DataException, Schema

if TYPE_CHECKING:
    from pyspark.sql import Column

CONTENT: Final = "schema.content"
BAD_CONTENT: Final = "Failed to parse schema in converter config due to serialization error"


class JsonConverter(Converter):
    """Connect's values to JSON and back."""

    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = JSON_CONVERTER

    def __init__(self) -> None:
        self._schemas = True
        self._replace_null = True
        self._content: str | None = None
        self._writer = JsonText(numeric_decimals=False, replace_null=True)
        self._described = JsonWriter(numeric_decimals=False, replace_null=True)
        self._records = JsonRecords()

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        parsed = parse(self.config_def, config, is_key=is_key)
        self._schemas = parsed["schemas.enable"] is True
        self._replace_null = parsed["replace.null.with.default"] is True
        numeric = str(parsed["decimal.format"]).upper() == "NUMERIC"
        self._writer = JsonText(numeric_decimals=numeric, replace_null=self._replace_null)
        self._described = JsonWriter(numeric_decimals=numeric, replace_null=self._replace_null)
        content = str(parsed[CONTENT] or "").strip()
        self._content = None if content in ("", "null") else content
        try:
            self._records = JsonRecords(
                schemas=self._schemas,
                replace_null=self._replace_null,
                numeric_decimals=numeric,
                size=max(int(str(parsed["schemas.cache.size"])), 1),
                content=content or None,
            )
        except DataException as exc:
            reason = BAD_CONTENT if str(exc) == NOT_JSON else str(exc)
            raise ValueError(f"{reason}: {CONTENT} is {content}") from exc

    @property
    def opens_envelopes(self) -> bool:
        """Whether what it reads is `{"schema":…,"payload":…}`."""
        return self._schemas and self._content is None

    @property
    def reads_plain(self) -> bool:
        """Whether what it reads has no schema."""
        return not self._schemas and self._content is None

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        del topic
        return self._records.encode(schema, value)

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        del topic
        return self._records.decode(data)

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        """Without a schema null stays null, a tombstone; with one it is JSON's `null`, as Java has it."""
        del topic
        try:
            if schema is None:
                text = escape_astral(F.to_json(value.cast("variant")))
            else:
                text = self._writer.text(value, schema)
            described = self._described.described(schema)
        except DataException as exc:
            raise ValueError(str(exc)) from exc
        if self._schemas:
            text = F.concat(F.lit(f'{{"schema":{described},"payload":'), text, F.lit("}"))
        return text.cast("binary")

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        del topic
        parsed = F.try_parse_json(value.cast("string"))
        if self._schemas:
            payload, error = opened(value, parsed, replace_null=self._replace_null, content=self._content)
        else:
            # Blank text is no value, as for Jackson; the look at the bytes happens only where parsing failed.
            bad = value.isNotNull() & parsed.isNull() & value.cast("string").rlike(r"[^ \t\r\n]")
            payload, error = parsed, F.when(bad, F.lit(NOT_JSON))
        return F.when(~F.is_variant_null(payload), payload), error, None
