"""Config keys of AvroConverter. Implements https://docs.confluent.io/platform/current/schema-registry/connect.html."""

from __future__ import annotations

from typing import Final

from kraal.config.key import ConfigDef, Importance
from kraal.converters.schema_registry.config import REGISTRY_KEYS, flag

AVRO_CONVERTER: Final = ConfigDef(
    [
        *REGISTRY_KEYS,
        flag(
            "enhanced.avro.schema.support",
            "Keep enums as enums, and call fields of unions by full names.",
            "AvroDataConfig.ENHANCED_AVRO_SCHEMA_SUPPORT_CONFIG",
        ),
        flag(
            "scrub.invalid.names",
            "Replace in names what Avro does not take.",
            "AvroDataConfig.SCRUB_INVALID_NAMES_CONFIG",
        ),
        flag(
            "connect.meta.data",
            "Write Connect's facts of a schema, such as its name and version, beside Avro's.",
            "AvroDataConfig.CONNECT_META_DATA_CONFIG",
            default=True,
            importance=Importance.LOW,
        ),
        flag(
            "allow.optional.map.keys",
            "Write maps whose keys are optional text as Avro's maps.",
            "AvroDataConfig.ALLOW_OPTIONAL_MAP_KEYS_CONFIG",
            importance=Importance.LOW,
        ),
        flag(
            "flatten.singleton.unions",
            "Read a union of one type as that type.",
            "AvroDataConfig.FLATTEN_SINGLETON_UNIONS_CONFIG",
            default=True,
            importance=Importance.LOW,
        ),
        flag(
            "discard.type.doc.default",
            "Keep the documentation and defaults of fields only.",
            "AvroDataConfig.DISCARD_TYPE_DOC_DEFAULT_CONFIG",
            importance=Importance.LOW,
            supported=False,
        ),
    ]
)
