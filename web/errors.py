"""Error responses, which always have the form `{"error_code":…,"message":…}` (ErrorMessage, ConnectExceptionMapper)."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response

from kraal.core.errors import KraalError, RetryableConflict, Unavailable
from kraal.core.secrets import secrets
from kraal.peers import PeerRefused
from web.rendering import json_response, to_json

if TYPE_CHECKING:
    from starlette.requests import Request

log = logging.getLogger(__name__)


class TooLarge(KraalError):
    """The request body exceeds the worker's limit."""

    status = 413


class UnsupportedMediaType(KraalError):
    """The request has a body but no Content-Type."""

    status = 415


def jaxrs_error_text(status: int) -> str:
    """Return the text of Connect's HTTP library for a status: `HTTP 404 Not Found`."""
    return f"HTTP {status} {HTTPStatus(status).phrase}"


def error_response(status: int, message: str | None, headers: dict[str, str] | None = None) -> Response:
    """Render an error raised by a request handler, with secrets removed from its message."""
    return json_response(
        {"error_code": status, "message": _remove_secrets(message)}, status=status, headers=headers
    )


def _remove_secrets(message: str | None) -> str | None:
    return None if message is None else secrets.scrub(message)


async def on_kraal_error(request: Request, error: Exception) -> Response:
    """Render a KraalError."""
    if not isinstance(error, KraalError):  # pragma: no cover - registered for KraalError
        raise error
    headers: dict[str, str] = {}
    match error:
        case RetryableConflict(retry_after_s=seconds) | Unavailable(retry_after_s=int(seconds)):
            headers["Retry-After"] = str(seconds)
        case TooLarge():
            headers["Connection"] = "close"
        case PeerRefused():
            return _render_forwarded_error(error)
        case _:
            pass
    if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("%s %s: %s", request.method, request.url.path, error)
    return error_response(error.status, str(error), headers)


def _render_forwarded_error(error: PeerRefused) -> Response:
    """Render another worker's error unchanged; add `Retry-After` to a Java worker's retriable errors."""
    is_temporary = error.status == HTTPStatus.CONFLICT and "momentarily" in (error.text or "")
    retry_after = error.retry_after or (str(RetryableConflict.retry_after_s) if is_temporary else None)
    return json_response(
        {"error_code": error.error_code, "message": _remove_secrets(error.text)},
        status=error.status,
        headers={} if retry_after is None else {"Retry-After": retry_after},
    )


async def on_http_exception(_request: Request, error: Exception) -> Response:
    """Render an error raised before a handler is called. As in Connect, there is no Content-Type or Allow header."""
    status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.INTERNAL_SERVER_ERROR
    return Response(to_json({"error_code": int(status), "message": jaxrs_error_text(status)}), status)


def on_unexpected_error(method: str, path: str, error: Exception) -> Response:
    """Render any other exception as status 500. The message is null if the exception has none."""
    log.error("%s %s failed", method, path, exc_info=error)
    return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, str(error) or None)
