"""Tests for actors on shared threads: message order, fairness, blocking plugin code, deaths and stops."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import pytest

from actors.runtime.mailbox import Address, Ask, Tell, ask
from actors.runtime.shared_threads import SIZE, SharedThreads, blocking
from actors.runtime.system import MAX_MESSAGES_PER_TURN, Begin, Crash, ThreadSystem
from kraal.core.errors import ActorDied
from kraal.core.logging import log_subject


@dataclass(frozen=True)
class RecordNumber(Tell):
    """Record a number."""

    value: int


@dataclass(frozen=True)
class ListNumbers(Ask[list[int]]):
    """Return the recorded numbers."""


@dataclass(frozen=True)
class Block(Tell):
    """Wait for an event, like blocking plugin code."""

    until: threading.Event


@dataclass(frozen=True)
class GetLogSubject(Ask[str]):
    """Return the subject of log lines."""


@dataclass
class NumberRecorder:
    """An actor that records numbers, and fails if two threads run it at once."""

    numbers: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    block_started: threading.Event = field(default_factory=threading.Event)

    def receive(self, message: object) -> object:
        assert self.lock.acquire(blocking=False), "two threads handle messages of one actor"
        try:
            return self._handle(message)
        finally:
            self.lock.release()

    def _handle(self, message: object) -> object:
        match message:
            case RecordNumber(value):
                self.numbers.append(value)
            case ListNumbers():
                return list(self.numbers)
            case GetLogSubject():
                return log_subject.get()
            case Block(until):
                with blocking():
                    self.block_started.set()
                    assert until.wait(10)
            case Begin():
                pass
            case _:
                raise AssertionError(message)
        return None


def create_shared_actor(system: ThreadSystem, name: str) -> tuple[Address, NumberRecorder]:
    address, recorder = Address(name), NumberRecorder()
    system.spawn(address, lambda: recorder, lambda _: None, shares_thread=True)
    return address, recorder


def list_shared_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kraal-actors"]


def wait_for_thread_count(count: int) -> None:
    """Wait until at most `count` shared threads are running."""
    deadline = time.monotonic() + 10
    while len(list_shared_threads()) > count:
        assert time.monotonic() < deadline, list_shared_threads()
        threading.Event().wait(0.01)


def test_shared_threads_handle_messages_of_many_actors_in_order(system: ThreadSystem) -> None:
    actors = [create_shared_actor(system, f"task {number}")[0] for number in range(300)]

    def send(offset: int) -> None:
        for value in range(50):
            for address in actors[offset::3]:
                address.tell(RecordNumber(value))

    senders = [threading.Thread(target=send, args=(offset,)) for offset in range(3)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert all(ask(address, ListNumbers(), timeout_s=10) == list(range(50)) for address in actors)
    wait_for_thread_count(SIZE)


def test_busy_actor_yields_to_other_actors() -> None:
    order: list[str] = []
    done, handled_messages = threading.Event(), threading.Semaphore(0)

    class Recorder:
        def __init__(self, name: str) -> None:
            self.name = name

        def receive(self, message: object) -> None:
            order.append(self.name)
            handled_messages.release()
            if self.name == "quiet" and isinstance(message, RecordNumber):
                done.set()

    pool = SharedThreads(1)
    system = ThreadSystem(pool)
    busy_actor, quiet_actor, start = Address("busy"), Address("quiet"), threading.Event()

    def wait() -> None:
        start.wait(10)

    for address in (busy_actor, quiet_actor):
        system.spawn(address, partial(Recorder, address.name), lambda _: None, shares_thread=True)
        assert handled_messages.acquire(timeout=10)
    wait_for_thread_count(1)
    order.clear()
    pool.submit(wait)
    for value in range(10 * MAX_MESSAGES_PER_TURN):
        busy_actor.tell(RecordNumber(value))
    quiet_actor.tell(RecordNumber(0))
    start.set()
    assert done.wait(10)
    assert order.index("quiet") == MAX_MESSAGES_PER_TURN
    assert system.close(10) == []
    assert order.count("busy") == 10 * MAX_MESSAGES_PER_TURN


def test_blocking_plugin_code_does_not_delay_other_actors(system: ThreadSystem) -> None:
    release = threading.Event()
    with ExitStack() as stack:
        stack.callback(release.set)
        for number in range(SIZE + 3):
            address, recorder = create_shared_actor(system, f"connector {number}")
            address.tell(Block(release))
            assert recorder.block_started.wait(10)
        other_actors = [create_shared_actor(system, f"task {number}")[0] for number in range(10)]
        for address in other_actors:
            address.tell(RecordNumber(1))
        assert all(ask(address, ListNumbers(), timeout_s=10) == [1] for address in other_actors)
    wait_for_thread_count(SIZE)


def test_log_lines_contain_the_current_actor(system: ThreadSystem) -> None:
    for name in ("task one-0", "task two-0"):
        assert ask(create_shared_actor(system, name)[0], GetLogSubject(), timeout_s=10) == name


def test_death_is_reported_and_pending_messages_are_dropped(system: ThreadSystem) -> None:
    died, address, recorder = threading.Event(), Address("task t-0"), NumberRecorder()
    system.spawn(address, lambda: recorder, lambda _: died.set(), shares_thread=True)
    release = threading.Event()
    address.tell(Block(release))
    assert recorder.block_started.wait(10)
    address.tell(Crash("lightning"))
    address.tell(RecordNumber(1))
    assert system.mailboxes() == {"task t-0": 2}
    release.set()
    assert died.wait(10)
    assert recorder.numbers == []
    address.fail_pending("dead")
    with pytest.raises(ActorDied):
        ask(address, ListNumbers(), timeout_s=10)


def test_stop_handles_earlier_messages_first(system: ThreadSystem) -> None:
    address, recorder = create_shared_actor(system, "task t-0")
    for value in range(2 * MAX_MESSAGES_PER_TURN):
        address.tell(RecordNumber(value))
    assert system.close(10) == []
    assert recorder.numbers == list(range(2 * MAX_MESSAGES_PER_TURN))


def test_raising_turn_does_not_stop_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    pool, next_turn = SharedThreads(1), threading.Event()

    def fail() -> None:
        raise SystemExit(1)

    pool.submit(fail)
    pool.submit(next_turn.set)
    assert next_turn.wait(10)
    assert "Uncaught exception in an actor" in caplog.text
    pool.close()
