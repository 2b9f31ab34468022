"""Options of a dashboard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kraal import __version__

PREFIX: Final = "/ui"
"""Path below which the dashboard is served, by workers and by `kraal ui` alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardOptions:
    """Settings of a dashboard that a deployment can choose."""

    worker: str
    """Address of the worker that answers, such as `127.0.0.1:8083`; shown in the header."""
    rest_url: str = ""
    """URL of the REST API for commands to copy; empty: the address that the browser uses."""
    read_only: bool = False
    """Hides all actions, and refuses them."""
    hosts: frozenset[str] | None = None
    """Names, in lower case and without port, that `Host` may have; None: any. Against DNS rebinding."""
    version: str = __version__
    max_form_bytes: int = 1_000_000
    count_body: Callable[[Any, int], None] | None = None
    """Counts body bytes of a request (by its ASGI scope) until it is answered; raises Unavailable over the limit."""
