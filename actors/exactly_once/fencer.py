"""Fencing of producers off the herder's thread: each request is an actor of its own, which waits for Kafka."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, assert_never

from actors.messages.fencer import FenceProducers, ProducersFenced
from actors.runtime.mailbox import Address
from actors.runtime.system import Begin
from kraal.core.errors import KraalError

if TYPE_CHECKING:
    from actors.runtime.system import System

Fence = Callable[[Sequence[str]], None]
"""Fences the producers with these transactional ids; blocks. Raises StoreError."""


class Fencer:
    """Starts an actor for each request."""

    def __init__(self, *, system: System, fence: Fence) -> None:
        self._system = system
        self._fence = fence
        self._numbers = itertools.count()

    def receive(self, message: Begin | FenceProducers) -> None:
        """Handle one message."""
        match message:
            case Begin():
                return
            case FenceProducers():
                address = Address(f"fencing-{next(self._numbers)}")
                self._system.spawn(
                    address,
                    lambda: _Fencing(address, self._system, self._fence, message),
                    lambda error: _answer(message, KraalError(repr(error))),
                )
            case _:
                assert_never(message)


class _Fencing:
    """One request: runs on Begin, answers, stops."""

    def __init__(self, address: Address, system: System, fence: Fence, request: FenceProducers) -> None:
        self._address = address
        self._system = system
        self._fence = fence
        self._request = request

    def receive(self, message: object) -> None:
        """Fence, whatever the message."""
        del message
        try:
            self._fence(self._request.transactional_ids)
        except KraalError as error:
            _answer(self._request, error)
        else:
            _answer(self._request, None)
        self._system.stop(self._address)


def _answer(request: FenceProducers, error: Exception | None) -> None:
    request.reply_to.tell(ProducersFenced(token=request.token, error=error))
