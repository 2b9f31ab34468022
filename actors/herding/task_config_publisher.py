"""Publisher of task configs: sends them from a connector's owner to the leader, which writes them.

A request takes as long as the leader takes to answer, so each is an actor of its own. A few run at a time; requests
of one connector run one after the other. When the leader is unreachable or another worker leads, all requests that
were not served fail at once, to be retried. A leader that hangs or is gone thus delays others by one request timeout
at most. Source: DistributedHerder.forwardRequestExecutor (Kafka 4.4.0), which sends one at a time.
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

AT_A_TIME = 4

Send = Callable[[PublishTasks], Future[None] | None]
"""Sends one request. Returns None when it was answered, or a future in tests with one thread.

Raises KraalError, or sets it in the future: PeerRefused, or PeerFailed without an answer.
"""


@dataclass(frozen=True, slots=True)
class Sent(Tell):
    """A request has ended; with an error unless the leader has written the configs."""

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
    """Has the leader write task configs."""

    def __init__(self, *, address: Address, system: System, send: Send = send_to_leader) -> None:
        self._address = address
        self._system = system
        self._send = send
        self._leader_url: str | None = None
        """Destination of all waiting and running requests."""
        self._waiting: deque[PublishTasks] = deque()
        self._on_their_way: dict[int, PublishTasks] = {}
        """By token; contains no requests of earlier lives of this actor."""

    def receive(self, message: Begin | PublishTasks | Sent) -> None:
        """Handle one message."""
        match message:
            case Begin():
                return
            case PublishTasks():
                if message.leader_url != self._leader_url:
                    self._give_up_all(f"the leader has changed to {message.leader_url}")
                    self._leader_url = message.leader_url
                self._waiting.append(message)
            case Sent():
                self._on_ended(message)
            case _:
                assert_never(message)
        self._send_next()

    def _on_ended(self, message: Sent) -> None:
        request = self._on_their_way.pop(message.token, None)
        if request is None:  # failed before
            return
        if message.error is None:
            request.reply_to.tell(TasksPublished(token=request.token))
        else:
            _fail(request, message.error)
        if isinstance(message.error, PeerFailed):
            self._give_up_waiting(message.error)

    def _send_next(self) -> None:
        """Start the requests that may run, in order of arrival."""
        while len(self._on_their_way) < AT_A_TIME:
            busy = {request.name for request in self._on_their_way.values()}
            request = next((each for each in self._waiting if each.name not in busy), None)
            if request is None:
                return
            self._waiting.remove(request)
            self._on_their_way[request.token] = request
            self._begin(request)

    def _begin(self, request: PublishTasks) -> None:
        address = Address(f"publication-{request.token}")
        self._system.spawn(
            address,
            lambda: _Publication(address, self._system, self._send, request, self._address),
            lambda error: self._address.tell(Sent(request.token, KraalError(repr(error)))),
        )

    def _give_up_all(self, why: str) -> None:
        """Fail all requests: another worker leads, so the old leader's answers no longer count."""
        error = KraalError(why)
        requests, self._on_their_way = self._on_their_way, {}
        for request in requests.values():
            _fail(request, error)
        self._give_up_waiting(error)

    def _give_up_waiting(self, error: Exception) -> None:
        requests, self._waiting = self._waiting, deque()
        for request in requests:
            _fail(request, KraalError(f"not sent: {error}"))


class _Publication:
    """One request: sends it on Begin, reports the result, stops."""

    def __init__(
        self, address: Address, system: System, send: Send, request: PublishTasks, publisher: Address
    ) -> None:
        self._address = address
        self._system = system
        self._send = send
        self._request = request
        self._publisher = publisher

    def receive(self, message: object) -> None:
        """Send the request, whatever the message."""
        del message
        try:
            answer = self._send(self._request)
        except KraalError as exc:
            self._end(exc)
            return
        if answer is None:
            self._end(None)
        else:
            answer.add_done_callback(self._on_answer)

    def _on_answer(self, answer: Future[None]) -> None:
        try:
            answer.result()
        except KraalError as exc:
            self._end(exc)
        else:
            self._end(None)

    def _end(self, error: KraalError | None) -> None:
        self._publisher.tell(Sent(self._request.token, error))
        self._system.stop(self._address)


def _fail(request: PublishTasks, error: Exception) -> None:
    status = error.status if isinstance(error, PeerRefused) else None
    request.reply_to.tell(PublishFailed(token=request.token, error=error, status=status))
