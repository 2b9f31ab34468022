"""ASGI extension that aborts a connection immediately and drops unsent data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import Scope

ABORT: Final = "kraal.abort"
"""Name of the extension; its `call` aborts the connection."""


def abort_function(scope: Scope) -> Callable[[], object]:
    """Return a function that aborts a request's connection; it is a no-op if the server lacks the extension."""
    abort: Callable[[], object] = scope.get("extensions", {}).get(ABORT, {}).get("call", _noop)
    return abort


def _noop() -> None:
    """Do nothing, because the server cannot abort connections."""
