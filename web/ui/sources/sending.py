"""Sends the requests of an action, with retries during rebalances. All requests share one time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from kraal.core.ids import Config, Json
from kraal.core.rest_requests import retry_delay_s
from web.ui.sources.api import ApiResponse, Caller, RequestRejected, Source, SourceUnavailable
from web.ui.views.commands import Result
from web.ui.views.config import parse_config
from web.ui.views.copy_as import Request

RETRY_TIMEOUT_S: Final = 20.0
_MAX_CONCURRENT: Final = 4


class Sender:
    """Sender of the requests of one action. It retries requests until `timeout_s` after the first request."""

    def __init__(self, source: Source, caller: Caller, *, timeout_s: float = RETRY_TIMEOUT_S) -> None:
        self._source = source
        self._caller = caller
        self._timeout_s = timeout_s
        self._deadline: float | None = None

    async def send(self, request: Request) -> ApiResponse:
        """Send a request. Raises RequestRejected, SourceUnavailable."""
        loop = asyncio.get_running_loop()
        if self._deadline is None:
            self._deadline = loop.time() + self._timeout_s
        while True:
            try:
                return await self._source.ask(
                    request.method,
                    *request.segments,
                    query=request.query,
                    body=request.body,
                    caller=self._caller,
                )
            except RequestRejected as error:
                pause_s = retry_delay_s(request.method, error.status, error.text, error.retry_after)
                if pause_s is None:
                    raise
                if loop.time() + pause_s > self._deadline:
                    raise RequestRejected(error.status, f"{error.text}\n{self._timeout_text()}") from error
            await asyncio.sleep(pause_s)

    async def result(
        self, name: str, request: Request, parse_result: Callable[[int, Json], Result]
    ) -> Result:
        """Send a request and return its result."""
        try:
            response = await self.send(request)
            return parse_result(response.status, response.value)
        except RequestRejected as error:
            return Result(name=name, done=False, text=f"rejected with {error.status}: {error.text}")
        except SourceUnavailable as error:
            return Result(name=name, done=False, text=f"{error}. The request may have taken effect.")

    async def results(
        self, requests: Sequence[tuple[str, Request, Callable[[int, Json], Result]]]
    ) -> tuple[Result, ...]:
        """Send requests with limited concurrency, and return their results in order."""
        limit = asyncio.Semaphore(_MAX_CONCURRENT)

        async def send_one(
            name: str, request: Request, parse_result: Callable[[int, Json], Result]
        ) -> Result:
            async with limit:
                return await self.result(name, request, parse_result)

        return tuple(await asyncio.gather(*(send_one(*arguments) for arguments in requests)))

    def _timeout_text(self) -> str:
        return (
            f"The cluster was still rebalancing after {self._timeout_s:g} s; nothing was changed. Try again."
        )


SETTLE_TIMEOUT_S: Final = 3.0
_POLL_INTERVAL_S: Final = 0.1


async def wait_until_applied(
    source: Source, caller: Caller, name: str, config: Config, *, timeout_s: float = SETTLE_TIMEOUT_S
) -> bool:
    """Wait until the worker returns a connector's new config and its status; return False on timeout."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        try:
            response = await source.ask("GET", "connectors", name, "config", caller=caller)
            if parse_config(response.value) == {"name": name, **config}:
                await source.ask("GET", "connectors", name, "status", caller=caller)
                return True
        except RequestRejected:
            pass
        except SourceUnavailable:
            return False
        if asyncio.get_running_loop().time() + _POLL_INTERVAL_S > deadline:
            return False
        await asyncio.sleep(_POLL_INTERVAL_S)
