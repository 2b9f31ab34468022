"""Communication between actors: typed messages, addresses that outlive an actor's death, and deferred replies.

A behaviour (`Herder`, `Task`, …) is a plain object with one method, `receive`. A `System` gives it a mailbox and
runs it: on a thread of its own in production (`actors.runtime.system`, a pykka actor), or step by step in one thread
under a seeded scheduler in tests (`kraal.testing`). Behaviours know only addresses.

Requests outlive their receiver: the *address*, not the actor, keeps a table of open questions, so that the death of
an actor answers its questions with the cause instead of leaving the senders waiting.
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
    """A message that expects no answer."""

    __slots__ = ()


class Ask(Generic[R]):
    """A message whose answer has type R; its docstring names the errors it raises."""

    __slots__ = ()


class Behaviour(Protocol):
    """Behaviour of an actor. Called by one thread at a time."""

    def receive(self, message: Any) -> object:
        """Handle one message within milliseconds; return the answer of an `Ask`, or a `Reply` to answer later.

        An error raised while handling a `Tell` kills the actor; while handling an `Ask`, it is the answer.
        """


class Reply(Generic[R]):
    """A promised answer: return it from `receive`, and `set` or `fail` it later, once, from any thread."""

    def __init__(self) -> None:
        self.future: Future[R] = Future()

    def set(self, value: R) -> None:
        """Answer; has no effect when the sender no longer waits."""
        settle(self.future, value, None)

    def fail(self, error: Exception) -> None:
        """Answer with an error; has no effect when the sender no longer waits."""
        settle(self.future, None, error)


def settle(future: Future[Any], value: object, error: BaseException | None) -> None:
    """Complete `future` unless it was completed or cancelled before."""
    try:
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
    except InvalidStateError:
        log.debug("Dropped an answer that arrived after its timeout")


class Question:
    """An `Ask` in transit, with the future for its answer."""

    __slots__ = ("future", "message")

    def __init__(self, message: Ask[Any]) -> None:
        self.message = message
        self.future: Future[Any] = Future()

    def answer(self, behaviour: Behaviour) -> None:
        """Have `behaviour` handle the message, and set the future now or when its Reply is set."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = behaviour.receive(self.message)
        except Exception as error:  # noqa: BLE001 - an Ask's error is its answer
            settle(self.future, None, error)
            return
        if isinstance(result, Reply):
            result.future.add_done_callback(self._copy_result)
        else:
            settle(self.future, result, None)

    def _copy_result(self, promised: Future[Any]) -> None:
        error = promised.exception()
        settle(self.future, None if error else promised.result(), error)


class Address:
    """Destination of messages to one actor; stays the same when the supervisor replaces the actor.

    Before the first actor starts, messages wait for it. Between an actor's death and its successor's start, tells are
    dropped (the successor requests the state it needs) and questions are answered with ActorDied. Messages that arrive
    while an actor starts, such as answers to what it requested first, wait until it is attached.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._deliver: Callable[[object], bool] | None = None
        self._early: list[object] | None = []
        """Messages that wait until an actor is attached; None while none have to wait."""
        self._open: dict[Question, None] = {}  # in the order of asking, so that a test's seed is reproducible
        self._lock = threading.Lock()

    @override
    def __repr__(self) -> str:
        return f"Address({self.name!r})"

    def bind(self, deliver: Callable[[object], bool] | None) -> None:
        """Attach an actor (`deliver` puts into its mailbox and returns False when it is dead), or detach it (None)."""
        with self._lock:  # keeps the order of each sender's messages
            if deliver is not None:
                for message in self._early or ():
                    deliver(message)
            self._deliver, self._early = deliver, None

    def hold(self) -> None:
        """Keep messages that arrive from now on for the actor that is attached next."""
        with self._lock:
            if self._early is None:
                self._early = []

    @property
    def open_questions(self) -> int:
        """Number of unanswered questions: a gauge."""
        return len(self._open)

    def tell(self, message: Tell) -> None:
        """Put `message` into the mailbox; returns at once."""
        if not self._enqueue(message):
            log.debug("Dropped a message for %s, which is not running: %s", self.name, type(message).__name__)

    def question(self, message: Ask[R]) -> Future[R]:
        """Put `message` into the mailbox; return the future for its answer."""
        question = Question(message)
        with self._lock:
            self._open[question] = None
        question.future.add_done_callback(lambda _: self._fail_closed(question))
        if not self._enqueue(question):
            settle(question.future, None, ActorDied(f"{self.name} is not running; it is being restarted"))
        return question.future

    def fail_pending(self, reason: str) -> None:
        """Answer every open question with ActorDied: called when the actor died."""
        with self._lock:
            questions = list(self._open)
        for question in questions:
            settle(question.future, None, ActorDied(reason))

    def _enqueue(self, message: object) -> bool:
        if self._early is not None:
            with self._lock:
                if self._early is not None:
                    self._early.append(message)
                    return True
        deliver = self._deliver
        return deliver is not None and deliver(message)

    def _fail_closed(self, question: Question) -> None:
        with self._lock:
            self._open.pop(question, None)


def ask(address: Address, message: Ask[R], *, timeout_s: float) -> R:
    """Send a message and wait at most `timeout_s` seconds. Never call this inside an actor.

    Raises TimedOut, ActorDied, and the errors that the message names.
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
    """Send a message and await the answer without blocking a thread. Raises like `ask`."""
    future = asyncio.wrap_future(address.question(message))
    try:
        return await asyncio.wait_for(future, timeout_s)
    except TimeoutError as exc:
        text = "Request timed out"
        raise TimedOut(text) from exc
