"""Actors that share threads: order, fairness, plugin code that blocks, deaths and ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import pykka
import pytest

from actors.runtime.mailbox import Address, Ask, Tell, ask
from actors.runtime.shared_threads import SIZE, SharedThreads, blocking
from actors.runtime.system import TURN, Begin, Crash, ThreadSystem
from kraal.core.errors import ActorDied
from kraal.core.logging import about


@dataclass(frozen=True)
class Number(Tell):
    """A number to note."""

    value: int


@dataclass(frozen=True)
class Numbers(Ask[list[int]]):
    """Answered with the numbers so far."""


@dataclass(frozen=True)
class Block(Tell):
    """Wait for an event as plugin code may do."""

    until: threading.Event


@dataclass(frozen=True)
class Subject(Ask[str]):
    """Answered with the subject of log lines."""


@dataclass
class Noter:
    """Notes numbers; fails if two threads are inside at once."""

    numbers: list[int] = field(default_factory=list)
    inside: threading.Lock = field(default_factory=threading.Lock)
    blocked: threading.Event = field(default_factory=threading.Event)

    def receive(self, message: object) -> object:
        assert self.inside.acquire(blocking=False), "two threads handle messages of one actor"
        try:
            return self._handle(message)
        finally:
            self.inside.release()

    def _handle(self, message: object) -> object:
        match message:
            case Number(value):
                self.numbers.append(value)
            case Numbers():
                return list(self.numbers)
            case Subject():
                return about.get()
            case Block(until):
                with blocking():
                    self.blocked.set()
                    assert until.wait(10)
            case Begin():
                pass
            case _:
                raise AssertionError(message)
        return None


@pytest.fixture
def system() -> Iterator[ThreadSystem]:
    made = ThreadSystem()
    yield made
    assert made.close(5) == []
    assert not pykka.ActorRegistry.get_all(), "no test leaks an actor"


def shared(system: ThreadSystem, name: str) -> tuple[Address, Noter]:
    address, noter = Address(name), Noter()
    system.spawn(address, lambda: noter, lambda _: None, shares_thread=True)
    return address, noter


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kraal-actors"]


def at_most_are_left(count: int) -> None:
    """Wait until the threads that are not needed any more have ended."""
    deadline = time.monotonic() + 10
    while len(threads()) > count:
        assert time.monotonic() < deadline, threads()
        threading.Event().wait(0.01)


def test_many_actors_share_few_threads_and_each_handles_its_messages_in_order(system: ThreadSystem) -> None:
    actors = [shared(system, f"task {number}")[0] for number in range(300)]

    def send(offset: int) -> None:
        for value in range(50):
            for address in actors[offset::3]:
                address.tell(Number(value))

    senders = [threading.Thread(target=send, args=(offset,)) for offset in range(3)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert all(ask(address, Numbers(), timeout_s=10) == list(range(50)) for address in actors)
    assert len(threads()) <= SIZE


def test_an_actor_with_many_messages_lets_others_have_turns() -> None:
    order: list[str] = []
    done, begun = threading.Event(), threading.Semaphore(0)

    class Recorder:
        def __init__(self, name: str) -> None:
            self.name = name

        def receive(self, message: object) -> None:
            order.append(self.name)
            begun.release()
            if self.name == "quiet" and isinstance(message, Number):
                done.set()

    pool = SharedThreads(1)
    system = ThreadSystem(pool)
    busy, quiet, start = Address("busy"), Address("quiet"), threading.Event()

    def wait() -> None:
        start.wait(10)

    for address in (busy, quiet):
        system.spawn(address, partial(Recorder, address.name), lambda _: None, shares_thread=True)
        assert begun.acquire(timeout=10)
    at_most_are_left(1)
    order.clear()
    pool.submit(wait)
    for value in range(10 * TURN):
        busy.tell(Number(value))
    quiet.tell(Number(0))
    start.set()
    assert done.wait(10)
    assert order.index("quiet") == TURN
    assert system.close(10) == []
    assert order.count("busy") == 10 * TURN


def test_plugin_code_that_blocks_holds_up_no_other_actor(system: ThreadSystem) -> None:
    release = threading.Event()
    with ExitStack() as stack:
        stack.callback(release.set)
        for number in range(SIZE + 3):
            address, noter = shared(system, f"connector {number}")
            address.tell(Block(release))
            assert noter.blocked.wait(10)
        others = [shared(system, f"task {number}")[0] for number in range(10)]
        for address in others:
            address.tell(Number(1))
        assert all(ask(address, Numbers(), timeout_s=10) == [1] for address in others)
    at_most_are_left(SIZE)


def test_log_lines_name_the_actor_that_has_its_turn(system: ThreadSystem) -> None:
    for name in ("task one-0", "task two-0"):
        assert ask(shared(system, name)[0], Subject(), timeout_s=10) == name


def test_death_is_reported_and_pending_messages_are_dropped(system: ThreadSystem) -> None:
    died, address, noter = threading.Event(), Address("task t-0"), Noter()
    system.spawn(address, lambda: noter, lambda _: died.set(), shares_thread=True)
    release = threading.Event()
    address.tell(Block(release))
    assert noter.blocked.wait(10)
    address.tell(Crash("lightning"))
    address.tell(Number(1))
    assert system.mailboxes() == {"task t-0": 2}
    release.set()
    assert died.wait(10)
    assert noter.numbers == []
    address.fail_pending("dead")
    with pytest.raises(ActorDied):
        ask(address, Numbers(), timeout_s=10)


def test_a_stop_waits_for_the_messages_before_it(system: ThreadSystem) -> None:
    address, noter = shared(system, "task t-0")
    for value in range(2 * TURN):
        address.tell(Number(value))
    assert system.close(10) == []
    assert noter.numbers == list(range(2 * TURN))


def test_a_turn_that_raises_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    pool, after = SharedThreads(1), threading.Event()

    def fail() -> None:
        raise SystemExit(1)

    pool.submit(fail)
    pool.submit(after.set)
    assert after.wait(10)
    assert "A turn of an actor failed" in caplog.text
    pool.close()
