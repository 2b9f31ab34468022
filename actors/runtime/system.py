"""Actor systems, which give behaviours a mailbox and run them. Here: one pykka actor, and so one thread, for each.

Source: pykka.ThreadingActor. STYLE.md section 5 describes what pykka does when a handler raises, and what Kraal adds:
a `Tell` that raises kills the actor, and the supervisor is notified; an `Ask` that raises answers with the error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

import pykka
from typing_extensions import override

from actors.runtime.mailbox import Address, Behaviour, Question, Tell
from kraal.core.logging import about

if TYPE_CHECKING:
    import queue
    from types import TracebackType

log = logging.getLogger(__name__)

Factory = Callable[[], Behaviour]
"""Makes a behaviour, on the thread that runs it. Called again for each restart."""


class Begin(Tell):
    """The first message of each actor; startup is complete when it has been handled."""


class Crash(Tell):
    """Make the actor die of `reason`, for chaos scripts and tests."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class System(Protocol):
    """Runs behaviours."""

    def spawn(self, address: Address, factory: Factory, died: Callable[[BaseException], None]) -> None:
        """Start a new behaviour with the mailbox at `address` and send it `Begin`. `died` is called at most once."""

    def stop(self, address: Address) -> None:
        """Stop the actor at `address` after its current message; never blocks; ignores unknown addresses."""


class _Shell(pykka.ThreadingActor):
    """The pykka actor around one behaviour."""

    use_daemon_thread = True

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
        self._address.fail_open(f"{self._address.name} was stopped")


class ThreadSystem:
    """Runs each behaviour as a pykka actor, on a daemon thread of its own."""

    def __init__(self) -> None:
        self._refs: dict[Address, pykka.ActorRef[_Shell]] = {}

    def spawn(self, address: Address, factory: Factory, died: Callable[[BaseException], None]) -> None:
        """Start a thread for a new behaviour at `address`."""

        def dead(error: BaseException) -> None:
            # Nothing stops an actor without a supervisor; a restart replaces this entry.
            if self._refs.get(address) is ref:
                del self._refs[address]
            died(error)

        ref = _Shell.start(address, factory, dead)

        def deliver(message: object) -> bool:
            try:
                ref.tell(message)
            except pykka.ActorDeadError:
                return False
            return True

        self._refs[address] = ref
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
        return [a.name for a, ref in refs.items() if not _ended(ref, deadline)]


def _inbox(ref: pykka.ActorRef[_Shell]) -> queue.Queue[object]:
    """Return an actor's mailbox with the type that pykka.ThreadingActor creates."""
    return cast("queue.Queue[object]", ref.actor_inbox)


def _ended(ref: pykka.ActorRef[_Shell], deadline: float) -> bool:
    try:
        ref.stop(timeout=max(0.0, deadline - time.monotonic()))
    except pykka.Timeout:
        return False
    return True
