"""The keys of the converters that have a schema registry.

Source: AbstractKafkaSchemaSerDeConfig, AbstractDataConfig, AvroDataConfig, ProtobufDataConfig, JsonSchemaDataConfig
(Confluent Schema Registry 8).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from kraal.config.checks import at_least, one_of, one_of_ignoring_case, rule
from kraal.config.converters import CONVERTER_TYPE
from kraal.config.key import ConfigDef, ConfigType, Importance, Key

URL: Final = "schema.registry.url"
CREDENTIALS_SOURCE: Final = "basic.auth.credentials.source"
USER_INFO: Final = "basic.auth.user.info"
TOKEN_SOURCE: Final = "bearer.auth.credentials.source"  # noqa: S105 - the name of a key
TOKEN: Final = "bearer.auth.token"  # noqa: S105 - the same
AUTO_REGISTER: Final = "auto.register.schemas"
USE_LATEST: Final = "use.latest.version"
LATEST_TTL: Final = "latest.cache.ttl.sec"
NORMALIZE: Final = "normalize.schemas"
CACHE: Final = "schemas.cache.config"
TIMEOUT: Final = "http.read.timeout.ms"
RETRIES: Final = "max.retries"
RETRY_WAIT: Final = "retries.wait.ms"
RETRY_MOST: Final = "retries.max.wait.ms"
IGNORE_DEFAULTS: Final = "ignore.default.for.nullables"

_STRATEGIES: Final = "io.confluent.kafka.serializers.subject."
TOPIC_NAME: Final = f"{_STRATEGIES}TopicNameStrategy"
RECORD_NAME: Final = f"{_STRATEGIES}RecordNameStrategy"
TOPIC_RECORD_NAME: Final = f"{_STRATEGIES}TopicRecordNameStrategy"


@rule("addresses that begin with `http://` or `https://`")
def _addresses(name: str, value: object) -> str | None:
    urls = value if isinstance(value, tuple) else ()
    if not urls:
        return f"Invalid value {value} for configuration {name}: an address is needed"
    for url in urls:
        parts = urlsplit(str(url))
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            shown = str(url).rpartition("@")[2]  # what stands before it may be a password
            return f"Invalid value {shown} for configuration {name}: it must begin with http:// or https://"
    return None


@rule("`false`")
def _only_false(name: str, value: object) -> str | None:
    if value is True:
        return f"Invalid value true for configuration {name}: it is not supported here, only false is"
    return None


def _strategy(part: str) -> Key:
    return Key(
        name=f"{part}.subject.name.strategy",
        type=ConfigType.CLASS,
        default=TOPIC_NAME,
        validator=one_of(TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME),
        doc=f"What the subject of a {part}'s schema is called: after the topic, the record's type, or both.",
        source=f"AbstractKafkaSchemaSerDeConfig.{part.upper()}_SUBJECT_NAME_STRATEGY",
    )


def _flag(
    name: str,
    doc: str,
    source: str,
    *,
    default: bool = False,
    importance: Importance = Importance.MEDIUM,
    supported: bool = True,
) -> Key:
    return Key(
        name=name,
        type=ConfigType.BOOLEAN,
        default=default,
        validator=None if supported else _only_false,
        importance=importance,
        doc=doc,
        source=source,
    )


def _number(name: str, default: int, minimum: int, doc: str, source: str) -> Key:
    return Key(
        name=name,
        type=ConfigType.INT,
        default=default,
        validator=at_least(minimum),
        importance=Importance.LOW,
        doc=doc,
        source=source,
    )


_SERDE: Final = "AbstractKafkaSchemaSerDeConfig."

_COMMON: Final = (
    Key(
        name=CONVERTER_TYPE,
        type=ConfigType.STRING,
        default="value",
        validator=one_of("key", "value", "header"),
        importance=Importance.LOW,
        doc="What the converter is used for; set by the worker.",
        source="ConverterConfig.TYPE_CONFIG",
    ),
    Key(
        name=URL,
        type=ConfigType.LIST,
        validator=_addresses,
        importance=Importance.HIGH,
        doc="Addresses of schema registries, tried one after the other.",
        source=f"{_SERDE}SCHEMA_REGISTRY_URL_CONFIG",
    ),
    Key(
        name=CREDENTIALS_SOURCE,
        type=ConfigType.STRING,
        default="URL",
        validator=one_of("URL", "USER_INFO"),
        doc=f"Where user and password come from: from the address, or from {USER_INFO}.",
        source=f"{_SERDE}BASIC_AUTH_CREDENTIALS_SOURCE",
    ),
    Key(
        name=USER_INFO,
        type=ConfigType.PASSWORD,
        default=None,
        doc="User and password for the registry, as user:password.",
        source=f"{_SERDE}USER_INFO_CONFIG",
    ),
    Key(
        name=TOKEN_SOURCE,
        type=ConfigType.STRING,
        default="",
        validator=one_of("", "STATIC_TOKEN"),
        doc=f"Where a bearer token comes from: nowhere, or from {TOKEN}.",
        source=f"{_SERDE}BEARER_AUTH_CREDENTIALS_SOURCE",
    ),
    Key(
        name=TOKEN,
        type=ConfigType.PASSWORD,
        default=None,
        doc="The bearer token for the registry.",
        source=f"{_SERDE}BEARER_AUTH_TOKEN_CONFIG",
    ),
    _flag(
        AUTO_REGISTER,
        "Register a schema that the registry does not have.",
        f"{_SERDE}AUTO_REGISTER_SCHEMAS",
        default=True,
    ),
    _flag(
        USE_LATEST,
        f"Write with the latest schema of the subject, where {AUTO_REGISTER} is false.",
        f"{_SERDE}USE_LATEST_VERSION",
        importance=Importance.LOW,
    ),
    _number(
        LATEST_TTL, -1, -1, "Seconds for which a subject's latest schema is remembered; -1: for good.",
        f"{_SERDE}LATEST_CACHE_TTL",
    ),
    _flag(
        NORMALIZE,
        "Have the registry compare schemas in their normal form.",
        f"{_SERDE}NORMALIZE_SCHEMAS",
    ),
    _strategy("key"),
    _strategy("value"),
    _number(CACHE, 1000, 1, "How many schemas to remember.", "AbstractDataConfig.SCHEMAS_CACHE_SIZE_CONFIG"),
    _number(
        TIMEOUT, 60_000, 1, "Milliseconds to wait for the registry's answer.",
        "SchemaRegistryClientConfig.HTTP_READ_TIMEOUT_MS",
    ),
    _number(RETRIES, 3, 0, "How often a request that failed is tried again.", f"{_SERDE}MAX_RETRIES"),
    _number(RETRY_WAIT, 1000, 0, "Milliseconds before the first try again.", f"{_SERDE}RETRIES_WAIT_MS"),
    _number(RETRY_MOST, 20_000, 0, "Milliseconds between two tries at most.", f"{_SERDE}RETRIES_MAX_WAIT_MS"),
    _flag(
        IGNORE_DEFAULTS,
        "Write null where a field is null and its schema has a default.",
        "AbstractDataConfig.IGNORE_DEFAULT_FOR_NULLABLES_CONFIG",
    ),
    _flag(
        "generalized.sum.type.support",
        "Enums and unions that other formats read as well.",
        "AbstractDataConfig.GENERALIZED_SUM_TYPE_SUPPORT_CONFIG",
        supported=False,
    ),
)  # fmt: skip

AVRO_CONVERTER: Final = ConfigDef(
    [
        *_COMMON,
        _flag(
            "enhanced.avro.schema.support",
            "Keep enums as enums, and call fields of unions by full names.",
            "AvroDataConfig.ENHANCED_AVRO_SCHEMA_SUPPORT_CONFIG",
        ),
        _flag(
            "scrub.invalid.names",
            "Replace in names what Avro does not take.",
            "AvroDataConfig.SCRUB_INVALID_NAMES_CONFIG",
        ),
        _flag(
            "connect.meta.data",
            "Write Connect's facts of a schema, such as its name and version, beside Avro's.",
            "AvroDataConfig.CONNECT_META_DATA_CONFIG",
            default=True,
            importance=Importance.LOW,
        ),
        _flag(
            "allow.optional.map.keys",
            "Write maps whose keys are optional text as Avro's maps.",
            "AvroDataConfig.ALLOW_OPTIONAL_MAP_KEYS_CONFIG",
            importance=Importance.LOW,
        ),
        _flag(
            "flatten.singleton.unions",
            "Read a union of one type as that type.",
            "AvroDataConfig.FLATTEN_SINGLETON_UNIONS_CONFIG",
            default=True,
            importance=Importance.LOW,
        ),
        _flag(
            "discard.type.doc.default",
            "Keep the documentation and defaults of fields only.",
            "AvroDataConfig.DISCARD_TYPE_DOC_DEFAULT_CONFIG",
            importance=Importance.LOW,
            supported=False,
        ),
    ]
)

PROTOBUF_CONVERTER: Final = ConfigDef(
    [
        *_COMMON,
        _flag(
            "enhanced.protobuf.schema.support",
            "Keep packages in the names of messages, enums and unions.",
            "ProtobufDataConfig.ENHANCED_PROTOBUF_SCHEMA_SUPPORT_CONFIG",
        ),
        _flag(
            "scrub.invalid.names",
            "Replace in names what Protobuf does not take.",
            "ProtobufDataConfig.SCRUB_INVALID_NAMES_CONFIG",
        ),
        _flag(
            "int.for.enums",
            "Read enums as numbers, not as text.",
            "ProtobufDataConfig.INT_FOR_ENUMS_CONFIG",
        ),
        _flag(
            "optional.for.nullables",
            "Optional fields have the word optional, and others are required.",
            "ProtobufDataConfig.OPTIONAL_FOR_NULLABLES_CONFIG",
        ),
        _flag(
            "optional.for.proto2",
            "What is optional in proto2 is null where it is absent.",
            "ProtobufDataConfig.OPTIONAL_FOR_PROTO2_CONFIG",
            default=True,
        ),
        _flag(
            "wrapper.for.nullables",
            "Optional fields are Google's wrappers, such as StringValue, and others are required.",
            "ProtobufDataConfig.WRAPPER_FOR_NULLABLES_CONFIG",
        ),
        _flag(
            "wrapper.for.raw.primitives",
            "Read a wrapper as the value that it holds.",
            "ProtobufDataConfig.WRAPPER_FOR_RAW_PRIMITIVES_CONFIG",
            default=True,
        ),
        _flag(
            "generate.struct.for.nulls",
            "Read messages that are absent as messages whose fields are absent, not as null.",
            "ProtobufDataConfig.GENERATE_STRUCT_FOR_NULLS_CONFIG",
        ),
        _flag(
            "generate.index.for.unions",
            "Names of fields that stand for a oneof end with its number, such as kind_0.",
            "ProtobufDataConfig.GENERATE_INDEX_FOR_UNIONS_CONFIG",
            default=True,
        ),
        _flag(
            "flatten.unions",
            "Read the members of a oneof as fields of the record.",
            "ProtobufDataConfig.FLATTEN_UNIONS_CONFIG",
        ),
    ]
)

DECIMAL_FORMAT: Final = "decimal.format"

JSON_SCHEMA_CONVERTER: Final = ConfigDef(
    [
        *_COMMON,
        _flag(
            "object.additional.properties",
            "Let the schemas of records allow more properties than they name.",
            "JsonSchemaDataConfig.OBJECT_ADDITIONAL_PROPERTIES_CONFIG",
            default=True,
        ),
        _flag(
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
        _flag(
            "flatten.singleton.unions",
            "Read a union of one schema as that schema.",
            "JsonSchemaDataConfig.FLATTEN_SINGLETON_UNIONS_CONFIG",
            default=True,
            importance=Importance.LOW,
        ),
        _flag(
            "preserve.additional.properties",
            "Keep properties that the schema does not name.",
            "JsonSchemaDataConfig.PRESERVE_ADDITIONAL_PROPERTIES_CONFIG",
            supported=False,
        ),
        _flag(
            "json.fail.invalid.schema",
            "Check values against their schema.",
            "KafkaJsonSchemaSerializerConfig.FAIL_INVALID_SCHEMA",
            supported=False,
        ),
        _flag(
            "json.indent.output",
            "Write JSON in lines.",
            "KafkaJsonSchemaSerializerConfig.JSON_INDENT_OUTPUT",
            supported=False,
        ),
    ]
)
