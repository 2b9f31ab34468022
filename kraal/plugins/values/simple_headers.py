"""Connect's default header converter, which infers the types of values from text.

Source: SimpleHeaderConverter (Kafka 4.3.0).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from typing_extensions import override

from kraal.config.key import ConfigDef
from kraal.core.connect_version import CONNECT_VERSION
from kraal.plugins.api import HeaderConverter
from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import Schema, Type
from kraal.plugins.values.text import convert_to_string, parse_string

log = logging.getLogger(__name__)

SIMPLE_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

_BYTES: Final = Schema(type=Type.BYTES)


class SimpleHeaderConverter(HeaderConverter):
    """Converts header values to text and back, like Java's `Values`. It has no config keys."""

    version: ClassVar[str] = CONNECT_VERSION
    config_def: ClassVar[ConfigDef] = ConfigDef()
    reads_any_header: ClassVar[bool] = True

    @override
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        del config, is_key

    @override
    def encode_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        del topic, name, schema
        text = convert_to_string(value)
        return None if text is None else text.encode("utf-8", "replace")

    @override
    def decode_header(self, topic: str, name: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        try:
            return parse_string(data.decode("utf-8", "replace"))
        except (DataException, RecursionError, OverflowError) as exc:
            log.warning("Passing header %s of topic %s as bytes: %s", name, topic, exc)
            return _BYTES, data
