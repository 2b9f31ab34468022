"""The keys of the converters that ship. Source: ConverterConfig and its subclasses (Kafka 4.3.0)."""

from __future__ import annotations

from typing import Final

from kraal.config.checks import one_of, one_of_ignoring_case
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Width

CONVERTER_TYPE: Final = "converter.type"
"""What a converter is used for: key, value or header. The runtime sets it."""

_TYPE = Key(
    name=CONVERTER_TYPE,
    type=ConfigType.STRING,
    validator=one_of("key", "value", "header"),
    importance=Importance.LOW,
    doc="What the converter is used for; set by the worker.",
    source="ConverterConfig.TYPE_CONFIG",
)

_SCHEMAS, _SERIALIZATION = "Schemas", "Serialization"

BYTE_ARRAY_CONVERTER: Final = ConfigDef([_TYPE])
BOOLEAN_CONVERTER: Final = ConfigDef([_TYPE])
NUMBER_CONVERTER: Final = ConfigDef([_TYPE])

STRING_CONVERTER: Final = ConfigDef(
    [
        _TYPE,
        Key(
            name="converter.encoding",
            type=ConfigType.STRING,
            default="UTF-8",
            importance=Importance.HIGH,
            doc="The character set of the text.",
            width=Width.MEDIUM,
            display_name="Encoding",
            source="StringConverterConfig.ENCODING_CONFIG",
        ),
    ]
)

JSON_CONVERTER: Final = ConfigDef(
    [
        _TYPE,
        Key(
            name="schemas.enable",
            type=ConfigType.BOOLEAN,
            default=True,
            importance=Importance.HIGH,
            doc="Wrap each value in an object that holds its schema as well.",
            group=_SCHEMAS,
            order=0,
            width=Width.MEDIUM,
            display_name="Enable Schemas",
            source="JsonConverterConfig.SCHEMAS_ENABLE_CONFIG",
        ),
        Key(
            name="schemas.cache.size",
            type=ConfigType.INT,
            default=1000,
            importance=Importance.HIGH,
            doc="How many schemas to remember.",
            group=_SCHEMAS,
            order=1,
            width=Width.MEDIUM,
            display_name="Schema Cache Size",
            source="JsonConverterConfig.SCHEMAS_CACHE_SIZE_CONFIG",
        ),
        Key(
            name="schema.content",
            type=ConfigType.STRING,
            default=None,
            importance=Importance.HIGH,
            doc="One schema for all values, which then come without their own.",
            group=_SCHEMAS,
            order=2,
            width=Width.MEDIUM,
            display_name="Schema Content",
            source="JsonConverterConfig.SCHEMA_CONTENT_CONFIG",
        ),
        Key(
            name="decimal.format",
            type=ConfigType.STRING,
            default="BASE64",
            validator=one_of_ignoring_case("NUMERIC", "BASE64"),
            importance=Importance.LOW,
            doc="How decimals are written: as base64 of their bytes, or as a number.",
            group=_SERIALIZATION,
            order=0,
            width=Width.MEDIUM,
            display_name="Decimal Format",
            source="JsonConverterConfig.DECIMAL_FORMAT_CONFIG",
        ),
        Key(
            name="replace.null.with.default",
            type=ConfigType.BOOLEAN,
            default=True,
            importance=Importance.LOW,
            doc="Write a field's default where it is null and its schema has a default.",
            group=_SERIALIZATION,
            order=1,
            width=Width.MEDIUM,
            display_name="Replace null with default",
            source="JsonConverterConfig.REPLACE_NULL_WITH_DEFAULT_CONFIG",
        ),
    ]
)
