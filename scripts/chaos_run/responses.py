"""Checks that REST responses are well-formed during faults. Pure."""

from __future__ import annotations

import json
from typing import Any, Final

SUCCESSFUL: Final = frozenset({200, 201, 202, 204})
EXPECTED: Final = SUCCESSFUL | {400, 404, 409, 500, 503}
"""Expected status codes. Connect returns 503 only for `GET /health`; Kraal also returns 503 with `Retry-After`."""
MAY_BE_EMPTY: Final = frozenset({202, 204})
UNHEALTHY: Final = frozenset({"starting", "unhealthy"})
"""States for which `GET /health` returns an error status with a body in its own schema (KIP-1017)."""


def find_defect(status: int, content_type: str, body: bytes, retry_after: str | None = None) -> str | None:
    """Return a description of the defect of a response, or None if the response is well-formed.

    A well-formed response has an expected status and a JSON body. Its errors are in Connect's format.
    """
    if status not in EXPECTED:
        return f"the status {status} is none of {sorted(EXPECTED)}"
    if not body:
        return None if status in MAY_BE_EMPTY else f"{status} without a body"
    if content_type.partition(";")[0].strip() != "application/json":
        return f"the content type is {content_type!r}"
    try:
        parsed = json.loads(body)
    except ValueError:
        return f"the body is not JSON: {body[:200]!r}"
    if status in SUCCESSFUL:
        return None
    if isinstance(parsed, dict) and parsed.get("status") in UNHEALTHY and parsed.get("message"):
        return None
    return _find_error_defect(status, parsed, retry_after)


def _find_error_defect(status: int, parsed: Any, retry_after: str | None) -> str | None:
    if not isinstance(parsed, dict) or parsed.keys() != {"error_code", "message"}:
        return f"the error is not in Connect's format: {str(parsed)[:200]}"
    if parsed["error_code"] != status:
        return f"the error_code {parsed['error_code']} is not the status {status}"
    if not isinstance(parsed["message"], str) or not parsed["message"]:
        return f"the error has no message: {str(parsed)[:200]}"
    if "Traceback (most recent" in parsed["message"]:
        return f"the error shows a traceback: {parsed['message'][:200]}"
    return "503 without Retry-After" if status == 503 and not retry_after else None  # noqa: PLR2004 - named in the message
