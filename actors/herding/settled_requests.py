"""Requests that wait until this worker has read the config to its end and no rebalance is due or in progress.

In Java, such requests wait in the queue of the herder's tick thread. Part of the herder; runs on its thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from actors.messages.stores import ReadToEnd
from kraal.cluster.decisions import offsets as offset_rules
from kraal.core.errors import KraalError

if TYPE_CHECKING:
    from actors.herding.state import HerderState
    from actors.messages.herder import EndReached

log = logging.getLogger(__name__)

R = TypeVar("R")


class DeferredRequests(Generic[R]):
    """Deferred requests of one kind; `advance` may defer a request again."""

    def __init__(
        self, state: HerderState, advance: Callable[[R], None], fail: Callable[[R, Exception], None]
    ) -> None:
        """`advance` executes a request; `fail` receives any KraalError that `advance` raises."""
        self._state = state
        self._advance = advance
        self._fail = fail
        self._reading: dict[int, R] = {}
        """Requests that wait until the config is read to its end."""
        self._deferred: list[R] = []
        """Requests that wait for the end of a rebalance."""

    def add(self, request: R) -> None:
        """Execute a request once the config has been read to its current end."""
        token = self._state.writes.next_token()
        self._reading[token] = request
        self._state.actors.config_reader.tell(ReadToEnd(token))

    def wait(self, request: R) -> None:
        """Execute a request after the rebalance that is due or in progress."""
        self._deferred.append(request)

    def advance(self, request: R) -> None:
        """Execute a request now."""
        try:
            self._advance(request)
        except KraalError as error:
            self._fail(request, error)

    def on_end_reached(self, message: EndReached) -> None:
        """Execute the request that waited for the end of the config, or fail it."""
        request = self._reading.pop(message.token, None)
        if request is None:
            return
        if message.error is None:
            self.advance(request)
        else:
            log.error("%s: %s", offset_rules.CONFIG_READ_FAILED, message.error)
            self._fail(request, KraalError(offset_rules.CONFIG_READ_FAILED))

    def advance_due(self) -> None:
        """Retry requests that wait for the end of a rebalance."""
        due_requests, self._deferred = self._deferred, []
        for request in due_requests:
            self.advance(request)

    def fail_due(self, error: KraalError) -> None:
        """Fail waiting requests at shutdown, when no rebalance will complete."""
        due_requests, self._deferred = self._deferred, []
        for request in due_requests:
            self._fail(request, error)

    def on_reader_lost(self) -> None:
        """Resend pending requests to the config reader after a reader died; the reader continues at the same offset."""
        for token in self._reading:
            self._state.actors.config_reader.tell(ReadToEnd(token))
