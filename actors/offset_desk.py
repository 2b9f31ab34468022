"""Where requests about offsets go (KIP-875): each becomes an errand, an actor of its own, some at a time.

An errand waits for Kafka, for the offset keeper, for a plugin. So neither the herder nor another request does, as
long as not too many hang at once: each one that asks about a sink holds a connection and its threads.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from actors.mailbox import Address, Tell
from actors.messages.offsets import FetchOffsets, ModifyOffsets
from actors.offset_errands import Means, Request, errand, fail
from actors.system import Begin
from kraal.errors import KraalError

if TYPE_CHECKING:
    from actors.system import System

AT_A_TIME = 16
REQUEST_S = 90.0
"""From when the desk has a request: RestServer.DEFAULT_REST_REQUEST_TIMEOUT_MS."""


@dataclass(frozen=True, slots=True)
class ErrandOver(Tell):
    """An errand of the desk has ended."""

    address: Address


class OffsetDesk:
    """Starts errands."""

    def __init__(self, *, address: Address, system: System, means: Means) -> None:
        self._address = address
        self._system = system
        self._means = means
        self._numbers = itertools.count()
        self._waiting: deque[tuple[Request, float]] = deque()
        """With the moment at which each has to be answered."""
        self._under_way: set[Address] = set()

    def receive(self, message: Begin | FetchOffsets | ModifyOffsets | ErrandOver) -> None:
        """Handle one message."""
        match message:
            case Begin():
                return
            case FetchOffsets() | ModifyOffsets():
                self._waiting.append((message, self._means.clock.now() + REQUEST_S))
            case ErrandOver():
                self._under_way.discard(message.address)
            case _:
                assert_never(message)
        while self._waiting and len(self._under_way) < AT_A_TIME:
            self._start(*self._waiting.popleft())

    def _start(self, request: Request, deadline_s: float) -> None:
        address = Address(f"offsets of {request.name} {next(self._numbers)}")

        def over() -> None:
            self._system.stop(address)
            self._address.tell(ErrandOver(address))

        def died(error: BaseException) -> None:
            fail(request, KraalError(repr(error)))
            self._address.tell(ErrandOver(address))

        self._under_way.add(address)
        self._system.spawn(address, lambda: errand(request, address, self._means, deadline_s, over), died)
