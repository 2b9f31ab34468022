"""Actor systems, which give behaviours a mailbox and run them. Here: one pykka actor for each.

An actor has a thread of its own, or shares a few threads with others (`actors.runtime.shared_threads`): the actors of
a thousand connectors and tasks mostly wait.

Source: pykka.ThreadingActor. A `Tell` that raises kills the actor, and the supervisor is notified; an `Ask` that raises
answers with the error.
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
from kraal.core.logging import about

if TYPE_CHECKING:
    from types import TracebackType

log = logging.getLogger(__name__)

Factory = Callable[[], Behaviour]
"""Makes a behaviour, on the thread that runs it. Called again for each restart."""


TURN = 100
"""Maximum number of messages that an actor handles in one turn on a shared thread."""


class Begin(Tell):
    """The first message of each actor; startup is complete when it has been handled."""


class Crash(Tell):
    """Make the actor die of `reason`, for chaos scripts and tests."""

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
        """Start a new behaviour with the mailbox at `address` and send it `Begin`. `died` is called at most once.

        `shares_thread`: its handlers return in milliseconds, except inside `shared_threads.blocking`.
        """

    def stop(self, address: Address) -> None:
        """Stop the actor at `address` after its current message; never blocks; ignores unknown addresses."""


class _Shell(pykka.Actor):
    """The pykka actor around one behaviour."""

    def __init__(self, address: Address, factory: Factory, died: Callable[[BaseException], None]) -> None:
        super().__init__()
        self._address = address
        self._factory = factory
        self._died = died
        self._behaviour: Behaviour | None = None

    @override
    def on_start(self) -> None:
        about.set(self._address.name)

    @override
    def on_receive(self, message: object) -> None:
        if isinstance(message, Crash):
            raise RuntimeError(message.reason)
        if self._behaviour is None:
            with blocking():  # it may load plugin classes
                self._behaviour = self._factory()
        if isinstance(message, Question):
            message.answer(self._behaviour)
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


class _OwnThread(_Shell, pykka.ThreadingActor):
    """An actor with a daemon thread of its own."""

    use_daemon_thread = True


class _SharingThreads(_Shell):
    """An actor that takes turns on shared threads: its messages are handled in order, one at a time."""

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
        """Do nothing: the first message asks for a turn."""

    def _take_turn(self) -> None:
        """Handle the messages that wait."""
        self.on_start()
        self._inbox.begin_turn()
        try:
            self._actor_loop_running()
        except queue.Empty:
            pass
        else:  # it has stopped, perhaps in an earlier turn
            self._actor_loop_teardown()
        self._inbox.end_turn()


class _Inbox:
    """A mailbox that asks for a turn when messages come, and lets one turn take a limited number of them."""

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._lock = threading.Lock()
        self._request: Callable[[], None] = lambda: None
        self._has_turn = False
        """Whether a turn is requested or under way."""
        self._left = 0
        """Messages that this turn may still take."""

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
        """Take a message; raises queue.Empty when the turn is over."""
        if not self._messages or not self._left:
            raise queue.Empty
        self._left -= 1
        return self._messages.popleft()

    def empty(self) -> bool:
        """Whether there are no messages."""
        return not self._messages

    def qsize(self) -> int:
        """Return the number of messages."""
        return len(self._messages)

    def begin_turn(self) -> None:
        """Allow a number of messages."""
        self._left = TURN

    def end_turn(self) -> None:
        """Request another turn if there are more messages."""
        with self._lock:
            if not self._messages:
                self._has_turn = False
                return
        self._request()


class ThreadSystem:
    """Runs each behaviour as a pykka actor, on a daemon thread of its own or on threads that actors share."""

    def __init__(self, threads: SharedThreads | None = None) -> None:
        """`threads` are those that actors share, by default `SIZE`."""
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
        """Start a new behaviour at `address`, with a thread of its own unless it shares one."""

        def on_death(error: BaseException) -> None:
            # Nothing stops an actor without a supervisor; a restart replaces this entry.
            if self._refs.get(address) is ref:
                del self._refs[address]
            died(error)

        ref: pykka.ActorRef[Any]
        if shares_thread:
            ref = _SharingThreads.start(address, factory, on_death, self._threads)
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
        """Return the mailbox size of each actor by its name: gauges. Any thread."""
        refs = self._refs.copy()
        return {address.name: _inbox(ref).qsize() for address, ref in refs.items()}

    def close(self, timeout_s: float) -> list[str]:
        """Stop every actor and wait; return the names of those that did not end in time."""
        refs = dict(self._refs)
        for address in refs:
            self.stop(address)
        deadline = time.monotonic() + timeout_s
        left = [a.name for a, ref in refs.items() if not _ended(ref, deadline)]
        self._threads.close()
        return left


def _inbox(ref: pykka.ActorRef[_Shell]) -> queue.Queue[object] | _Inbox:
    """Return an actor's mailbox with the type that the actor creates."""
    return cast("queue.Queue[object] | _Inbox", ref.actor_inbox)


def _ended(ref: pykka.ActorRef[_Shell], deadline: float) -> bool:
    try:
        ref.stop(timeout=max(0.0, deadline - time.monotonic()))
    except pykka.Timeout:
        return False
    return True
