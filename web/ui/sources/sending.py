"""Requests that change something: repeated while the cluster rebalances, within one time for all of an action."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from kraal.core.ids import Json
from kraal.core.rest_requests import pause_before_retry
from web.ui.sources.api import Answer, Away, Caller, Refused, Source
from web.ui.views.commands import Result
from web.ui.views.copy_as import Request

PATIENCE_S: Final = 20.0
_AT_ONCE: Final = 4
_CONFLICT: Final = 409


class Sender:
    """Sends the requests of one action, and repeats for `patience_s` in all those that the worker did not carry out."""

    def __init__(self, source: Source, caller: Caller, *, patience_s: float = PATIENCE_S) -> None:
        self._source = source
        self._caller = caller
        self._patience_s = patience_s
        self._deadline: float | None = None

    async def send(self, request: Request) -> Answer:
        """Send a request. Raises Refused, Away."""
        loop = asyncio.get_running_loop()
        if self._deadline is None:
            self._deadline = loop.time() + self._patience_s
        while True:
            try:
                return await self._source.ask(
                    request.method,
                    *request.segments,
                    query=request.query,
                    body=request.body,
                    caller=self._caller,
                )
            except Refused as error:
                pause_s = pause_before_retry(request.method, error.status, error.text, error.retry_after)
                if pause_s is None:
                    raise
                if loop.time() + pause_s > self._deadline:
                    raise Refused(error.status, f"{error.text}\n{self._gave_up()}") from error
            await asyncio.sleep(pause_s)

    async def result(self, name: str, request: Request, tell: Callable[[int, Json], Result]) -> Result:
        """Send a request and return what became of it."""
        try:
            answer = await self.send(request)
            return tell(answer.status, answer.value)
        except Refused as error:
            return Result(name=name, done=False, text=f"refused with {error.status}: {error.text}")
        except Away as error:
            return Result(
                name=name, done=False, text=f"{error} It is not known whether the request took effect."
            )

    async def results(
        self, requests: Sequence[tuple[str, Request, Callable[[int, Json], Result]]]
    ) -> tuple[Result, ...]:
        """Send requests, some of them at once, and return what became of each, in their order."""
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(name: str, request: Request, tell: Callable[[int, Json], Result]) -> Result:
            async with limit:
                return await self.result(name, request, tell)

        return tuple(await asyncio.gather(*(one(*each) for each in requests)))

    def _gave_up(self) -> str:
        return f"The cluster was still rebalancing after {self._patience_s:g} s, and nothing was changed. Try again."
