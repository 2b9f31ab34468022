"""Config keys of ProtobufConverter. Implements https://docs.confluent.io/platform/current/schema-registry/connect.html."""

from __future__ import annotations

from typing import Final

from kraal.config.key import ConfigDef
from kraal.converters.schema_registry.config import REGISTRY_KEYS, make_flag_key

PROTOBUF_CONVERTER: Final = ConfigDef(
    [
        *REGISTRY_KEYS,
        make_flag_key(
            "enhanced.protobuf.schema.support",
            "Whether to keep packages in the names of messages, enums and unions.",
            "ProtobufDataConfig.ENHANCED_PROTOBUF_SCHEMA_SUPPORT_CONFIG",
        ),
        make_flag_key(
            "scrub.invalid.names",
            "Whether to replace characters that Protobuf does not allow in names.",
            "ProtobufDataConfig.SCRUB_INVALID_NAMES_CONFIG",
        ),
        make_flag_key(
            "int.for.enums",
            "Whether to read enums as numbers instead of strings.",
            "ProtobufDataConfig.INT_FOR_ENUMS_CONFIG",
        ),
        make_flag_key(
            "optional.for.nullables",
            "Whether optional fields are declared optional. If so, all other fields are required.",
            "ProtobufDataConfig.OPTIONAL_FOR_NULLABLES_CONFIG",
        ),
        make_flag_key(
            "optional.for.proto2",
            "Whether absent optional fields of proto2 are null.",
            "ProtobufDataConfig.OPTIONAL_FOR_PROTO2_CONFIG",
            default=True,
        ),
        make_flag_key(
            "wrapper.for.nullables",
            "Whether optional fields use Google's wrapper types, such as StringValue. If so, all "
            "other fields are required.",
            "ProtobufDataConfig.WRAPPER_FOR_NULLABLES_CONFIG",
        ),
        make_flag_key(
            "wrapper.for.raw.primitives",
            "Whether to read a wrapper as the value that it contains.",
            "ProtobufDataConfig.WRAPPER_FOR_RAW_PRIMITIVES_CONFIG",
            default=True,
        ),
        make_flag_key(
            "generate.struct.for.nulls",
            "Whether to read absent messages as messages without fields instead of null.",
            "ProtobufDataConfig.GENERATE_STRUCT_FOR_NULLS_CONFIG",
        ),
        make_flag_key(
            "generate.index.for.unions",
            "Whether names of fields that represent a oneof end with the index of the oneof, such as kind_0.",
            "ProtobufDataConfig.GENERATE_INDEX_FOR_UNIONS_CONFIG",
            default=True,
        ),
        make_flag_key(
            "flatten.unions",
            "Whether to read the members of a oneof as fields of the record.",
            "ProtobufDataConfig.FLATTEN_UNIONS_CONFIG",
        ),
    ]
)
