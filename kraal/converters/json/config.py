"""Config keys of JsonConverter. Source: JsonConverterConfig (Kafka 4.4.0)."""

from __future__ import annotations

from typing import Final

from kraal.config.checks import one_of_ignoring_case
from kraal.config.converter import CONVERTER_TYPE_KEY
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Width

_SCHEMAS_GROUP, _SERIALIZATION_GROUP = "Schemas", "Serialization"

JSON_CONVERTER: Final = ConfigDef(
    [
        CONVERTER_TYPE_KEY,
        Key(
            name="schemas.enable",
            type=ConfigType.BOOLEAN,
            default=True,
            importance=Importance.HIGH,
            doc="Whether each value is wrapped in an object that also contains its schema.",
            group=_SCHEMAS_GROUP,
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
            doc="Maximum number of cached schemas.",
            group=_SCHEMAS_GROUP,
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
            doc="Schema of the data that is read, which must then not contain a schema. Applies only if "
            "schemas.enable is true, and not to writing.",
            group=_SCHEMAS_GROUP,
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
            doc="How decimals are written: as base64 of their bytes, or as numbers.",
            group=_SERIALIZATION_GROUP,
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
            doc="Whether to replace null with the default of the field.",
            group=_SERIALIZATION_GROUP,
            order=1,
            width=Width.MEDIUM,
            display_name="Replace null with default",
            source="JsonConverterConfig.REPLACE_NULL_WITH_DEFAULT_CONFIG",
        ),
    ]
)
