"""Tests for addresses, the thread clock and actor threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from actors.messages.supervisor import ListActors, Release, Supervise
from actors.runtime.clock import ThreadClock
from actors.runtime.mailbox import Address, Ask, Reply, Tell, ask, ask_async
from actors.runtime.system import Begin, Crash, ThreadSystem
from actors.supervisor import Supervisor
from kraal.cluster.decisions.actor_restart_budget import ActorRestartBudget
from kraal.core.errors import ActorDied, BadRequest, TimedOut


@dataclass(frozen=True)
class Echo(Ask[str]):
    """Return `text`, or raise BadRequest if it is `refuse`."""

    text: str


@dataclass(frozen=True)
class ReplyLater(Ask[str]):
    """Reply at the next Note."""


@dataclass(frozen=True)
class Note(Tell):
    """Record a text."""

    text: str


@dataclass
class Scribe:
    """An actor that records texts, and replies to ReplyLater at the next Note."""

    notes: list[str] = field(default_factory=list)
    note_received: threading.Event = field(default_factory=threading.Event)
    deferred_reply: Reply[str] | None = None

    def receive(self, message: object) -> object:
        match message:
            case Echo("refuse"):
                raise BadRequest("no")
            case Echo(text):
                return text
            case ReplyLater():
                self.deferred_reply = Reply()
                return self.deferred_reply
            case Note(text):
                self.notes.append(text)
                self.note_received.set()
                if self.deferred_reply is not None:
                    self.deferred_reply.set(text)
            case Begin():
                self.notes.append("begin")
            case _:
                raise AssertionError(message)
        return None


@pytest.fixture
def clock() -> Iterator[ThreadClock]:
    thread_clock = ThreadClock()
    yield thread_clock
    thread_clock.close()


@pytest.fixture
def scribe(system: ThreadSystem) -> tuple[Address, Scribe]:
    address, actor = Address("scribe"), Scribe()
    address.tell(Note("early"))
    system.spawn(address, lambda: actor, lambda _: None)
    assert actor.note_received.wait(5)
    return address, actor


def test_early_messages_are_delivered_after_begin(
    scribe: tuple[Address, Scribe],
) -> None:
    assert scribe[1].notes == ["begin", "early"]


def test_reply_is_immediate_deferred_or_an_error(scribe: tuple[Address, Scribe]) -> None:
    address, _ = scribe
    assert ask(address, Echo("a"), timeout_s=5) == "a"
    with pytest.raises(BadRequest):
        ask(address, Echo("refuse"), timeout_s=5)
    future = address.question(ReplyLater())
    address.tell(Note("now"))
    assert future.result(5) == "now"
    assert address.open_questions == 0


def test_request_times_out_and_late_reply_is_dropped(
    scribe: tuple[Address, Scribe],
) -> None:
    address, _ = scribe
    with pytest.raises(TimedOut, match="Request timed out"):
        ask(address, ReplyLater(), timeout_s=0.01)
    address.tell(Note("late"))
    assert ask(address, Echo("alive"), timeout_s=5) == "alive"


async def test_awaiting_a_reply_does_not_block_a_thread(scribe: tuple[Address, Scribe]) -> None:
    address, _ = scribe
    reply_task = asyncio.create_task(ask_async(address, ReplyLater(), timeout_s=5))
    await asyncio.sleep(0)
    assert await ask_async(address, Echo("meanwhile"), timeout_s=5) == "meanwhile"
    address.tell(Note("done"))
    assert await reply_task == "done"


def test_death_fails_pending_requests_and_restarted_actor_receives_messages(
    system: ThreadSystem, clock: ThreadClock
) -> None:
    supervisor, address = Address("supervisor"), Address("scribe")
    scribes: list[Scribe] = []
    restarted = threading.Event()

    def create_scribe() -> Scribe:
        scribes.append(Scribe())
        return scribes[-1]

    budget = ActorRestartBudget()
    system.spawn(
        supervisor,
        lambda: Supervisor(address=supervisor, system=system, clock=clock, budget=budget),
        lambda _: None,
    )
    supervisor.tell(
        Supervise(
            address=address,
            factory=create_scribe,
            on_budget_exhausted=lambda _: None,
            on_restart=restarted.set,
        )
    )
    request = address.question(ReplyLater())
    address.tell(Crash("lightning"))
    with pytest.raises(ActorDied, match="lightning"):
        request.result(5)
    assert restarted.wait(5)
    assert ask(address, Echo("back"), timeout_s=5) == "back"
    assert len(scribes) == 2
    assert ask(supervisor, ListActors(), timeout_s=5) == {"scribe": 1}
    supervisor.tell(Release(address))
    assert ask(supervisor, ListActors(), timeout_s=5) == {}


def test_restart_budget_backs_off_until_exhausted() -> None:
    budget = ActorRestartBudget(restarts=3, window_s=60, backoff_s=1, backoff_max_s=3)
    assert [budget.delay_s(tuple(range(1, n + 1)), n) for n in range(1, 6)] == [0.0, 1, 2, None, None]
    assert budget.delay_s((1, 2, 3, 100), 100) == 0.0, "deaths outside the time window are ignored"


def test_clock_sends_messages_in_time_order_and_drops_cancelled_messages(
    system: ThreadSystem, clock: ThreadClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, actor = Address("scribe"), Scribe()
    system.spawn(address, lambda: actor, lambda _: None)
    monkeypatch.setattr(clock, "now", lambda: 0.0)
    clock.after(0.05, address, Note("second"))
    clock.after(0.01, address, Note("first"))
    clock.after(0.03, address, Note("never")).cancel()
    monkeypatch.undo()
    actor.deferred_reply = Reply()
    while "second" not in actor.notes:
        actor.note_received.wait(5)
        actor.note_received.clear()
    assert actor.notes == ["begin", "first", "second"]


def test_actor_that_dies_without_a_supervisor_leaves_no_mailbox(system: ThreadSystem) -> None:
    died = threading.Event()
    address = Address("validation-7")
    system.spawn(address, Scribe, lambda _: died.set())
    assert list(system.mailboxes()) == ["validation-7"]
    address.tell(Crash("lightning"))
    assert died.wait(5)
    assert system.mailboxes() == {}


def test_death_does_not_remove_the_restarted_actor(system: ThreadSystem) -> None:
    address, restarted = Address("scribe"), threading.Event()

    def restart(error: BaseException) -> None:
        del error
        system.spawn(address, Scribe, lambda _: None)
        restarted.set()

    system.spawn(address, Scribe, restart)
    address.tell(Crash("lightning"))
    assert restarted.wait(5)
    assert ask(address, Echo("back"), timeout_s=5) == "back"
    assert list(system.mailboxes()) == ["scribe"]


def test_messages_are_queued_until_a_starting_actor_is_bound() -> None:
    address, messages = Address("scribe"), list[object]()
    address.bind(lambda _: False)  # a dead actor
    address.tell(Note("lost"))
    address.hold()
    address.tell(Note("first"))
    future = address.question(Echo("second"))

    def deliver(message: object) -> bool:
        messages.append(message)
        return True

    address.bind(deliver)
    address.tell(Note("third"))
    assert not future.done()
    assert [type(message).__name__ for message in messages] == ["Note", "Question", "Note"]
    assert messages[0] == Note("first")
