"""Config keys of the converters for strings, bytes, numbers and booleans.

Source: StringConverterConfig, NumberConverterConfig, BooleanConverterConfig (Kafka 4.4.0).
"""

from __future__ import annotations

from typing import Final

from kraal.config.converter import CONVERTER_TYPE_KEY
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Width

BYTE_ARRAY_CONVERTER: Final = ConfigDef([CONVERTER_TYPE_KEY])
BOOLEAN_CONVERTER: Final = ConfigDef([CONVERTER_TYPE_KEY])
NUMBER_CONVERTER: Final = ConfigDef([CONVERTER_TYPE_KEY])

STRING_CONVERTER: Final = ConfigDef(
    [
        CONVERTER_TYPE_KEY,
        Key(
            name="converter.encoding",
            type=ConfigType.STRING,
            default="UTF-8",
            importance=Importance.HIGH,
            doc="Character set of strings.",
            width=Width.MEDIUM,
            display_name="Encoding",
            source="StringConverterConfig.ENCODING_CONFIG",
        ),
    ]
)
