"""Offset service (KIP-875), which starts an actor for each offset request.

A request waits for Kafka, the offset keeper or a plugin without delaying the herder or other requests. The number of
concurrent requests is limited, because each request for a sink uses a connection and several threads.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from actors.messages.offsets import FetchOffsets, ModifyOffsets
from actors.offsets.request import Request, RequestContext, create_request, fail
from actors.runtime.mailbox import Address, Tell
from actors.runtime.system import Begin
from kraal.core.errors import KraalError

if TYPE_CHECKING:
    from actors.runtime.system import System

MAX_CONCURRENT_REQUESTS = 16
REQUEST_TIMEOUT_S = 90.0
"""Timeout from the arrival of a request: RestServer.DEFAULT_REST_REQUEST_TIMEOUT_MS."""


@dataclass(frozen=True, slots=True)
class RequestEnded(Tell):
    """The actor at `address`, which handled a request, has stopped."""

    address: Address


class OffsetService:
    """Starts an actor for each request."""

    def __init__(self, *, address: Address, system: System, context: RequestContext) -> None:
        self._address = address
        self._system = system
        self._context = context
        self._numbers = itertools.count()
        self._waiting: deque[tuple[Request, float]] = deque()
        """Waiting requests with their deadlines."""
        self._pending: set[Address] = set()

    def receive(self, message: Begin | FetchOffsets | ModifyOffsets | RequestEnded) -> None:
        """Handle one message."""
        match message:
            case Begin():
                return
            case FetchOffsets() | ModifyOffsets():
                self._waiting.append((message, self._context.clock.now() + REQUEST_TIMEOUT_S))
            case RequestEnded():
                self._pending.discard(message.address)
            case _:
                assert_never(message)
        while self._waiting and len(self._pending) < MAX_CONCURRENT_REQUESTS:
            self._start(*self._waiting.popleft())

    def _start(self, request: Request, deadline_s: float) -> None:
        address = Address(f"offsets of {request.name} {next(self._numbers)}")

        def on_end() -> None:
            self._system.stop(address)
            self._address.tell(RequestEnded(address))

        def on_death(error: BaseException) -> None:
            fail(request, KraalError(repr(error)))
            self._address.tell(RequestEnded(address))

        self._pending.add(address)
        self._system.spawn(
            address, lambda: create_request(request, address, self._context, deadline_s, on_end), on_death
        )
