"""The config keys that all connectors have, in addition to those of the plugin. Source: ConnectorConfig (Kafka 4.4.0).

`CONNECTOR` contains the keys without the defaults that depend on a worker. `kraal.plugins.validation.validate` adds
these defaults: the worker's converters, and the installed version for each `….plugin.version`.
"""

from __future__ import annotations

from typing import Final

from kraal.config.checks import Check, at_least, clean_name, one_of, unique_aliases
from kraal.config.key import REQUIRED, ConfigDef, ConfigType, Importance, Key, Width
from kraal.config.key_families import Family

NAME: Final = "name"
CONNECTOR_CLASS: Final = "connector.class"
CONNECTOR_VERSION: Final = "connector.plugin.version"
TASKS_MAX: Final = "tasks.max"
TASKS_MAX_ENFORCE: Final = "tasks.max.enforce"
KEY_CONVERTER: Final = "key.converter"
VALUE_CONVERTER: Final = "value.converter"
HEADER_CONVERTER: Final = "header.converter"
TRANSFORMS: Final = "transforms"
PREDICATES: Final = "predicates"
VERSION_SUFFIX: Final = ".plugin.version"
"""Suffix of the key that pins the version of a plugin (KIP-891)."""

PRODUCER_OVERRIDE: Final = "producer.override."
CONSUMER_OVERRIDE: Final = "consumer.override."
ADMIN_OVERRIDE: Final = "admin.override."

COMMON: Final = "Common"
TRANSFORMS_GROUP: Final = "Transforms"
PREDICATES_GROUP: Final = "Predicates"
ERRORS: Final = "Error Handling"


def _key(
    name: str,
    kind: ConfigType,
    importance: Importance,
    width: Width,
    display_name: str,
    *,
    doc: str,
    default: object = None,
    order: int,
    group: str = COMMON,
    validator: Check | None = None,
) -> Key:
    """Declare a key of ConnectorConfig."""
    return Key(
        name=name,
        type=kind,
        default=default,
        validator=validator,
        importance=importance,
        doc=doc,
        group=group,
        order=order,
        width=width,
        display_name=display_name,
        source="ConnectorConfig",
    )


_STRING, _INT, _LONG, _BOOLEAN = ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN
_LIST, _CLASS = ConfigType.LIST, ConfigType.CLASS
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_S, _M, _L = Width.SHORT, Width.MEDIUM, Width.LONG


def _converter_keys(role: str, order: int) -> list[Key]:
    """Declare the keys of a converter's class and version; `role` is key, value or header."""
    title, name = role.capitalize(), f"{role}.converter"
    subject = "each header's value" if role == "header" else f"each record's {role}"
    doc = f"Class that converts {subject} to bytes in Kafka and back. Default: the worker's converter."
    version_doc = f"Required version of the {role} converter; usually omitted."
    return [
        _key(
            name, _CLASS, _LOW, _S, f"{title} converter class", order=order, doc=doc,
        ),
        _key(
            name + VERSION_SUFFIX, _STRING, _LOW, _S, f"{title} converter version",
            order=order + 1, doc=version_doc,
        ),
    ]  # fmt: skip


_COMMON_KEYS = [
    _key(
        NAME, _STRING, _HIGH, _M, "Connector name", default=REQUIRED, order=1, validator=clean_name,
        doc="Name of the connector, unique in its cluster.",
    ),
    _key(
        CONNECTOR_CLASS, _STRING, _HIGH, _L, "Connector class", default=REQUIRED, order=2,
        doc="Class of the connector: its full name, its simple name, or its simple name without the suffix Connector.",
    ),
    _key(
        CONNECTOR_VERSION, _STRING, _MEDIUM, _M, "Connector version", order=3,
        doc="Required version of the connector's plugin; usually omitted.",
    ),
    _key(
        TASKS_MAX, _INT, _HIGH, _S, "Tasks max", default=1, order=4, validator=at_least(1),
        doc="Maximum number of tasks of the connector.",
    ),
    _key(
        TASKS_MAX_ENFORCE, _BOOLEAN, _LOW, _S, "Enforce tasks max", default=True, order=5,
        doc="Whether a connector that creates more tasks than tasks.max fails; otherwise a warning is logged.",
    ),
    *_converter_keys("key", 6),
    *_converter_keys("value", 8),
    *_converter_keys("header", 10),
    _key(
        TRANSFORMS, _LIST, _LOW, _L, "Transforms", default=(), order=12, group=TRANSFORMS_GROUP,
        validator=unique_aliases, doc="Names of the transforms to apply to records, in this order.",
    ),
    _key(
        PREDICATES, _LIST, _LOW, _L, "Predicates", default=(), order=13, group=PREDICATES_GROUP,
        validator=unique_aliases, doc="Names of the predicates that transforms can refer to.",
    ),
    _key(
        "config.action.reload", _STRING, _LOW, _M, "Reload Action", default="restart", order=14,
        validator=one_of("none", "restart"),
        doc="What to do when a config provider reports that a value has expired: restart the connector (restart), or "
        "nothing (none).",
    ),
]  # fmt: skip

ERROR_KEYS: Final = ConfigDef([
    _key(
        "errors.retry.timeout", _LONG, _MEDIUM, _M, "Retry Timeout for Errors", default=0, order=1,
        group=ERRORS,
        doc="How long to retry a failed operation, in milliseconds. 0 disables retries; -1 retries without a limit.",
    ),
    _key(
        "errors.retry.delay.max.ms", _LONG, _MEDIUM, _M, "Maximum Delay Between Retries for Errors",
        default=60_000, order=2, group=ERRORS,
        doc="Maximum delay between two retries, in milliseconds.",
    ),
    _key(
        "errors.tolerance", _STRING, _MEDIUM, _S, "Error Tolerance", default="none", order=3, group=ERRORS,
        validator=one_of("none", "all"),
        doc="Whether a record that cannot be processed fails its task (none) or is skipped (all).",
    ),
    _key(
        "errors.log.enable", _BOOLEAN, _MEDIUM, _S, "Log Errors", default=False, order=4, group=ERRORS,
        doc="Whether to log each failed operation, including tolerated ones.",
    ),
    _key(
        "errors.log.include.messages", _BOOLEAN, _MEDIUM, _S, "Log Error Details", default=False, order=5,
        group=ERRORS,
        doc="Whether to log the contents of the record, which may be confidential, in addition to its topic, partition "
        "and offset.",
    ),
])  # fmt: skip
"""The keys for the handling of record errors."""

CONNECTOR: Final = ConfigDef([*_COMMON_KEYS, *ERROR_KEYS])

CONNECTOR_FAMILIES: Final = (
    Family(prefix="key.converter.", doc="Settings of the connector's key converter, if it sets one."),
    Family(prefix="value.converter.", doc="Settings of the connector's value converter, if it sets one."),
    Family(
        prefix="header.converter.", doc="Settings of the connector's header converter, if it sets one.",
    ),
    Family(prefix="transforms.", rest="NAME.type", doc="Class of the transform NAME."),
    Family(
        prefix="transforms.", rest="NAME.KEY",
        doc="A setting of the transform NAME. The settings predicate and negate select the records to transform.",
    ),
    Family(prefix="predicates.", rest="NAME.type", doc="Class of the predicate NAME."),
    Family(prefix="predicates.", rest="NAME.KEY", doc="A setting of the predicate NAME."),
)  # fmt: skip
"""Families of keys of all connectors, by prefix."""
