"""Config keys of JsonSchemaConverter. Implements https://docs.confluent.io/platform/current/schema-registry/connect.html."""

from __future__ import annotations

from typing import Final

from kraal.config.checks import one_of_ignoring_case
from kraal.config.key import ConfigDef, ConfigType, Importance, Key
from kraal.converters.schema_registry.config import REGISTRY_KEYS, flag

DECIMAL_FORMAT: Final = "decimal.format"
FAIL_INVALID: Final = "json.fail.invalid.schema"

JSON_SCHEMA_CONVERTER: Final = ConfigDef(
    [
        *REGISTRY_KEYS,
        flag(
            "object.additional.properties",
            "Let the schemas of records allow more properties than they name.",
            "JsonSchemaDataConfig.OBJECT_ADDITIONAL_PROPERTIES_CONFIG",
            default=True,
        ),
        flag(
            "use.optional.for.nonrequired",
            "Read properties that a schema does not require as optional.",
            "JsonSchemaDataConfig.USE_OPTIONAL_FOR_NON_REQUIRED_CONFIG",
        ),
        Key(
            name=DECIMAL_FORMAT,
            type=ConfigType.STRING,
            default="BASE64",
            validator=one_of_ignoring_case("BASE64", "NUMERIC"),
            importance=Importance.LOW,
            doc="Write decimals as text with the unscaled value in base64, or as numbers.",
            source="JsonSchemaDataConfig.DECIMAL_FORMAT_CONFIG",
        ),
        flag(
            "flatten.singleton.unions",
            "Read a union of one schema as that schema.",
            "JsonSchemaDataConfig.FLATTEN_SINGLETON_UNIONS_CONFIG",
            default=True,
            importance=Importance.LOW,
        ),
        flag(
            "preserve.additional.properties",
            "Keep properties that the schema does not name.",
            "JsonSchemaDataConfig.PRESERVE_ADDITIONAL_PROPERTIES_CONFIG",
            supported=False,
        ),
        flag(
            FAIL_INVALID,
            "Check values against their JSON Schema, when they are written and when they are read.",
            "KafkaJsonSchemaSerializerConfig.FAIL_INVALID_SCHEMA",
        ),
        flag(
            "json.indent.output",
            "Write JSON in lines.",
            "KafkaJsonSchemaSerializerConfig.JSON_INDENT_OUTPUT",
            supported=False,
        ),
    ]
)
