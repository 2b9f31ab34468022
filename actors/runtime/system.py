"""Actor systems, which run behaviours and create their mailboxes. `ThreadSystem` runs each behaviour as a pykka actor.

An actor has a dedicated thread or shares a thread pool with other actors (`actors.runtime.shared_threads`). The
actors of connectors and tasks share threads, because they mostly wait.

An error while a `Tell` is handled kills the actor, and the supervisor is notified. An error while an `Ask` is handled
is sent to the caller. Source: pykka.ThreadingActor.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

import pykka
from typing_extensions import override

from actors.runtime.mailbox import Address, Behaviour, Question, Tell
from actors.runtime.shared_threads import SharedThreads, blocking
from kraal.core.logging import log_subject

if TYPE_CHECKING:
    from types import TracebackType

log = logging.getLogger(__name__)

Factory = Callable[[], Behaviour]
"""Creates a behaviour on the thread that runs it; called for each restart."""


MAX_MESSAGES_PER_TURN = 100
"""Maximum number of messages that an actor handles in one turn on a shared thread."""


class Begin(Tell):
    """The first message to each actor; the actor's startup is complete once this message has been handled."""


class Crash(Tell):
    """Crash the actor with `reason`, for chaos scripts and tests."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class System(Protocol):
    """Runs behaviours."""

    def spawn(
        self,
        address: Address,
        factory: Factory,
        died: Callable[[BaseException], None],
        *,
        shares_thread: bool = False,
    ) -> None:
        """Start a new behaviour with a mailbox at `address` and send it `Begin`. `died` is called at most once.

        `shares_thread`: run the behaviour on shared threads; handlers must return within milliseconds, except inside
        `shared_threads.blocking`.
        """

    def stop(self, address: Address) -> None:
        """Stop the actor at `address`, if any, but not while it handles a message. Never blocks."""


class _BehaviourActor(pykka.Actor):
    """The pykka actor of one behaviour."""

    def __init__(self, address: Address, factory: Factory, died: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._address = address
        self._factory = factory
        self._died = died
        self._behaviour: Behaviour | None = None

    @override
    def on_start(self) -> None:
        log_subject.set(self._address.name)

    @override
    def on_receive(self, message: object) -> None:
        if isinstance(message, Crash):
            raise RuntimeError(message.reason)
        if self._behaviour is None:
            with blocking():  # the factory may load plugin classes
                self._behaviour = self._factory()
        if isinstance(message, Question):
            message.reply_with(self._behaviour)
        else:
            self._behaviour.receive(message)

    @override
    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._died(exception_value or RuntimeError("actor died without an exception"))

    @override
    def on_stop(self) -> None:
        self._address.fail_pending(f"{self._address.name} was stopped")


class _OwnThread(_BehaviourActor, pykka.ThreadingActor):
    """An actor with a dedicated daemon thread."""

    use_daemon_thread = True


class _SharedThreadActor(_BehaviourActor):
    """An actor that runs in turns on shared threads; its messages are handled in order, one at a time."""

    def __init__(
        self,
        address: Address,
        factory: Factory,
        died: Callable[[BaseException], None],
        threads: SharedThreads,
    ) -> None:
        super().__init__(address, factory, died)
        self._threads = threads
        self._inbox = cast("_Inbox", self.actor_inbox)
        self._inbox.attach(lambda: threads.submit(self._take_turn))

    @override
    @staticmethod
    def _create_actor_inbox() -> Any:
        return _Inbox()

    @override
    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return pykka.ThreadingFuture()

    @override
    def _start_actor_loop(self) -> None:
        """No-op: the first message requests a turn."""

    def _take_turn(self) -> None:
        """Handle the queued messages, up to the limit of a turn."""
        self.on_start()
        self._inbox.begin_turn()
        try:
            self._actor_loop_running()
        except queue.Empty:
            pass
        else:  # stopped, possibly in an earlier turn
            self._actor_loop_teardown()
        self._inbox.end_turn()


class _Inbox:
    """A mailbox that requests a turn when messages arrive, and limits the number of messages per turn."""

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._lock = threading.Lock()
        self._request: Callable[[], None] = lambda: None
        self._has_turn = False
        """Whether a turn is requested or running."""
        self._remaining = 0
        """Number of messages that this turn may still handle."""

    def attach(self, request: Callable[[], None]) -> None:
        """Set the function that requests a turn."""
        self._request = request

    def put(self, envelope: Any, /) -> None:
        """Add a message."""
        with self._lock:
            self._messages.append(envelope)
            if self._has_turn:
                return
            self._has_turn = True
        self._request()

    def get(self) -> Any:
        """Remove and return the next message. Raises queue.Empty when the turn is over."""
        if not self._messages or not self._remaining:
            raise queue.Empty
        self._remaining -= 1
        return self._messages.popleft()

    def empty(self) -> bool:
        """Return whether the mailbox is empty."""
        return not self._messages

    def qsize(self) -> int:
        """Return the number of messages."""
        return len(self._messages)

    def begin_turn(self) -> None:
        """Reset the message limit for a new turn."""
        self._remaining = MAX_MESSAGES_PER_TURN

    def end_turn(self) -> None:
        """Request another turn if there are more messages."""
        with self._lock:
            if not self._messages:
                self._has_turn = False
                return
        self._request()


class ThreadSystem:
    """Runs each behaviour as a pykka actor, on a dedicated daemon thread or on shared threads."""

    def __init__(self, threads: SharedThreads | None = None) -> None:
        """`threads`: the thread pool that actors share; by default one with `SIZE` threads."""
        self._refs: dict[Address, pykka.ActorRef[Any]] = {}
        self._threads = threads or SharedThreads()

    def spawn(
        self,
        address: Address,
        factory: Factory,
        died: Callable[[BaseException], None],
        *,
        shares_thread: bool = False,
    ) -> None:
        """Start a new behaviour at `address` on a dedicated thread, or on shared threads."""

        def on_death(error: BaseException) -> None:
            # Remove the dead actor, unless its replacement is already registered.
            if self._refs.get(address) is ref:
                del self._refs[address]
            died(error)

        ref: pykka.ActorRef[Any]
        if shares_thread:
            ref = _SharedThreadActor.start(address, factory, on_death, self._threads)
        else:
            ref = _OwnThread.start(address, factory, on_death)

        def deliver(message: object) -> bool:
            try:
                ref.tell(message)
            except pykka.ActorDeadError:
                return False
            return True

        self._refs[address] = ref
        address.hold()
        deliver(Begin())
        address.bind(deliver)

    def stop(self, address: Address) -> None:
        """Stop the actor at `address` after the messages already in its mailbox."""
        ref = self._refs.pop(address, None)
        if ref is not None:
            address.bind(None)
            ref.stop(block=False)

    def mailboxes(self) -> dict[str, int]:
        """Return the mailbox size of each actor by name. Thread-safe."""
        refs = self._refs.copy()
        return {address.name: _inbox(ref).qsize() for address, ref in refs.items()}

    def close(self, timeout_s: float) -> list[str]:
        """Stop all actors and wait; return the names of the actors that did not stop in time."""
        refs = dict(self._refs)
        for address in refs:
            self.stop(address)
        deadline = time.monotonic() + timeout_s
        running_actors = [a.name for a, ref in refs.items() if not _stop_and_wait(ref, deadline)]
        self._threads.close()
        return running_actors


def _inbox(ref: pykka.ActorRef[_BehaviourActor]) -> queue.Queue[object] | _Inbox:
    """Return an actor's mailbox; pykka does not declare the mailbox's type."""
    return cast("queue.Queue[object] | _Inbox", ref.actor_inbox)


def _stop_and_wait(ref: pykka.ActorRef[_BehaviourActor], deadline: float) -> bool:
    try:
        ref.stop(timeout=max(0.0, deadline - time.monotonic()))
    except pykka.Timeout:
        return False
    return True
