"""Config keys of ProtobufConverter. Implements https://docs.confluent.io/platform/current/schema-registry/connect.html."""

from __future__ import annotations

from typing import Final

from kraal.config.key import ConfigDef
from kraal.converters.schema_registry.config import REGISTRY_KEYS, flag

PROTOBUF_CONVERTER: Final = ConfigDef(
    [
        *REGISTRY_KEYS,
        flag(
            "enhanced.protobuf.schema.support",
            "Keep packages in the names of messages, enums and unions.",
            "ProtobufDataConfig.ENHANCED_PROTOBUF_SCHEMA_SUPPORT_CONFIG",
        ),
        flag(
            "scrub.invalid.names",
            "Replace in names what Protobuf does not take.",
            "ProtobufDataConfig.SCRUB_INVALID_NAMES_CONFIG",
        ),
        flag(
            "int.for.enums",
            "Read enums as numbers, not as text.",
            "ProtobufDataConfig.INT_FOR_ENUMS_CONFIG",
        ),
        flag(
            "optional.for.nullables",
            "Optional fields have the word optional, and others are required.",
            "ProtobufDataConfig.OPTIONAL_FOR_NULLABLES_CONFIG",
        ),
        flag(
            "optional.for.proto2",
            "What is optional in proto2 is null where it is absent.",
            "ProtobufDataConfig.OPTIONAL_FOR_PROTO2_CONFIG",
            default=True,
        ),
        flag(
            "wrapper.for.nullables",
            "Optional fields are Google's wrappers, such as StringValue, and others are required.",
            "ProtobufDataConfig.WRAPPER_FOR_NULLABLES_CONFIG",
        ),
        flag(
            "wrapper.for.raw.primitives",
            "Read a wrapper as the value that it holds.",
            "ProtobufDataConfig.WRAPPER_FOR_RAW_PRIMITIVES_CONFIG",
            default=True,
        ),
        flag(
            "generate.struct.for.nulls",
            "Read messages that are absent as messages whose fields are absent, not as null.",
            "ProtobufDataConfig.GENERATE_STRUCT_FOR_NULLS_CONFIG",
        ),
        flag(
            "generate.index.for.unions",
            "Names of fields that stand for a oneof end with its number, such as kind_0.",
            "ProtobufDataConfig.GENERATE_INDEX_FOR_UNIONS_CONFIG",
            default=True,
        ),
        flag(
            "flatten.unions",
            "Read the members of a oneof as fields of the record.",
            "ProtobufDataConfig.FLATTEN_UNIONS_CONFIG",
        ),
    ]
)
