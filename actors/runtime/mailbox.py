"""Communication between actors: typed messages, addresses that outlive an actor's death, and deferred replies.

A behaviour (`Herder`, `Task`, …) is a plain object with one method, `receive`. A `System` creates a mailbox for it and
runs it: as a pykka actor in production (`actors.runtime.system`), or step by step in one thread under a seeded
scheduler in tests (`kraal.testing`). Behaviours refer to each other only by address.

Requests outlive their receiver. The *address*, not the actor, stores the pending requests, so that they fail with the
cause when the actor dies, instead of leaving the senders waiting.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from typing_extensions import override

from kraal.core.errors import ActorDied, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")
M_contra = TypeVar("M_contra", contravariant=True)

log = logging.getLogger(__name__)


class Tell:
    """A message without a reply."""

    __slots__ = ()


class Ask(Generic[R]):
    """A message with a reply of type R; the docstring of a message lists the errors with which it fails."""

    __slots__ = ()


class Behaviour(Protocol):
    """Behaviour of an actor. Called by one thread at a time."""

    def receive(self, message: Any) -> object:
        """Handle one message within milliseconds; return the reply to an `Ask`, or a `Reply` that is set later.

        An error raised while handling a `Tell` kills the actor; an error while handling an `Ask` is sent to the caller.
        """


class Reply(Generic[R]):
    """A deferred reply that `receive` returns; set or failed once, later and on any thread."""

    def __init__(self) -> None:
        self.future: Future[R] = Future()

    def set(self, value: R) -> None:
        """Send the reply; has no effect if the caller no longer waits."""
        settle(self.future, value, None)

    def fail(self, error: Exception) -> None:
        """Reply with an error; has no effect if the caller no longer waits."""
        settle(self.future, None, error)


def settle(future: Future[Any], value: object, error: BaseException | None) -> None:
    """Complete `future` unless it is already completed or cancelled."""
    try:
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
    except InvalidStateError:
        log.debug("Dropped a reply that arrived after its timeout")


class Question:
    """An `Ask` in transit, with the future of its reply."""

    __slots__ = ("future", "message")

    def __init__(self, message: Ask[Any]) -> None:
        self.message = message
        self.future: Future[Any] = Future()

    def reply_with(self, behaviour: Behaviour) -> None:
        """Handle the message with `behaviour`; complete the future now, or when the returned Reply is set."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = behaviour.receive(self.message)
        except Exception as error:  # noqa: BLE001 - errors of an Ask are sent to the caller
            settle(self.future, None, error)
            return
        if isinstance(result, Reply):
            result.future.add_done_callback(self._copy_result)
        else:
            settle(self.future, result, None)

    def _copy_result(self, reply_future: Future[Any]) -> None:
        error = reply_future.exception()
        settle(self.future, None if error else reply_future.result(), error)


class Address:
    """Destination of messages to one actor, which stays the same when the supervisor replaces the actor.

    Before the first actor starts, messages are queued. Between an actor's death and its successor's start, tells are
    dropped (the successor requests the state that it needs) and requests fail with ActorDied. Messages that arrive
    while an actor starts, such as replies to its first requests, are queued until it is attached.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._deliver: Callable[[object], bool] | None = None
        self._queued: list[object] | None = []
        """Messages queued until an actor is attached; None while an actor is attached or dead."""
        self._pending: dict[Question, None] = {}  # in insertion order, so that a test's seed is reproducible
        self._lock = threading.Lock()

    @override
    def __repr__(self) -> str:
        return f"Address({self.name!r})"

    def bind(self, deliver: Callable[[object], bool] | None) -> None:
        """Attach an actor, or detach the current one if `deliver` is None.

        `deliver` adds a message to the actor's mailbox, or returns False if the actor is dead.
        """
        with self._lock:  # keeps the order of each sender's messages
            if deliver is not None:
                for message in self._queued or ():
                    deliver(message)
            self._deliver, self._queued = deliver, None

    def hold(self) -> None:
        """Queue new messages for the actor that is attached next."""
        with self._lock:
            if self._queued is None:
                self._queued = []

    @property
    def open_questions(self) -> int:
        """Number of pending requests."""
        return len(self._pending)

    def tell(self, message: Tell) -> None:
        """Add `message` to the mailbox. Never blocks."""
        if not self._enqueue(message):
            log.debug("Dropped a %s message for %s, which is not running", type(message).__name__, self.name)

    def question(self, message: Ask[R]) -> Future[R]:
        """Add `message` to the mailbox; return the future of its reply."""
        question = Question(message)
        with self._lock:
            self._pending[question] = None
        question.future.add_done_callback(lambda _: self._remove_question(question))
        if not self._enqueue(question):
            settle(question.future, None, ActorDied(f"{self.name} is not running; it is being restarted"))
        return question.future

    def fail_pending(self, reason: str) -> None:
        """Fail every pending request with ActorDied after the actor died."""
        with self._lock:
            questions = list(self._pending)
        for question in questions:
            settle(question.future, None, ActorDied(reason))

    def _enqueue(self, message: object) -> bool:
        if self._queued is not None:
            with self._lock:
                if self._queued is not None:
                    self._queued.append(message)
                    return True
        deliver = self._deliver
        return deliver is not None and deliver(message)

    def _remove_question(self, question: Question) -> None:
        with self._lock:
            self._pending.pop(question, None)


def ask(address: Address, message: Ask[R], *, timeout_s: float) -> R:
    """Send a message and wait at most `timeout_s` seconds for the reply. Must not be called inside an actor.

    Raises TimedOut, ActorDied, and the errors that the message lists.
    """
    future = address.question(message)
    try:
        return future.result(timeout_s)
    except FutureTimeoutError as exc:
        if future.done():
            raise
        future.cancel()
        text = "Request timed out"
        raise TimedOut(text) from exc


async def ask_async(address: Address, message: Ask[R], *, timeout_s: float) -> R:
    """Send a message and await the reply without blocking a thread. Raises like `ask`."""
    future = asyncio.wrap_future(address.question(message))
    try:
        return await asyncio.wait_for(future, timeout_s)
    except TimeoutError as exc:
        text = "Request timed out"
        raise TimedOut(text) from exc
