"""The host of Java plugins keeps a process up, whatever becomes of it, and passes its events on."""

from __future__ import annotations

import itertools
import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from kraal.java_plugins import host as module
from kraal.java_plugins.discovery import Discovery
from kraal.java_plugins.host import PluginHost
from kraal.java_plugins.jvm import PluginsAway

TIMEOUT_S = 10.0
THREADS = 16


class Py4JJavaError(Exception):
    """What the gateway raises when Java has thrown."""


class FakeJvm:
    """A process that lives until a test ends it."""

    def __init__(self) -> None:
        self.events: queue.Queue[Any] = queue.Queue()
        self.levels: list[tuple[str, str]] = []
        self.died = threading.Event()
        self.start_errors: list[Exception] = []
        self.described = 0

    # What the host uses of `Jvm`.

    @property
    def entry(self) -> FakeJvm:
        """The same object has the methods of `PluginWorker`."""
        return self

    @property
    def alive(self) -> bool:
        """Whether nobody has ended it."""
        return not self.died.is_set()

    @property
    def end(self) -> str | None:
        """How it ended."""
        return None if self.alive else "exit code -9"

    def wait(self, timeout_s: float) -> None:
        """Wait for its end."""
        self.died.wait(timeout_s)

    def kill(self) -> None:
        """End it, also in the middle of a call."""
        self.died.set()
        self.events.put(ConnectionError("closed"))

    close = kill

    # What it uses of `PluginWorker`.

    def describe(self) -> str:
        """Return an empty catalog."""
        self.described += 1
        return "[]"

    def scan(self) -> str:
        """Return the plugins of an empty `plugin.path`."""
        return "[]"

    def start(self, *given: object) -> None:
        """Start, or raise."""
        del given
        if self.start_errors:
            raise self.start_errors.pop(0)

    def take(self, wait_ms: int) -> str:
        """Return the next events."""
        try:
            event = self.events.get(timeout=wait_ms / 1000)
        except queue.Empty:
            return "[]"
        if isinstance(event, Exception):
            raise event
        return json.dumps(event)

    def setLogLevel(self, namespace: str, level: str) -> None:  # noqa: N802 - Java's name
        """Note a level."""
        self.levels.append((namespace, level))

    def fail(self) -> None:
        """Throw."""
        raise Py4JJavaError("thrown")

    def die(self) -> None:
        """End in the middle of a call."""
        self.kill()
        raise ConnectionError("closed")


class Noting:
    """A listener that records its calls."""

    def __init__(self) -> None:
        self.events: queue.Queue[object] = queue.Queue()

    def on_up(self) -> None:
        """Note."""
        self.events.put("up")

    def on_down(self, why: str) -> None:
        """Note."""
        self.events.put(why)

    def event(self, event: Mapping[str, Any]) -> None:
        """Note, and fail if it says so."""
        self.events.put(event["what"])
        if event["what"] == "bad":
            raise ValueError

    def tick(self) -> None:
        """Do nothing."""

    def next(self) -> object:
        """Return the next call."""
        return self.events.get(timeout=TIMEOUT_S)


class Machine:
    """Hands out processes, or raises what a start should raise."""

    def __init__(self) -> None:
        self.started: queue.Queue[FakeJvm] = queue.Queue()
        self.failures: Iterator[Exception] = iter(())
        self.prepared: list[FakeJvm] = []

    def __call__(self, *_: object, **__: object) -> FakeJvm:
        """Start one."""
        for failure in self.failures:
            raise failure
        jvm = self.prepared.pop(0) if self.prepared else FakeJvm()
        self.started.put(jvm)
        return jvm

    def next(self) -> FakeJvm:
        """Return the process that was started next."""
        return self.started.get(timeout=TIMEOUT_S)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(module, "Jvm", machine)
    monkeypatch.setattr(module, "_RESTART_DELAYS_S", (0.0,))
    return machine


@pytest.fixture
def host(machine: Machine) -> Iterator[PluginHost]:
    del machine
    host = host_of()
    yield host
    host.close()


def host_of(connector: str = "", *, describes: bool = True) -> PluginHost:
    discovery = Discovery({"plugin.path": "nowhere"})
    return PluginHost(
        discovery=discovery, worker={"a": "b"}, class_path=list, describes=describes, connector=connector
    )


def never() -> bool:
    return False


def following(host: PluginHost, key: int = 1) -> Noting:
    listener = Noting()
    host.follow(key, listener)
    return listener


def test_events_reach_the_run_that_they_name(machine: Machine, host: PluginHost) -> None:
    first, second = following(host, 1), following(host, 2)
    host.start()
    assert (first.next(), second.next()) == ("up", "up")
    machine.next().events.put([{"run": 2, "what": "bad"}, {"run": 1, "what": "a"}, {"run": 9, "what": "b"}])
    assert (first.next(), second.next()) == ("a", "bad")
    assert host.describe(never) == "[]"


def test_a_process_that_ends_is_replaced(machine: Machine, host: PluginHost) -> None:
    listener = following(host)
    host.start()
    assert listener.next() == "up"
    host.set_log_level("a.b", "DEBUG")
    assert host.starts == 1
    machine.next().kill()
    assert listener.next() == "the JVM of Java plugins ended (exit code -9), and starts again"
    assert listener.next() == "up"
    assert host.down() is None
    assert host.starts == 2
    assert ("a.b", "DEBUG") in machine.next().levels


def test_a_start_that_fails_is_said_and_tried_again(machine: Machine, host: PluginHost) -> None:
    machine.failures = iter([RuntimeError("no memory")])
    listener = following(host)
    host.start()
    assert listener.next() == "Java plugins are not available: no memory"
    assert listener.next() == "up"


def test_each_new_reason_of_a_failed_start_reaches_listeners_once(machine: Machine, host: PluginHost) -> None:
    machine.failures = iter([RuntimeError("no memory"), RuntimeError("no memory"), RuntimeError("no Java")])
    listener = following(host)
    host.start()
    reasons = [listener.next(), listener.next(), listener.next()]
    assert reasons == [
        "Java plugins are not available: no memory",
        "Java plugins are not available: no Java",
        "up",
    ]


def test_the_first_scan_that_fails_is_raised(machine: Machine, host: PluginHost) -> None:
    machine.failures = itertools.repeat(RuntimeError("no memory"))
    host.start()
    with pytest.raises(PluginsAway, match="no memory"):
        host.describe(never)
    down = host.down()
    assert down is not None
    assert (down.name, down.why) == ("plugins-jvm", "Java plugins are not available: no memory")


def test_a_worker_that_is_asked_to_end_does_not_wait_for_the_scan(host: PluginHost) -> None:
    with pytest.raises(PluginsAway, match="starting"):
        host.describe(lambda: True)


def test_without_brokers_the_reason_is_said_until_they_are_there(machine: Machine, host: PluginHost) -> None:
    prepared = FakeJvm()
    prepared.start_errors = [RuntimeError("no brokers")] * 3
    machine.prepared = [prepared]
    listener = following(host)
    host.start()
    assert listener.next() == "Java plugins wait for Kafka: no brokers"
    assert listener.next() == "up"
    assert prepared.start_errors == []


@pytest.mark.parametrize(("method", "raised"), [("fail", Py4JJavaError), ("die", PluginsAway)])
def test_java_exceptions_and_process_exits_are_raised(
    machine: Machine, host: PluginHost, method: str, raised: type[Exception]
) -> None:
    del machine
    with pytest.raises(PluginsAway, match="starting") as away:
        host.ask(method)
    assert away.value.retry_after_s, "REST answers 503 with it"
    listener = following(host)
    host.start()
    listener.next()
    with pytest.raises(raised):
        host.ask(method)


def test_a_process_that_does_not_answer_is_ended(
    machine: Machine, host: PluginHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HUNG_TIMEOUT_S", -1.0)
    listener = following(host)
    host.start()
    assert listener.next() == "up"
    assert machine.next().died.wait(TIMEOUT_S)


def test_a_closed_host_drops_calls(host: PluginHost) -> None:
    done: list[int] = []
    call: Callable[[], None] = lambda: done.append(1)  # noqa: E731 - one call
    host.close()
    host.submit(call)
    assert done == []


def test_calls_that_were_submitted_before_the_end_are_made(host: PluginHost) -> None:
    listener, may_end, done = following(host), threading.Event(), threading.Semaphore(0)
    host.start()
    listener.next()
    for _ in range(THREADS):
        host.submit(lambda: may_end.wait(TIMEOUT_S))
    host.submit(done.release)  # such as a claim that is given up
    host.close()
    may_end.set()
    assert done.acquire(timeout=TIMEOUT_S)


@pytest.mark.parametrize("described", [[1, 0], [0, 0]])
def test_plugins_are_described_by_the_first_process_unless_they_are_cached(
    machine: Machine, described: list[int]
) -> None:
    host = host_of(describes=bool(described[0]))
    listener = following(host)
    host.start()
    assert listener.next() == "up"
    first = machine.next()
    first.kill()
    listener.next()
    assert listener.next() == "up"
    assert [first.described, machine.next().described] == described
    host.close()


def test_messages_name_the_connector_that_has_the_process_for_itself(machine: Machine) -> None:
    host = host_of("c")
    assert host.why_away == "the JVM of the connector c is starting"
    listener = following(host)
    host.start()
    assert listener.next() == "up"
    machine.next().kill()
    assert listener.next() == "the JVM of the connector c ended (exit code -9), and starts again"
    host.close()


def test_numbers_of_runs_differ_between_processes() -> None:
    assert len({host_of(name).next_number() for name in "abc"}) == 3
