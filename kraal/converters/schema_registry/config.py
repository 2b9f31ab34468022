"""Config keys that all converters with a schema registry share.

Implements https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from kraal.config.checks import at_least, one_of, rule
from kraal.config.converter import CONVERTER_TYPE_KEY
from kraal.config.key import ConfigType, Importance, Key

URL: Final = "schema.registry.url"
CREDENTIALS_SOURCE: Final = "basic.auth.credentials.source"
USER_INFO: Final = "basic.auth.user.info"
TOKEN_SOURCE: Final = "bearer.auth.credentials.source"  # noqa: S105 - the name of a key
TOKEN: Final = "bearer.auth.token"  # noqa: S105 - as above
AUTO_REGISTER: Final = "auto.register.schemas"
USE_LATEST: Final = "use.latest.version"
LATEST_TTL: Final = "latest.cache.ttl.sec"
NORMALIZE: Final = "normalize.schemas"
CACHE: Final = "schemas.cache.config"
TIMEOUT: Final = "http.read.timeout.ms"
RETRIES: Final = "max.retries"
RETRY_WAIT: Final = "retries.wait.ms"
RETRY_MAX_WAIT: Final = "retries.max.wait.ms"
IGNORE_DEFAULTS: Final = "ignore.default.for.nullables"

_STRATEGIES: Final = "io.confluent.kafka.serializers.subject."
TOPIC_NAME: Final = f"{_STRATEGIES}TopicNameStrategy"
RECORD_NAME: Final = f"{_STRATEGIES}RecordNameStrategy"
TOPIC_RECORD_NAME: Final = f"{_STRATEGIES}TopicRecordNameStrategy"


@rule("URLs that start with `http://` or `https://`")
def _validate_urls(name: str, value: object) -> str | None:
    urls = value if isinstance(value, tuple) else ()
    if not urls:
        return f"Invalid value {value} for configuration {name}: at least one URL is required"
    for url in urls:
        parts = urlsplit(str(url))
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            redacted_url = str(url).rpartition("@")[2]  # the part before the @ may contain a password
            return f"Invalid value {redacted_url} for configuration {name}: it must begin with http:// or https://"
    return None


@rule("`false`")
def _require_false(name: str, value: object) -> str | None:
    if value is True:
        return f"Invalid value true for configuration {name}: only false is supported"
    return None


def _make_strategy_key(part: str) -> Key:
    return Key(
        name=f"{part}.subject.name.strategy",
        type=ConfigType.CLASS,
        default=TOPIC_NAME,
        validator=one_of(TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME),
        doc=f"Subject of a {part}'s schema: named after the topic, the record's type, or both.",
        source=f"AbstractKafkaSchemaSerDeConfig.{part.upper()}_SUBJECT_NAME_STRATEGY",
    )


def make_flag_key(
    name: str,
    doc: str,
    source: str,
    *,
    default: bool = False,
    importance: Importance = Importance.MEDIUM,
    is_supported: bool = True,
) -> Key:
    """Declare a boolean key; an unsupported key accepts only `false`."""
    return Key(
        name=name,
        type=ConfigType.BOOLEAN,
        default=default,
        validator=None if is_supported else _require_false,
        importance=importance,
        doc=doc,
        source=source,
    )


def _make_number_key(name: str, default: int, minimum: int, doc: str, source: str) -> Key:
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

REGISTRY_KEYS: Final = (
    replace(CONVERTER_TYPE_KEY, default="value"),
    Key(
        name=URL,
        type=ConfigType.LIST,
        validator=_validate_urls,
        importance=Importance.HIGH,
        doc="URLs of schema registries, tried in this order.",
        source=f"{_SERDE}SCHEMA_REGISTRY_URL_CONFIG",
    ),
    Key(
        name=CREDENTIALS_SOURCE,
        type=ConfigType.STRING,
        default="URL",
        validator=one_of("URL", "USER_INFO"),
        doc=f"Source of user and password. URL: the URL of the registry; USER_INFO: {USER_INFO}.",
        source=f"{_SERDE}BASIC_AUTH_CREDENTIALS_SOURCE",
    ),
    Key(
        name=USER_INFO,
        type=ConfigType.PASSWORD,
        default=None,
        doc="User and password for the registry, in the form user:password.",
        source=f"{_SERDE}USER_INFO_CONFIG",
    ),
    Key(
        name=TOKEN_SOURCE,
        type=ConfigType.STRING,
        default="",
        validator=one_of("", "STATIC_TOKEN"),
        doc=f"Source of the bearer token. STATIC_TOKEN: {TOKEN}; empty: no bearer authentication.",
        source=f"{_SERDE}BEARER_AUTH_CREDENTIALS_SOURCE",
    ),
    Key(
        name=TOKEN,
        type=ConfigType.PASSWORD,
        default=None,
        doc="Bearer token for the registry.",
        source=f"{_SERDE}BEARER_AUTH_TOKEN_CONFIG",
    ),
    make_flag_key(
        AUTO_REGISTER,
        "Whether to register schemas that are not in the registry.",
        f"{_SERDE}AUTO_REGISTER_SCHEMAS",
        default=True,
    ),
    make_flag_key(
        USE_LATEST,
        f"Whether to write with the latest schema of the subject if {AUTO_REGISTER} is false.",
        f"{_SERDE}USE_LATEST_VERSION",
        importance=Importance.LOW,
    ),
    _make_number_key(
        LATEST_TTL, -1, -1, "Seconds for which the latest schema of a subject is cached; -1 means no limit.",
        f"{_SERDE}LATEST_CACHE_TTL",
    ),
    make_flag_key(
        NORMALIZE,
        "Whether the registry normalizes schemas before comparing them.",
        f"{_SERDE}NORMALIZE_SCHEMAS",
    ),
    _make_strategy_key("key"),
    _make_strategy_key("value"),
    _make_number_key(
        CACHE, 1000, 1, "Maximum number of cached schemas.",
        "AbstractDataConfig.SCHEMAS_CACHE_SIZE_CONFIG",
    ),
    _make_number_key(
        TIMEOUT, 60_000, 1, "Timeout for the registry's response, in milliseconds.",
        "SchemaRegistryClientConfig.HTTP_READ_TIMEOUT_MS",
    ),
    _make_number_key(RETRIES, 3, 0, "Maximum number of retries of a failed request.", f"{_SERDE}MAX_RETRIES"),
    _make_number_key(RETRY_WAIT, 1000, 0, "Milliseconds before the first retry.", f"{_SERDE}RETRIES_WAIT_MS"),
    _make_number_key(
        RETRY_MAX_WAIT, 20_000, 0, "Maximum milliseconds between two retries.",
        f"{_SERDE}RETRIES_MAX_WAIT_MS",
    ),
    make_flag_key(
        IGNORE_DEFAULTS,
        "Whether to write null instead of a field's default.",
        "AbstractDataConfig.IGNORE_DEFAULT_FOR_NULLABLES_CONFIG",
    ),
    make_flag_key(
        "generalized.sum.type.support",
        "Whether to represent enums and unions in a form that other formats can read as well.",
        "AbstractDataConfig.GENERALIZED_SUM_TYPE_SUPPORT_CONFIG",
        is_supported=False,
    ),
)  # fmt: skip
