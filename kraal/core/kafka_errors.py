"""Kafka error codes grouped by their meaning for clients.

Negative codes are librdkafka's. Literal numbers are used to avoid importing a client library. Callers that handle
additional codes in the same way add these codes locally.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ErrorCode(IntEnum):
    """Errors that several callers handle, with confluent-kafka's names (without `_`)."""

    AUTHENTICATION = -169
    TIMED_OUT = -185
    ALL_BROKERS_DOWN = -187
    UNKNOWN_TOPIC = -188
    RESOLVE = -193
    TRANSPORT = -195
    UNKNOWN_TOPIC_OR_PART = 3
    LEADER_NOT_AVAILABLE = 5
    REQUEST_TIMED_OUT = 7
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    NOT_CONTROLLER = 41
    SASL_AUTHENTICATION_FAILED = 58


TIMEOUTS: Final[frozenset[int]] = frozenset({ErrorCode.TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT})
"""Errors of requests that timed out."""
UNREACHABLE: Final[frozenset[int]] = frozenset({ErrorCode.TIMED_OUT, ErrorCode.TRANSPORT})
"""Errors of requests to which no broker responded."""
RETRIABLE: Final[frozenset[int]] = frozenset(
    {
        *TIMEOUTS,
        *UNREACHABLE,
        ErrorCode.ALL_BROKERS_DOWN,
        ErrorCode.RESOLVE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
"""Errors after which a retry can succeed."""
UNKNOWN_TOPIC: Final[frozenset[int]] = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PART, ErrorCode.UNKNOWN_TOPIC})
"""Errors for a topic that does not exist, or that the broker does not know yet."""
NOT_AUTHORIZED: Final[frozenset[int]] = frozenset(
    {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)
"""Authorization errors."""
NOT_AUTHENTICATED: Final[frozenset[int]] = frozenset(
    {ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.AUTHENTICATION}
)
"""Authentication errors."""
