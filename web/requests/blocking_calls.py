"""Runs blocking calls on a small pool of dedicated threads instead of the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, fail_after, to_thread

from kraal.core.errors import TimedOut
from web.middleware.admission import LimitedResource
from web.rendering import timeout_text
from web.settings import Services

T = TypeVar("T")


class BlockingCalls:
    """Thread pool for blocking calls. A call that times out is abandoned, but occupies a thread until it returns."""

    def __init__(self, services: Services, resource: LimitedResource, threads: int) -> None:
        self._services = services
        self._resource = resource
        self._threads = threads
        self._limiter: CapacityLimiter | None = None
        self._waiting = 0
        services.admission.set_gauge(resource, lambda: self._waiting)

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` with the request timeout. Raises TimedOut (its message has no final period) and Unavailable."""
        self._services.admission.admit(self._resource)
        self._waiting += 1
        if self._limiter is None:  # requires a running event loop
            self._limiter = CapacityLimiter(self._threads)
        try:
            with fail_after(self._services.settings.request_timeout_s):
                return await to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._limiter)
        except TimeoutError as exc:
            text = timeout_text(self._services.published.latest.stage)
            raise TimedOut(text.removesuffix(".")) from exc
        finally:
            self._waiting -= 1
