"""The keys of all connectors, in addition to the plugin's own. Source: ConnectorConfig (Kafka 4.3.0).

`CONNECTOR` is what is known without a worker. Under a worker the converters' keys have the worker's
converters as defaults, and each `….plugin.version` the version of what is
installed: `kraal.plugins.validation.validate` adds that.
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
"""Beside each key that names a plugin stands one that pins its version (KIP-891)."""

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
    """Declare one key of ConnectorConfig."""
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


def _converter(role: str, order: int) -> list[Key]:
    """Declare a converter's key and the key of its version; `role` is key, value or header."""
    title, name = role.capitalize(), f"{role}.converter"
    what = "each header's value" if role == "header" else f"each record's {role}"
    doc = f"The class that turns {what} into Kafka's bytes and back. Without it, the worker's own is used."
    pin = f"The version that the {role} converter must have; usually left out."
    return [
        _key(
            name, _CLASS, _LOW, _S, f"{title} converter class", order=order, doc=doc,
        ),
        _key(
            name + VERSION_SUFFIX, _STRING, _LOW, _S, f"{title} converter version",
            order=order + 1, doc=pin,
        ),
    ]  # fmt: skip


_COMMON_KEYS = [
    _key(
        NAME, _STRING, _HIGH, _M, "Connector name", default=REQUIRED, order=1, validator=clean_name,
        doc="The connector's name, unique in its cluster.",
    ),
    _key(
        CONNECTOR_CLASS, _STRING, _HIGH, _L, "Connector class", default=REQUIRED, order=2,
        doc="The connector's class: its full name, its last part, or that without the ending Connector.",
    ),
    _key(
        CONNECTOR_VERSION, _STRING, _MEDIUM, _M, "Connector version", order=3,
        doc="The version that the connector's plugin must have; usually left out.",
    ),
    _key(
        TASKS_MAX, _INT, _HIGH, _S, "Tasks max", default=1, order=4, validator=at_least(1),
        doc="The most tasks that the connector may split its work into.",
    ),
    _key(
        TASKS_MAX_ENFORCE, _BOOLEAN, _LOW, _S, "Enforce tasks max", default=True, order=5,
        doc="Fail a connector that asks for more tasks than tasks.max; otherwise only warn.",
    ),
    *_converter("key", 6),
    *_converter("value", 8),
    *_converter("header", 10),
    _key(
        TRANSFORMS, _LIST, _LOW, _L, "Transforms", default=(), order=12, group=TRANSFORMS_GROUP,
        validator=unique_aliases, doc="Names of the transforms that records pass through, in this order.",
    ),
    _key(
        PREDICATES, _LIST, _LOW, _L, "Predicates", default=(), order=13, group=PREDICATES_GROUP,
        validator=unique_aliases, doc="Names of the conditions that transforms may refer to.",
    ),
    _key(
        "config.action.reload", _STRING, _LOW, _M, "Reload Action", default="restart", order=14,
        validator=one_of("none", "restart"),
        doc="What to do when a config provider says that a value has expired: restart, or nothing (none).",
    ),
]  # fmt: skip

ERROR_KEYS: Final = ConfigDef([
    _key(
        "errors.retry.timeout", _LONG, _MEDIUM, _M, "Retry Timeout for Errors", default=0, order=1,
        group=ERRORS,
        doc="How many milliseconds to try a failed operation again; 0 does not, -1 never gives up.",
    ),
    _key(
        "errors.retry.delay.max.ms", _LONG, _MEDIUM, _M, "Maximum Delay Between Retries for Errors",
        default=60_000, order=2, group=ERRORS,
        doc="The longest wait between two tries, in milliseconds.",
    ),
    _key(
        "errors.tolerance", _STRING, _MEDIUM, _S, "Error Tolerance", default="none", order=3, group=ERRORS,
        validator=one_of("none", "all"),
        doc="With none, a record that cannot be handled fails its task; with all, it is passed over.",
    ),
    _key(
        "errors.log.enable", _BOOLEAN, _MEDIUM, _S, "Log Errors", default=False, order=4, group=ERRORS,
        doc="Log each failed operation, also a tolerated one.",
    ),
    _key(
        "errors.log.include.messages", _BOOLEAN, _MEDIUM, _S, "Log Error Details", default=False, order=5,
        group=ERRORS,
        doc="Show the record in the log, which may show what it holds; otherwise only where it was.",
    ),
])  # fmt: skip
"""The keys for the handling of record errors."""

CONNECTOR: Final = ConfigDef([*_COMMON_KEYS, *ERROR_KEYS])

CONNECTOR_FAMILIES: Final = (
    Family(prefix="key.converter.", doc="Settings of the connector's key converter, where it names one."),
    Family(prefix="value.converter.", doc="Settings of the connector's value converter, where it names one."),
    Family(
        prefix="header.converter.", doc="Settings of the connector's header converter, where it names one.",
    ),
    Family(prefix="transforms.", rest="NAME.type", doc="The class of the transform NAME."),
    Family(
        prefix="transforms.", rest="NAME.KEY",
        doc="A setting of the transform NAME, or predicate, or negate: on what condition it is applied.",
    ),
    Family(prefix="predicates.", rest="NAME.type", doc="The class of the predicate NAME."),
    Family(prefix="predicates.", rest="NAME.KEY", doc="A setting of the predicate NAME."),
)  # fmt: skip
"""Keys of every connector whose names somebody else chooses."""
