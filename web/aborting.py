"""Ending a connection at once, whatever was not sent yet: an ASGI extension of requests to a worker's server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import Scope

ABORT: Final = "kraal.abort"
"""Name of the extension; its `call` ends the connection."""


def abort_of(scope: Scope) -> Callable[[], object]:
    """Return what ends the connection of a request; it does nothing if the server has no such extension."""
    abort: Callable[[], object] = scope.get("extensions", {}).get(ABORT, {}).get("call", _nothing)
    return abort


def _nothing() -> None:
    """Abort nothing."""
