"""Converts JSON one record at a time, with the schema in each record's envelope or in the config.

Parsing the schema of every record would take longer than parsing its value. Records with the same schema start with
the same text up to `"payload":`, so the last such prefix is cached with its schema, and only the payload is parsed.
Source: JsonConverter.fromConnectData and toConnectData (Kafka 4.4.0).
"""

from __future__ import annotations

import re
from typing import Any, Final

from typing_extensions import override

from kraal.converters.json.parse import (
    EXACT_DECODER,
    FAST_DECODER,
    MISSING,
    NO_ENVELOPE_ERROR,
    decode_text,
    parse,
    skip_whitespace,
)
from kraal.converters.json.read import JsonReader, Read, to_schemaless
from kraal.converters.json.schema import parse_schema
from kraal.converters.json.write import JsonWriter
from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import Schema

_ENVELOPE_START: Final = '{"schema":'
_PAYLOAD_START: Final = ',"payload":'
_UNSAFE_NUMBERS: Final = re.compile(r"(?:\A|[\s:,\[])-0|\d{19}")
"""Numbers that `FAST_DECODER` may decode differently from Java. Also matches such numbers inside strings."""

ENCODING_ERROR: Final = "Converting Kafka Connect data to byte[] failed due to serialization error: "


class JsonRecords:
    """Encodes and decodes values with the settings of a converter. Not thread-safe; pickled without caches."""

    def __init__(
        self,
        *,
        schemas: bool = True,
        replace_null: bool = True,
        numeric_decimals: bool = False,
        cache_size: int = 1000,
        content: str | None = None,
    ) -> None:
        self._schemas_enabled = schemas
        self._cache_size = cache_size
        self._writer = JsonWriter(
            numeric_decimals=numeric_decimals, replace_null=replace_null, cache_size=cache_size
        )
        self._reader = JsonReader(replace_null=replace_null)
        self._fixed_schema = None if content is None else self._read_schema(parse(content, EXACT_DECODER))
        self._reset_caches()

    def _reset_caches(self) -> None:
        self._readers: dict[str, tuple[Schema, Read]] = {}
        self._last_prefix: tuple[str, Schema, Read] | None = None
        self._fixed_reader: Read | None = None

    @override
    def __getstate__(self) -> dict[str, Any]:
        empty_caches: dict[str, Any] = {"_readers": {}, "_last_prefix": None, "_fixed_reader": None}
        return {**self.__dict__, **empty_caches}

    def encode(self, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value, or None if both schema and value are None. Raises DataException."""
        if schema is None and value is None:
            return None
        if self._schemas_enabled:
            schema_json = self._writer.describe(schema)
            text = f'{{"schema":{schema_json},"payload":{self._writer.text(schema, value)}}}'
        else:
            text = self._writer.text(schema, value)
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError as exc:
            raise DataException(ENCODING_ERROR) from exc

    def decode(self, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return the schema and the value that `data` contains. Raises DataException."""
        if data is None:
            return None, None
        text = decode_text(data)
        if not self._schemas_enabled:
            is_safe = _UNSAFE_NUMBERS.search(text) is None
            node = parse(text, FAST_DECODER if is_safe else EXACT_DECODER)
            return None, node if is_safe and node is not MISSING else to_schemaless(node)
        if self._fixed_schema is not None:
            if self._fixed_reader is None:
                self._fixed_reader = self._reader.compile_reader(self._fixed_schema)
            return self._fixed_schema, self._fixed_reader(parse(text, EXACT_DECODER))
        return self._decode_fast(text) or self._decode_envelope(text)

    def _decode_fast(self, text: str) -> tuple[Schema, Any] | None:
        """Decode a record that starts with the cached prefix; None if it has another prefix or is not valid."""
        if self._last_prefix is None or not text.startswith(self._last_prefix[0]):
            return None
        prefix, schema, read = self._last_prefix
        try:
            node, end = EXACT_DECODER.raw_decode(text, skip_whitespace(text, len(prefix)))
        except (ValueError, RecursionError):
            return None
        return (schema, read(node)) if text.startswith("}", skip_whitespace(text, end)) else None

    def _decode_envelope(self, text: str) -> tuple[Schema | None, Any]:
        node = parse(text, EXACT_DECODER)
        if not isinstance(node, dict) or set(node) != {"schema", "payload"}:
            raise DataException(NO_ENVELOPE_ERROR)
        if node["schema"] is None:
            return None, to_schemaless(node["payload"])
        schema, read = self._get_schema_and_reader(node["schema"])
        value = read(node["payload"])
        if text.startswith(_ENVELOPE_START):
            _, end = EXACT_DECODER.raw_decode(text, skip_whitespace(text, len(_ENVELOPE_START)))
            if text.startswith(_PAYLOAD_START, end):
                self._last_prefix = (text[: end + len(_PAYLOAD_START)], schema, read)
        return schema, value

    def _get_schema_and_reader(self, node: Any) -> tuple[Schema, Read]:
        """Return the schema that a node describes, and a function that reads the schema's values. Cached."""
        key = repr(node)
        cached = self._readers.get(key)
        if cached is None:
            schema = self._read_schema(node)
            if schema is None:  # pragma: no cover - callers handle null
                raise DataException("Schema must contain 'type' field")
            if len(self._readers) >= self._cache_size:
                self._readers.clear()
            cached = self._readers[key] = (schema, self._reader.compile_reader(schema))
        return cached

    def _read_schema(self, node: Any) -> Schema | None:
        return parse_schema(node, lambda schema, default: self._reader.compile_reader(schema)(default))
