"""Fencing of producers off the herder's thread. Each request has its own actor, which waits for Kafka."""

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
"""Fences the producers with these transactional ids. Blocks. Raises StoreError."""


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
                    lambda error: _reply(message, KraalError(repr(error))),
                )
            case _:
                assert_never(message)


class _Fencing:
    """The actor of one request: fences on Begin, replies and stops."""

    def __init__(self, address: Address, system: System, fence: Fence, request: FenceProducers) -> None:
        self._address = address
        self._system = system
        self._fence = fence
        self._request = request

    def receive(self, message: object) -> None:
        """Fence the producers on any message."""
        del message
        try:
            self._fence(self._request.transactional_ids)
        except KraalError as error:
            _reply(self._request, error)
        else:
            _reply(self._request, None)
        self._system.stop(self._address)


def _reply(request: FenceProducers, error: Exception | None) -> None:
    request.reply_to.tell(ProducersFenced(token=request.token, error=error))
