"""StringConverter: text in any charset that Spark supports. Source: StringConverter (Kafka 4.4.0).

For UTF-8, the default, a conversion only changes the column's type, which takes no time. Invalid UTF-8 therefore
passes unchanged (Java replaces it with U+FFFD). In other charsets, `?` replaces unencodable characters, as in Java.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from kraal import __version__
from kraal.config.converter import parse
from kraal.converters.primitive.charsets import CHARSETS, UNENCODABLE, decode_text, encode_text
from kraal.converters.primitive.config import STRING_CONVERTER
from kraal.converters.primitive.java_text import make_java_text
from kraal.engine.columns.functions import F
from kraal.plugins.api import ColumnFormat, ConfigDef, Converter, Schema
from kraal.plugins.model.schema import OPTIONAL_STRING, Type
from kraal.plugins.values.java_values import java_text as as_text

if TYPE_CHECKING:
    from pyspark.sql import Column


_EXACT_TYPES: Final = frozenset(
    {Type.STRING, Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN, Type.BYTES}
)
"""Types that Spark prints like `encode`."""


class StringConverter(Converter):
    """Converter between strings and bytes; other values are printed like Java's `toString`."""

    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = STRING_CONVERTER
    reads_any_header: ClassVar[bool] = True

    def __init__(self) -> None:
        self._charset = "UTF-8"

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        parsed = parse(self.config_def, config, is_key=is_key)
        name = str(parsed["converter.encoding"])
        try:
            charset = CHARSETS.get(codecs.lookup(name).name)
        except LookupError:
            charset = None
        if charset is None:
            raise ValueError(
                f"unknown converter.encoding {name}; expected one of {', '.join(CHARSETS.values())}"
            )
        self._charset = charset

    @property
    @override
    def column_format(self) -> ColumnFormat | None:
        return ColumnFormat.TEXT if self._charset == "UTF-8" else None

    @override
    def writes_columns_exactly(self, schema: Schema) -> bool:
        return schema.name is None and schema.type in _EXACT_TYPES

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes of the text. Bytes pass unchanged, although Java prints the address of the array."""
        del topic, schema
        if value is None or isinstance(value, bytes):
            return value
        return encode_text(value if type(value) is str else as_text(value), self._charset)

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return the text; U+FFFD replaces invalid bytes, as in Java but unlike in columns."""
        del topic
        return OPTIONAL_STRING, None if data is None else decode_text(data, self._charset)

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        del topic
        text = make_java_text(value, schema)
        if self._charset == "UTF-8":
            return text.cast("binary")
        if self._charset in UNENCODABLE:
            text = F.regexp_replace(text, UNENCODABLE[self._charset], "?")
        return F.encode(text, self._charset)

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        del topic
        if self._charset == "UTF-8":
            return value.cast("string"), None, OPTIONAL_STRING
        if self._charset == "US-ASCII":
            # Spark's own decoder fails the whole job at the first byte above 127.
            latin1 = F.decode(value, "ISO-8859-1")
            return F.regexp_replace(latin1, r"[\x80-\xFF]", "\ufffd"), None, OPTIONAL_STRING
        return F.decode(value, self._charset), None, OPTIONAL_STRING
