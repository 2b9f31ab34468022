"""JsonConverter: JSON with and without schemas. Source: JsonConverter and JsonConverterConfig (Kafka 4.4.0).

**Reading** returns a VARIANT, Spark's type for values without a schema, and None as the schema. A VARIANT cast to
string is the text that a text sink prints: strings have no quotes, objects and lists are JSON text, and null stays
null. `to_json` returns the JSON of a VARIANT. JSON `null` and tombstones become null.

**Writing** with a schema returns the same bytes as Java (`tests/golden/converters`). Without a schema, the value is a
VARIANT or a column of a plain type, and is written as JSON.

Differences from Java: an object's fields are sorted by name (Java: hash map order); integers over 64 bits keep their
value (Java: truncated to 64 bits); `100.0` prints as `100`. Spark's parser rejects some JSON that Jackson accepts, such
as `007`, which `for_columns` rewrites. The last of duplicate names wins, as in Java, because the engine sets
`spark.sql.variant.allowDuplicateKeys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from kraal import __version__
from kraal.config.converter import parse
from kraal.converters.json.column_read import unwrap
from kraal.converters.json.column_write import JsonText, escape_astral
from kraal.converters.json.config import JSON_CONVERTER
from kraal.converters.json.parse import NOT_JSON_ERROR
from kraal.converters.json.records import JsonRecords
from kraal.converters.json.strict import to_strict_json
from kraal.converters.json.write import JsonWriter
from kraal.engine.columns.functions import F
from kraal.plugins.api import ColumnFormat, ConfigDef, Converter, DataException, Schema
from kraal.plugins.model.records import DATE, DECIMAL, TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import Column

CONTENT: Final = "schema.content"
INVALID_CONTENT_ERROR: Final = "Failed to parse schema in converter config due to serialization error"


class JsonConverter(Converter):
    """Converter between Connect values and JSON."""

    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = JSON_CONVERTER

    def __init__(self) -> None:
        self._schemas_enabled = True
        self._replace_null = True
        self._content: str | None = None
        self._writer = JsonText(numeric_decimals=False, replace_null=True)
        self._schema_writer = JsonWriter(numeric_decimals=False, replace_null=True)
        self._records = JsonRecords()

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        parsed = parse(self.config_def, config, is_key=is_key)
        self._schemas_enabled = parsed["schemas.enable"] is True
        self._replace_null = parsed["replace.null.with.default"] is True
        is_numeric = str(parsed["decimal.format"]).upper() == "NUMERIC"
        self._writer = JsonText(numeric_decimals=is_numeric, replace_null=self._replace_null)
        self._schema_writer = JsonWriter(numeric_decimals=is_numeric, replace_null=self._replace_null)
        content = str(parsed[CONTENT] or "").strip()
        self._content = None if content in ("", "null") else content
        try:
            self._records = JsonRecords(
                schemas=self._schemas_enabled,
                replace_null=self._replace_null,
                numeric_decimals=is_numeric,
                cache_size=max(int(str(parsed["schemas.cache.size"])), 1),
                content=content or None,
            )
        except DataException as exc:
            reason = INVALID_CONTENT_ERROR if str(exc) == NOT_JSON_ERROR else str(exc)
            raise ValueError(f"{reason}: {CONTENT} is {content}") from exc

    @property
    @override
    def column_format(self) -> ColumnFormat | None:
        if self._content is not None:
            return None
        return ColumnFormat.JSON_ENVELOPE if self._schemas_enabled else ColumnFormat.JSON

    @override
    def writes_columns_exactly(self, schema: Schema) -> bool:
        if schema.name in {DECIMAL, DATE, TIMESTAMP}:
            return True
        if schema.name is not None and schema.name.startswith("org.apache.kafka.connect.data."):
            return False
        inner_schemas = [field.schema for field in schema.fields]
        inner_schemas += [inner for inner in (schema.key, schema.value) if inner is not None]
        return all(map(self.writes_columns_exactly, inner_schemas))

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        del topic
        return self._records.encode(schema, value)

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        del topic
        return self._records.decode(data)

    @override
    def for_columns(self, data: bytes) -> bytes:
        return to_strict_json(data)

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        """Return JSON bytes. As in Java, null is a tombstone without a schema, and JSON `null` with a schema."""
        del topic
        try:
            if schema is None:
                text = escape_astral(F.to_json(value.cast("variant")))
            else:
                text = self._writer.text(value, schema)
            schema_json = self._schema_writer.describe(schema)
        except DataException as exc:
            raise ValueError(str(exc)) from exc
        if self._schemas_enabled:
            text = F.concat(F.lit(f'{{"schema":{schema_json},"payload":'), text, F.lit("}"))
        return text.cast("binary")

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        del topic
        # Spark would replace malformed UTF-8, which Jackson rejects.
        text = F.when(F.is_valid_utf8(value.cast("string")), value.cast("string"))
        parsed = F.try_parse_json(text)
        if self._schemas_enabled:
            payload, error = unwrap(value, parsed, replace_null=self._replace_null, content=self._content)
        else:
            # Blank text has no value, as in Jackson; the bytes are checked only if parsing fails.
            is_invalid = value.isNotNull() & parsed.isNull() & value.cast("string").rlike(r"[^ \t\r\n]")
            payload, error = parsed, F.when(is_invalid, F.lit(NOT_JSON_ERROR))
        return F.when(~F.is_variant_null(payload), payload), error, None
