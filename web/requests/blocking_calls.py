"""Calls that may block, on few threads of their own and never on the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, fail_after, to_thread

from kraal.core.errors import TimedOut
from web.middleware.admission import Scarce
from web.rendering import timeout_text
from web.settings import Services

T = TypeVar("T")


class BlockingCalls:
    """Runs blocking calls. A call that times out is abandoned; its thread counts until it ends."""

    def __init__(self, services: Services, what: Scarce, threads: int) -> None:
        self._services = services
        self._what = what
        self._threads = threads
        self._limiter: CapacityLimiter | None = None
        self._waiting = 0
        services.admission.watch(what, lambda: self._waiting)

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` with the request timeout. Raises TimedOut, with the stage but no final period; Unavailable."""
        self._services.admission.enter(self._what)
        self._waiting += 1
        if self._limiter is None:  # requires a running event loop
            self._limiter = CapacityLimiter(self._threads)
        try:
            with fail_after(self._services.settings.request_timeout_s):
                return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)
        except TimeoutError as exc:
            text = timeout_text(self._services.published.latest.stage)
            raise TimedOut(text.removesuffix(".")) from exc
        finally:
            self._waiting -= 1
