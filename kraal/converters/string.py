"""Text in any character set that Spark knows. Source: StringConverter (Kafka 4.3.0).

UTF-8, the default, is a change of type and costs nothing: bytes that are no UTF-8 pass unchanged, where Java
puts U+FFFD in their place. In the other sets a character that the set lacks becomes `?`, as in Java.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from typing_extensions import override

from kraal import __version__
from kraal.config.converters import STRING_CONVERTER
from kraal.converters.charsets import CHARSETS, LACKING, decoded, encoded
from kraal.converters.java_text import java_text
from kraal.converters.keys import parse
from kraal.plugins.api import ConfigDef, Converter, Schema
from kraal.plugins.java_values import java_text as as_text
from kraal.plugins.schema import OPTIONAL_STRING

if TYPE_CHECKING:
    from pyspark.sql import Column


class StringConverter(Converter):
    """Connect's strings to bytes and back; whatever is no string is printed as Java's `toString` does."""

    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = STRING_CONVERTER

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
            raise ValueError(f"unknown converter.encoding {name}; known are {', '.join(CHARSETS.values())}")
        self._charset = charset

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the text's bytes; bytes, which Java prints as an address, pass unchanged."""
        del topic, schema
        if value is None or isinstance(value, bytes):
            return value
        return encoded(value if type(value) is str else as_text(value), self._charset)

    @override
    def decode(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """Return the text; unlike columns, U+FFFD stands for what is none, as in Java."""
        del topic
        return OPTIONAL_STRING, None if data is None else decoded(data, self._charset)

    @override
    def from_connect(self, topic: Column, value: Column, schema: Schema | None) -> Column:
        del topic
        text = java_text(value, schema)
        if self._charset == "UTF-8":
            return text.cast("binary")
        if self._charset in LACKING:
            text = F.regexp_replace(text, LACKING[self._charset], "?")
        return F.encode(text, self._charset)

    @override
    def to_connect(self, topic: Column, value: Column) -> tuple[Column, Column | None, Schema | None]:
        del topic
        if self._charset == "UTF-8":
            return value.cast("string"), None, OPTIONAL_STRING
        if self._charset == "US-ASCII":
            # Spark's own decoder fails the whole job at the first byte above 127.
            latin = F.decode(value, "ISO-8859-1")
            return F.regexp_replace(latin, r"[\x80-\xFF]", "\ufffd"), None, OPTIONAL_STRING
        return F.decode(value, self._charset), None, OPTIONAL_STRING
