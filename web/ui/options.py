"""Options of a dashboard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kraal import __version__

PREFIX: Final = "/ui"
"""Path prefix of the dashboard, both in workers and in `kraal ui`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardOptions:
    """Configuration of a dashboard."""

    worker: str
    """Address of the worker whose REST API is used, such as `127.0.0.1:8083`; shown in the header."""
    rest_url: str = ""
    """URL of the REST API in commands to copy; if empty, the address that the browser uses."""
    read_only: bool = False
    """Whether all actions are hidden and rejected."""
    allowed_hosts: frozenset[str] | None = None
    """Host names accepted in the `Host` header, in lower case and without a port; None allows all.

    Prevents DNS rebinding.
    """
    version: str = __version__
    max_form_bytes: int = 1_000_000
    count_body: Callable[[Any, int], None] | None = None
    """Counts received body bytes of a request, identified by its ASGI scope. Raises Unavailable above the limit.

    The bytes count towards the limit until the response is sent.
    """
