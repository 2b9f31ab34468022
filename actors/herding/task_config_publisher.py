"""Publisher of task configs: sends them from a connector's owner to the leader, which writes them.

Each request has its own actor, which waits for the leader's response. A few requests run concurrently; requests of one
connector run sequentially. If a request fails because the leader is unreachable, all waiting requests fail at once; if
another worker becomes the leader, requests in flight fail as well. The herder retries failed requests. An unresponsive
leader thus delays other connectors by at most one request timeout.
Source: DistributedHerder.forwardRequestExecutor (Kafka 4.4.0), which sends one request at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from actors.messages.publisher import PublishFailed, PublishTasks, TasksPublished
from actors.runtime.mailbox import Address, Tell
from actors.runtime.system import Begin
from kraal.core.errors import KraalError
from kraal.peers import MakeContext, PeerFailed, PeerRefused, send_task_configs

if TYPE_CHECKING:
    from actors.runtime.system import System

MAX_IN_FLIGHT_REQUESTS = 4

Send = Callable[[PublishTasks], Future[None] | None]
"""Sends one request; returns None after the response, or a future in single-threaded tests.

Raises a KraalError or sets it on the future: PeerRefused for an error response, PeerFailed without a response.
"""


@dataclass(frozen=True, slots=True)
class PublishCompleted(Tell):
    """A publish request completed; `error` is None if the leader wrote the task configs."""

    token: int
    error: Exception | None


def send_to_leader(request: PublishTasks, tls: MakeContext | None = None) -> None:
    """Send one request over HTTP or HTTPS. Raises PeerRefused, PeerFailed."""
    send_task_configs(
        request.leader_url,
        request.name,
        request.configs,
        key=request.key,
        algorithm=request.algorithm,
        tls=tls,
    )


class Publisher:
    """Sends task configs to the leader."""

    def __init__(self, *, address: Address, system: System, send: Send = send_to_leader) -> None:
        self._address = address
        self._system = system
        self._send = send
        self._leader_url: str | None = None
        """Destination of all pending requests."""
        self._waiting: deque[PublishTasks] = deque()
        self._in_flight: dict[int, PublishTasks] = {}
        """Requests in flight by token; contains no requests of earlier incarnations of this actor."""

    def receive(self, message: Begin | PublishTasks | PublishCompleted) -> None:
        """Handle one message."""
        match message:
            case Begin():
                return
            case PublishTasks():
                if message.leader_url != self._leader_url:
                    self._fail_all(f"the leader has changed to {message.leader_url}")
                    self._leader_url = message.leader_url
                self._waiting.append(message)
            case PublishCompleted():
                self._on_completed(message)
            case _:
                assert_never(message)
        self._send_next()

    def _on_completed(self, message: PublishCompleted) -> None:
        request = self._in_flight.pop(message.token, None)
        if request is None:  # failed earlier
            return
        if message.error is None:
            request.reply_to.tell(TasksPublished(token=request.token))
        else:
            _fail(request, message.error)
        if isinstance(message.error, PeerFailed):
            self._fail_waiting(message.error)

    def _send_next(self) -> None:
        """Start requests in order of arrival, up to the limits."""
        while len(self._in_flight) < MAX_IN_FLIGHT_REQUESTS:
            busy_connectors = {request.name for request in self._in_flight.values()}
            request = next(
                (candidate for candidate in self._waiting if candidate.name not in busy_connectors), None
            )
            if request is None:
                return
            self._waiting.remove(request)
            self._in_flight[request.token] = request
            self._start_publication(request)

    def _start_publication(self, request: PublishTasks) -> None:
        address = Address(f"publication-{request.token}")
        self._system.spawn(
            address,
            lambda: _Publication(address, self._system, self._send, request, self._address),
            lambda error: self._address.tell(PublishCompleted(request.token, KraalError(repr(error)))),
        )

    def _fail_all(self, reason: str) -> None:
        """Fail all requests after a change of leader; responses of the old leader are ignored."""
        error = KraalError(reason)
        requests, self._in_flight = self._in_flight, {}
        for request in requests.values():
            _fail(request, error)
        self._fail_waiting(error)

    def _fail_waiting(self, error: Exception) -> None:
        requests, self._waiting = self._waiting, deque()
        for request in requests:
            _fail(request, KraalError(f"not sent: {error}"))


class _Publication:
    """The actor of one request: sends the request on Begin, reports the result and stops."""

    def __init__(
        self, address: Address, system: System, send: Send, request: PublishTasks, publisher: Address
    ) -> None:
        self._address = address
        self._system = system
        self._send = send
        self._request = request
        self._publisher = publisher

    def receive(self, message: object) -> None:
        """Send the request on any message."""
        del message
        try:
            response = self._send(self._request)
        except KraalError as exc:
            self._complete(exc)
            return
        if response is None:
            self._complete(None)
        else:
            response.add_done_callback(self._on_response)

    def _on_response(self, response: Future[None]) -> None:
        try:
            response.result()
        except KraalError as exc:
            self._complete(exc)
        else:
            self._complete(None)

    def _complete(self, error: KraalError | None) -> None:
        self._publisher.tell(PublishCompleted(self._request.token, error))
        self._system.stop(self._address)


def _fail(request: PublishTasks, error: Exception) -> None:
    status = error.status if isinstance(error, PeerRefused) else None
    request.reply_to.tell(PublishFailed(token=request.token, error=error, status=status))
