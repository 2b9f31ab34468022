"""Config keys of JsonSchemaConverter. Implements https://docs.confluent.io/platform/current/schema-registry/connect.html."""

from __future__ import annotations

from typing import Final

from kraal.config.checks import one_of_ignoring_case
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.converters.schema_registry.config import REGISTRY_KEYS, make_flag_key

DECIMAL_FORMAT: Final = "decimal.format"
FAIL_INVALID: Final = "json.fail.invalid.schema"

JSON_SCHEMA_CONVERTER: Final = ConfigDef(
    [
        *REGISTRY_KEYS,
        make_flag_key(
            "object.additional.properties",
            "Whether schemas of records allow additional properties.",
            "JsonSchemaDataConfig.OBJECT_ADDITIONAL_PROPERTIES_CONFIG",
            default=True,
        ),
        make_flag_key(
            "use.optional.for.nonrequired",
            "Whether to read properties that are not required as optional.",
            "JsonSchemaDataConfig.USE_OPTIONAL_FOR_NON_REQUIRED_CONFIG",
        ),
        Key(
            name=DECIMAL_FORMAT,
            type=ConfigType.STRING,
            default="BASE64",
            validator=one_of_ignoring_case("BASE64", "NUMERIC"),
            importance=Importance.LOW,
            doc="How decimals are written: as strings with the unscaled value in base64, or as numbers.",
            source="JsonSchemaDataConfig.DECIMAL_FORMAT_CONFIG",
        ),
        make_flag_key(
            "flatten.singleton.unions",
            "Whether to read a union of one schema as that schema.",
            "JsonSchemaDataConfig.FLATTEN_SINGLETON_UNIONS_CONFIG",
            default=True,
            importance=Importance.LOW,
        ),
        make_flag_key(
            "preserve.additional.properties",
            "Whether to keep properties that are not in the schema.",
            "JsonSchemaDataConfig.PRESERVE_ADDITIONAL_PROPERTIES_CONFIG",
            is_supported=False,
        ),
        make_flag_key(
            FAIL_INVALID,
            "Whether to validate values against their JSON Schema when they are written and read.",
            "KafkaJsonSchemaSerializerConfig.FAIL_INVALID_SCHEMA",
        ),
        make_flag_key(
            "json.indent.output",
            "Whether to indent JSON.",
            "KafkaJsonSchemaSerializerConfig.JSON_INDENT_OUTPUT",
            is_supported=False,
        ),
    ]
)
