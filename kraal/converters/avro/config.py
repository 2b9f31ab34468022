"""Config keys of AvroConverter. Implements https://docs.confluent.io/platform/current/schema-registry/connect.html."""

from __future__ import annotations

from typing import Final

from kraal.config.key import ConfigDef, Importance
from kraal.converters.schema_registry.config import REGISTRY_KEYS, make_flag_key

AVRO_CONVERTER: Final = ConfigDef(
    [
        *REGISTRY_KEYS,
        make_flag_key(
            "enhanced.avro.schema.support",
            "Whether to preserve enums, and to use full names for fields of unions.",
            "AvroDataConfig.ENHANCED_AVRO_SCHEMA_SUPPORT_CONFIG",
        ),
        make_flag_key(
            "scrub.invalid.names",
            "Whether to replace characters that Avro does not allow in names.",
            "AvroDataConfig.SCRUB_INVALID_NAMES_CONFIG",
        ),
        make_flag_key(
            "connect.meta.data",
            "Whether to add Connect's schema properties, such as name and version, to the Avro schema.",
            "AvroDataConfig.CONNECT_META_DATA_CONFIG",
            default=True,
            importance=Importance.LOW,
        ),
        make_flag_key(
            "allow.optional.map.keys",
            "Whether to write maps with optional string keys as Avro maps.",
            "AvroDataConfig.ALLOW_OPTIONAL_MAP_KEYS_CONFIG",
            importance=Importance.LOW,
        ),
        make_flag_key(
            "flatten.singleton.unions",
            "Whether to read a union of one type as that type.",
            "AvroDataConfig.FLATTEN_SINGLETON_UNIONS_CONFIG",
            default=True,
            importance=Importance.LOW,
        ),
        make_flag_key(
            "discard.type.doc.default",
            "Whether to keep documentation and defaults only of fields, not of types.",
            "AvroDataConfig.DISCARD_TYPE_DOC_DEFAULT_CONFIG",
            importance=Importance.LOW,
            is_supported=False,
        ),
    ]
)
