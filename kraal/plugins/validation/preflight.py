"""Additional checks of connector configs on distributed workers: consumer group and delivery guarantees.

Source: DistributedHerder.validateSinkConnectorGroupId, validateSourceConnectorExactlyOnceSupport,
validateSourceConnectorTransactionBoundary (Kafka 4.3.0).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from typing import Final

from kraal.config.connector.keys import CONSUMER_OVERRIDE, NAME
from kraal.config.connector.source import EXACTLY_ONCE_SUPPORT, TRANSACTION_BOUNDARY
from kraal.config.key import ConfigValue
from kraal.core.errors import Unavailable
from kraal.core.ids import Config
from kraal.plugins.api import Connector

log = logging.getLogger(__name__)

_GROUP: Final = f"{CONSUMER_OVERRIDE}group.id"
_NOT_ENABLED: Final = "This worker does not have exactly-once source support enabled."
_UNKNOWN: Final = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. Please "
    "consult the documentation for the connector to determine whether it supports exactly-once semantics, and then "
    'consider reconfiguring the connector to use the value "REQUESTED" for this property (which will disable this '
    "preflight check and allow the connector to be created)."
)
_UNSUPPORTED: Final = "The connector does not support exactly-once semantics with the provided configuration."
_NO_BOUNDARIES: Final = (
    "The connector does not support connector-defined transaction boundaries with the given configuration. Please "
    "reconfigure it to use a different transaction boundary definition."
)

Values = MutableMapping[str, ConfigValue]


def check_sink_group(group: str, config: Config, values: Values) -> None:
    """Add an error if a sink's consumers would join the group of the workers.

    An overridden group gets its own entry, as in Java, with or without an error.
    """
    if _GROUP in config:
        own = config[_GROUP]
        value = values.setdefault(_GROUP, ConfigValue(name=_GROUP, value=own))
        if own == group:
            error = f"Consumer group {own} conflicts with Connect worker group {group}"
            values[_GROUP] = value.with_errors(error)
        return
    name = values[NAME].value
    if f"connect-{name}" == group:
        error = f"Consumer group for sink connector named {name} conflicts with Connect worker group {group}"
        values[NAME] = values[NAME].with_errors(error)


def check_delivery(make: Callable[[], Connector], config: Config, values: Values, *, enabled: bool) -> None:
    """Add errors if a source is required to deliver exactly once, or to define transaction boundaries, and cannot.

    `enabled`: the worker has exactly-once support. Raises Unavailable while the connector cannot be asked.
    """
    support = values[EXACTLY_ONCE_SUPPORT]
    if not support.errors and str(support.value).upper() == "REQUIRED":
        wrong = _objection(make, {key: text for key, text in config.items() if text is not None})
        errors = [*([] if enabled else [_NOT_ENABLED]), *([wrong] if wrong else [])]
        values[EXACTLY_ONCE_SUPPORT] = support.with_errors(*errors)
    boundary = values[TRANSACTION_BOUNDARY]
    if not boundary.errors and str(boundary.value).upper() == "CONNECTOR":
        wrong = _boundary_objection(make, {key: text for key, text in config.items() if text is not None})
        values[TRANSACTION_BOUNDARY] = boundary.with_errors(*([wrong] if wrong else []))


def _boundary_objection(make: Callable[[], Connector], config: dict[str, str]) -> str | None:
    """Return why a connector cannot define transaction boundaries; None if it can."""
    try:
        return None if make().can_define_transaction_boundaries(config) else _NO_BOUNDARIES
    except Unavailable:
        raise
    except Exception as exc:
        log.exception("Failed while validating connector support for transaction boundaries")
        return _unexpected(exc)


def _objection(make: Callable[[], Connector], config: dict[str, str]) -> str | None:
    """Return why a connector cannot deliver exactly once; None if it can."""
    try:
        supported = make().exactly_once_support(config)
    except Unavailable:
        raise
    except Exception as exc:
        log.exception("Failed while validating connector support for exactly-once semantics")
        return _unexpected(exc)
    if supported is None:
        return _UNKNOWN
    return None if supported else _UNSUPPORTED


def _unexpected(error: Exception) -> str:
    reason = str(error).strip()
    end = f": {reason}" if reason else "; please see the worker logs for more details."
    return f"An unexpected error occurred during validation{end}"
