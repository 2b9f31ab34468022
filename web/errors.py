"""Error responses: always exactly `{"error_code":…,"message":…}` (ErrorMessage, ConnectExceptionMapper)."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response

from kraal.core.errors import KraalError, RetryableConflict, Unavailable
from kraal.core.secrets import secrets
from kraal.peers import PeerRefused
from web.rendering import json_answer, to_json

if TYPE_CHECKING:
    from starlette.requests import Request

log = logging.getLogger(__name__)


class TooLarge(KraalError):
    """The request's body exceeds the worker's limit."""

    status = 413


class UnsupportedMediaType(KraalError):
    """The request has a body but no Content-Type."""

    status = 415


def library_text(status: int) -> str:
    """Return the text of Connect's HTTP library for a status: `HTTP 404 Not Found`."""
    return f"HTTP {status} {HTTPStatus(status).phrase}"


def error_answer(status: int, message: str | None, headers: dict[str, str] | None = None) -> Response:
    """Render an error raised while a request was handled; removes secrets from its message."""
    return json_answer({"error_code": status, "message": _clean(message)}, status=status, headers=headers)


def _clean(message: str | None) -> str | None:
    return None if message is None else secrets.scrub(message)


async def on_kraal_error(request: Request, error: Exception) -> Response:
    """Answer an error that Kraal raised deliberately."""
    if not isinstance(error, KraalError):  # pragma: no cover - registered for KraalError
        raise error
    headers: dict[str, str] = {}
    match error:
        case RetryableConflict(retry_after_s=seconds) | Unavailable(retry_after_s=int(seconds)):
            headers["Retry-After"] = str(seconds)
        case TooLarge():
            headers["Connection"] = "close"
        case PeerRefused():
            return _forwarded_error(error)
        case _:
            pass
    if error.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("%s %s: %s", request.method, request.url.path, error)
    return error_answer(error.status, str(error), headers)


def _forwarded_error(error: PeerRefused) -> Response:
    """Render another worker's error unchanged; a Java worker's temporary errors can be retried as well."""
    is_temporary = error.status == HTTPStatus.CONFLICT and "momentarily" in (error.text or "")
    retry_after = error.retry_after or (str(RetryableConflict.retry_after_s) if is_temporary else None)
    return json_answer(
        {"error_code": error.error_code, "message": _clean(error.text)},
        status=error.status,
        headers={} if retry_after is None else {"Retry-After": retry_after},
    )


async def on_http_exception(_request: Request, error: Exception) -> Response:
    """Answer a request rejected before a handler was found; without Content-Type and Allow, as in Connect."""
    status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.INTERNAL_SERVER_ERROR
    return Response(to_json({"error_code": int(status), "message": library_text(status)}), status)


def on_unexpected(method: str, path: str, error: Exception) -> Response:
    """Answer any other error: 500 with the exception's message, which may be null."""
    log.error("%s %s failed", method, path, exc_info=error)
    return error_answer(HTTPStatus.INTERNAL_SERVER_ERROR, str(error) or None)
