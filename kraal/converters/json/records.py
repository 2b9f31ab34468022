"""JSON conversion one record at a time, with the schema in each record's envelope or in the config.

Parsing the schema of every record would cost more than parsing its value. Records of one schema start with the same
text up to `"payload":`, so the last such prefix is cached with its schema, and only the rest of the record is parsed.
Source: JsonConverter.fromConnectData and toConnectData (Kafka 4.4.0).
"""

from __future__ import annotations

import re
from typing import Any, Final

from typing_extensions import override

from kraal.converters.json.parse import EXACT, MISSING, NO_ENVELOPE, QUICK, after_space, decode_text, parse
from kraal.converters.json.read import JsonReader, Read, plain
from kraal.converters.json.schema import parse_schema
from kraal.converters.json.write import JsonWriter
from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import Schema

_FROM: Final = '{"schema":'
_BETWEEN: Final = ',"payload":'
_UNUSUAL: Final = re.compile(r"(?:\A|[\s:,\[])-0|\d{19}")
"""Numbers that Python's fast path could read differently from Java; also matches such digits in strings."""

NO_BYTES: Final = "Converting Kafka Connect data to byte[] failed due to serialization error: "


class JsonRecords:
    """Encodes and decodes with a converter's settings. Not thread-safe; pickled without its caches."""

    def __init__(
        self,
        *,
        schemas: bool = True,
        replace_null: bool = True,
        numeric_decimals: bool = False,
        size: int = 1000,
        content: str | None = None,
    ) -> None:
        self._schemas = schemas
        self._size = size
        self._writer = JsonWriter(numeric_decimals=numeric_decimals, replace_null=replace_null, size=size)
        self._reader = JsonReader(replace_null=replace_null)
        self._fixed = None if content is None else self._read_schema(parse(content, EXACT))
        self._forget()

    def _forget(self) -> None:
        self._known: dict[str, tuple[Schema, Read]] = {}
        self._beginning: tuple[str, Schema, Read] | None = None
        self._reads_fixed: Read | None = None

    @override
    def __getstate__(self) -> dict[str, Any]:
        forgotten: dict[str, Any] = {"_known": {}, "_beginning": None, "_reads_fixed": None}
        return {**self.__dict__, **forgotten}

    def encode(self, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of a value; None for a schemaless None. Raises DataException."""
        if schema is None and value is None:
            return None
        if self._schemas:
            described = self._writer.describe(schema)
            text = f'{{"schema":{described},"payload":{self._writer.text(schema, value)}}}'
        else:
            text = self._writer.text(schema, value)
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError as exc:
            raise DataException(NO_BYTES) from exc

    def decode(self, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return schema and value. Raises DataException."""
        if data is None:
            return None, None
        text = decode_text(data)
        if not self._schemas:
            usual = _UNUSUAL.search(text) is None
            node = parse(text, QUICK if usual else EXACT)
            return None, node if usual and node is not MISSING else plain(node)
        if self._fixed is not None:
            if self._reads_fixed is None:
                self._reads_fixed = self._reader.reads(self._fixed)
            return self._fixed, self._reads_fixed(parse(text, EXACT))
        return self._quick(text) or self._unwrap(text)

    def _quick(self, text: str) -> tuple[Schema, Any] | None:
        """Read a record with the same prefix as the last one; None if the prefix differs or the fast path is unsafe."""
        if self._beginning is None or not text.startswith(self._beginning[0]):
            return None
        beginning, schema, read = self._beginning
        try:
            node, end = EXACT.raw_decode(text, after_space(text, len(beginning)))
        except (ValueError, RecursionError):
            return None
        return (schema, read(node)) if text.startswith("}", after_space(text, end)) else None

    def _unwrap(self, text: str) -> tuple[Schema | None, Any]:
        node = parse(text, EXACT)
        if not isinstance(node, dict) or set(node) != {"schema", "payload"}:
            raise DataException(NO_ENVELOPE)
        if node["schema"] is None:
            return None, plain(node["payload"])
        schema, read = self._reading(node["schema"])
        value = read(node["payload"])
        if text.startswith(_FROM):
            _, end = EXACT.raw_decode(text, after_space(text, len(_FROM)))
            if text.startswith(_BETWEEN, end):
                self._beginning = (text[: end + len(_BETWEEN)], schema, read)
        return schema, value

    def _reading(self, node: Any) -> tuple[Schema, Read]:
        """Return the schema that a node describes, and a function that reads its values; cached."""
        key = repr(node)
        reading = self._known.get(key)
        if reading is None:
            schema = self._read_schema(node)
            if schema is None:  # pragma: no cover - null is handled above
                raise DataException("Schema must contain 'type' field")
            if len(self._known) >= self._size:
                self._known.clear()
            reading = self._known[key] = (schema, self._reader.reads(schema))
        return reading

    def _read_schema(self, node: Any) -> Schema | None:
        return parse_schema(node, lambda schema, default: self._reader.reads(schema)(default))
