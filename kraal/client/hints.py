"""Hints for the most frequent errors of the client. Pure functions.

Errors whose text already contains the fix have no hint.
"""

from __future__ import annotations

import socket
import ssl
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

NO_WORKER: Final = (
    "Start a worker with `kraal standalone` or `kraal distributed`, or set --url or KRAAL_URL to one."
)
NO_PORT: Final = "Add the port to --url or KRAAL_URL; workers listen on 8083 by default."
HOST: Final = "Check the host name in --url or KRAAL_URL."
ROUTE: Final = "Check host and port in --url or KRAAL_URL, and firewalls between here and the worker."
IS_HTTP: Final = "If the worker's listener has no TLS, set --url or KRAAL_URL to http:// instead of https://."
IS_HTTPS: Final = "If the worker's listener has TLS, set --url or KRAAL_URL to https:// instead of http://."
OTHER_NAME: Final = "Use a host name in --url or KRAAL_URL that the worker's certificate contains."
EXPIRED: Final = "Renew the worker's certificate, and check the clock of this machine."
SLOW: Final = (
    "Check the effect with `kraal status` before you retry; --request-timeout sets a longer timeout."
)
FAILED: Final = (
    "`kraal describe NAME` shows the full trace, `kraal restart NAME --tasks --only-failed` restarts failed "
    "instances."
)
TOO_LATE: Final = "`kraal status NAME --watch` shows changes; --timeout sets a longer timeout."
_NO_PATH: Final = (
    "Check the path in --url or KRAAL_URL, and that this version of the worker supports the request."
)
_CREDENTIALS: Final = "Set KRAAL_USER and KRAAL_PASSWORD to the credentials of an authorized user."
_REBALANCE: Final = "Retry later; `kraal assignments` shows the rebalance (Kraal workers only)."
_UNKNOWN_CLASS: Final = (
    "`kraal plugins` lists the connector classes of the worker, `kraal plugins add` adds one."
)
_SEE_LOG: Final = "The cause is in the log of the worker."
_PROXY: Final = "A proxy responded instead of the worker; check that the worker is running."
_LIST_COMMANDS: Final = {
    "connectors": "`kraal ls` lists the connectors of the worker.",
    "connector-plugins": "`kraal plugins --all` lists the plugins of the worker.",
    "admin": "`kraal loggers` lists the loggers of the worker.",
}
"""Commands that list the existing names, by the first segment of the path."""
_HINTS_BY_TEXT: Final = {
    "Failed to find any class that implements Connector": _UNKNOWN_CLASS,
    "Unknown task": "`kraal status NAME` lists the tasks of a connector.",
    "invalid log level": "Levels are OFF, FATAL, ERROR, WARN, INFO, DEBUG, TRACE and ALL.",
    "has no dead letter queue topic": "`kraal dlq ls` lists the connectors that have one.",
}
"""Hints by a substring of the worker's message."""
_HOST_MISMATCH_CODES: Final = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_EXPIRED_CODE: Final = 10
"""OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED."""


def connection_hint(cause: BaseException, url: str) -> str:
    """Return a hint for a failed connection, from the operating system's or OpenSSL's error."""
    match cause:
        case ssl.SSLCertVerificationError():
            return OTHER_NAME if is_hostname_mismatch(cause) else EXPIRED if has_expired(cause) else ""
        case ssl.SSLError():
            return IS_HTTP
        case socket.gaierror():
            return HOST
        case ConnectionRefusedError():
            return NO_PORT if urlsplit(url).port is None else NO_WORKER
        case _:
            return ROUTE


def is_hostname_mismatch(error: ssl.SSLCertVerificationError) -> bool:
    """Return whether a certificate is trusted, but not for the host in the URL."""
    return error.verify_code in _HOST_MISMATCH_CODES


def has_expired(error: ssl.SSLCertVerificationError) -> bool:
    """Return whether a certificate has expired."""
    return error.verify_code == _EXPIRED_CODE


def refusal_hint(
    status: int, text: str, resource: str, *, is_unknown_endpoint: bool, was_retried: bool
) -> str:
    """Return a hint for a rejected request.

    Args:
        status: HTTP status of the response.
        text: the worker's message.
        resource: first segment of the path, such as `connectors`.
        is_unknown_endpoint: whether the worker lacks the endpoint.
        was_retried: whether the request was retried during a rebalance.
    """
    if is_unknown_endpoint:
        return _NO_PATH
    if was_retried:
        return _REBALANCE
    if hint := next((text_hint for part, text_hint in _HINTS_BY_TEXT.items() if part in text), ""):
        return hint
    match status:
        case HTTPStatus.NOT_FOUND:
            return _LIST_COMMANDS.get(resource, "")
        case HTTPStatus.FORBIDDEN if text == HTTPStatus.FORBIDDEN.phrase:
            return _CREDENTIALS
        case HTTPStatus.BAD_GATEWAY | HTTPStatus.GATEWAY_TIMEOUT:
            return _PROXY
        case HTTPStatus.INTERNAL_SERVER_ERROR:
            return _SEE_LOG
        case _:
            return ""
