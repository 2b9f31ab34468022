"""Starlette's test client with one event loop for all requests of the process, not a new thread with one for each."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.testclient import TestClient


class WebClient(TestClient):
    """Starlette's client; as a context manager it has an event loop of its own, with the application's lifespan."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.portal = _portal()


@cache
def _portal() -> BlockingPortal:
    """Start the event loop, which ends at the exit of the process."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(start_blocking_portal())
