"""Additional checks of connector configs on distributed workers: consumer group and delivery guarantees.

Source: DistributedHerder.validateSinkConnectorGroupId, validateSourceConnectorExactlyOnceSupport,
validateSourceConnectorTransactionBoundary (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import Final

from kraal.config.clients.layers import merge_layers
from kraal.config.connector.keys import CONSUMER_OVERRIDE, NAME, PRODUCER_OVERRIDE
from kraal.config.connector.source import (
    BOUNDARY_INTERVAL,
    BY_INTERVAL,
    EXACTLY_ONCE_SUPPORT,
    TRANSACTION_BOUNDARY,
)
from kraal.config.key import ConfigValue
from kraal.config.values import invalid
from kraal.core.errors import Unavailable
from kraal.core.ids import Config
from kraal.plugins.api import Connector

log = logging.getLogger(__name__)

_GROUP_ID_KEY: Final = f"{CONSUMER_OVERRIDE}group.id"
_NOT_ENABLED_ERROR: Final = "This worker does not have exactly-once source support enabled."
_UNKNOWN_SUPPORT_ERROR: Final = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. Please "
    "consult the documentation for the connector to determine whether it supports exactly-once semantics, and then "
    'consider reconfiguring the connector to use the value "REQUESTED" for this property (which will disable this '
    "preflight check and allow the connector to be created)."
)
_UNSUPPORTED_ERROR: Final = (
    "The connector does not support exactly-once semantics with the provided configuration."
)
_NO_BOUNDARIES_ERROR: Final = (
    "The connector does not support connector-defined transaction boundaries with the given configuration. Please "
    "reconfigure it to use a different transaction boundary definition."
)

_TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
_DEFAULT_TRANSACTION_TIMEOUT_MS: Final = "60000"
_FLUSH_INTERVAL: Final = "offset.flush.interval.ms"
_DEFAULT_FLUSH_MS: Final = "60000"
_NUMBER: Final = re.compile("[0-9]{1,10}")

Values = MutableMapping[str, ConfigValue]


def check_sink_group(group: str, config: Config, values: Values) -> None:
    """Add an error if a sink's consumers would join the group of the workers.

    As in Java, a group id that the connector overrides gets an entry in `values`, even without an error.
    """
    if _GROUP_ID_KEY in config:
        override = config[_GROUP_ID_KEY]
        value = values.setdefault(_GROUP_ID_KEY, ConfigValue(name=_GROUP_ID_KEY, value=override))
        if override == group:
            error = f"Consumer group {override} conflicts with Connect worker group {group}"
            values[_GROUP_ID_KEY] = value.with_errors(error)
        return
    name = values[NAME].value
    if f"connect-{name}" == group:
        error = f"Consumer group for sink connector named {name} conflicts with Connect worker group {group}"
        values[NAME] = values[NAME].with_errors(error)


def check_delivery(
    make_connector: Callable[[], Connector], config: Config, values: Values, *, enabled: bool
) -> None:
    """Add errors if a source cannot support the exactly-once delivery or transaction boundaries that it requires.

    `enabled` must be true if the worker has exactly-once support. Raises Unavailable if the connector's JVM is down.
    """
    support = values[EXACTLY_ONCE_SUPPORT]
    if not support.errors and str(support.value).upper() == "REQUIRED":
        error = _check_exactly_once(
            make_connector, {key: text for key, text in config.items() if text is not None}
        )
        errors = [*([] if enabled else [_NOT_ENABLED_ERROR]), *([error] if error else [])]
        values[EXACTLY_ONCE_SUPPORT] = support.with_errors(*errors)
    boundary = values[TRANSACTION_BOUNDARY]
    if not boundary.errors and str(boundary.value).upper() == "CONNECTOR":
        error = _check_boundaries(
            make_connector, {key: text for key, text in config.items() if text is not None}
        )
        values[TRANSACTION_BOUNDARY] = boundary.with_errors(*([error] if error else []))


def check_interval(worker: Mapping[str, str], config: Config, values: Values) -> None:
    """Add an error if a source's transactions would last longer than its producer's transaction timeout.

    Kafka aborts such transactions. Java creates the connector anyway, and its tasks fail.
    """
    boundary, interval_value = values[TRANSACTION_BOUNDARY], values[BOUNDARY_INTERVAL]
    if boundary.errors or interval_value.errors or str(boundary.value).lower() != BY_INTERVAL:
        return
    producer_settings = merge_layers(
        worker, {key: text for key, text in config.items() if text is not None}, "producer"
    )
    timeout_ms = producer_settings.get(_TRANSACTION_TIMEOUT, _DEFAULT_TRANSACTION_TIMEOUT_MS)
    text = (
        interval_value.value
        if interval_value.value is not None
        else worker.get(_FLUSH_INTERVAL, _DEFAULT_FLUSH_MS)
    )
    if _NUMBER.fullmatch(timeout_ms) and _NUMBER.fullmatch(str(text)) and int(str(text)) > int(timeout_ms):
        reason = (
            f"must be at most {_TRANSACTION_TIMEOUT} of the producer ({timeout_ms}); set a smaller interval, "
            f"or a larger {PRODUCER_OVERRIDE}{_TRANSACTION_TIMEOUT}"
        )
        values[BOUNDARY_INTERVAL] = interval_value.with_errors(invalid(BOUNDARY_INTERVAL, text, reason))


def _check_boundaries(make_connector: Callable[[], Connector], config: dict[str, str]) -> str | None:
    """Return an error if a connector cannot define transaction boundaries."""
    try:
        return None if make_connector().can_define_transaction_boundaries(config) else _NO_BOUNDARIES_ERROR
    except Unavailable:
        raise
    except Exception as exc:
        log.exception("Failed while validating connector support for transaction boundaries")
        return _format_unexpected(exc)


def _check_exactly_once(make_connector: Callable[[], Connector], config: dict[str, str]) -> str | None:
    """Return an error if a connector cannot deliver exactly once."""
    try:
        is_supported = make_connector().exactly_once_support(config)
    except Unavailable:
        raise
    except Exception as exc:
        log.exception("Failed while validating connector support for exactly-once semantics")
        return _format_unexpected(exc)
    if is_supported is None:
        return _UNKNOWN_SUPPORT_ERROR
    return None if is_supported else _UNSUPPORTED_ERROR


def _format_unexpected(error: Exception) -> str:
    reason = str(error).strip()
    suffix = f": {reason}" if reason else "; please see the worker logs for more details."
    return f"An unexpected error occurred during validation{suffix}"
