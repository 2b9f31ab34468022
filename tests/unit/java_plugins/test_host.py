"""Tests that the host of Java plugins restarts its process, dispatches events and calls methods."""

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
from kraal.java_plugins.jvm import PluginsUnavailable

TIMEOUT_S = 10.0
THREAD_COUNT = 16


class Py4JJavaError(Exception):
    """The gateway's error for an exception in Java."""


class FakeJvm:
    """A process that runs until a test kills it."""

    def __init__(self) -> None:
        self.events: queue.Queue[Any] = queue.Queue()
        self.levels: list[tuple[str, str]] = []
        self.died = threading.Event()
        self.start_errors: list[Exception] = []
        self.describe_count = 0

    # The methods of `Jvm` that the host uses.

    @property
    def entry(self) -> FakeJvm:
        """This object, which also has the methods of `PluginWorker`."""
        return self

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return not self.died.is_set()

    @property
    def end(self) -> str | None:
        """The reason for the exit, or None while the process is running."""
        return None if self.alive else "exit code -9"

    def wait(self, timeout_s: float) -> None:
        """Wait for the exit of the process."""
        self.died.wait(timeout_s)

    def kill(self) -> None:
        """Exit, and abort the current call."""
        self.died.set()
        self.events.put(ConnectionError("closed"))

    close = kill

    # The methods of `PluginWorker` that the host uses.

    def describe(self) -> str:
        """Return an empty catalog."""
        self.describe_count += 1
        return "[]"

    def scan(self) -> str:
        """Return the plugins of an empty `plugin.path`."""
        return "[]"

    def start(self, *arguments: object) -> None:
        """Start, or raise the next error."""
        del arguments
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
        """Record a level."""
        self.levels.append((namespace, level))

    def fail(self) -> None:
        """Raise the error of a Java exception."""
        raise Py4JJavaError("thrown")

    def die(self) -> None:
        """Exit during a call."""
        self.kill()
        raise ConnectionError("closed")


class RecordingListener:
    """A listener that records its calls."""

    def __init__(self) -> None:
        self.events: queue.Queue[object] = queue.Queue()

    def on_up(self) -> None:
        """Record the call."""
        self.events.put("up")

    def on_down(self, why: str) -> None:
        """Record the reason."""
        self.events.put(why)

    def event(self, event: Mapping[str, Any]) -> None:
        """Record the event; raise if it is `bad`."""
        self.events.put(event["what"])
        if event["what"] == "bad":
            raise ValueError

    def tick(self) -> None:
        """Do nothing."""

    def next(self) -> object:
        """Wait for the next recorded event, and return it."""
        return self.events.get(timeout=TIMEOUT_S)


class JvmFactory:
    """A factory that starts fake processes or raises errors."""

    def __init__(self) -> None:
        self.started_jvms: queue.Queue[FakeJvm] = queue.Queue()
        self.failures: Iterator[Exception] = iter(())
        self.prepared_jvms: list[FakeJvm] = []

    def __call__(self, *_: object, **__: object) -> FakeJvm:
        """Start a process."""
        for failure in self.failures:
            raise failure
        jvm = self.prepared_jvms.pop(0) if self.prepared_jvms else FakeJvm()
        self.started_jvms.put(jvm)
        return jvm

    def next(self) -> FakeJvm:
        """Return the next started process."""
        return self.started_jvms.get(timeout=TIMEOUT_S)


@pytest.fixture
def jvm_factory(monkeypatch: pytest.MonkeyPatch) -> JvmFactory:
    jvm_factory = JvmFactory()
    monkeypatch.setattr(module, "Jvm", jvm_factory)
    monkeypatch.setattr(module, "_RESTART_DELAYS_S", (0.0,))
    return jvm_factory


@pytest.fixture
def host(jvm_factory: JvmFactory) -> Iterator[PluginHost]:
    del jvm_factory
    host = make_host()
    yield host
    host.close()


def make_host(connector: str = "", *, describes_plugins: bool = True) -> PluginHost:
    discovery = Discovery({"plugin.path": "nowhere"})
    return PluginHost(
        discovery=discovery,
        worker={"a": "b"},
        class_path=list,
        describes_plugins=describes_plugins,
        connector=connector,
    )


def never() -> bool:
    return False


def listen(host: PluginHost, key: int = 1) -> RecordingListener:
    listener = RecordingListener()
    host.add_listener(key, listener)
    return listener


def wait_for_event(listener: RecordingListener, event: str) -> None:
    while listener.next() != event:
        pass


def test_events_are_dispatched_to_the_listener_of_their_run(
    jvm_factory: JvmFactory, host: PluginHost
) -> None:
    first, second = listen(host, 1), listen(host, 2)
    host.start()
    assert (first.next(), second.next()) == ("up", "up")
    jvm_factory.next().events.put(
        [{"run": 2, "what": "bad"}, {"run": 1, "what": "a"}, {"run": 9, "what": "b"}]
    )
    assert (first.next(), second.next()) == ("a", "bad")
    assert host.describe(never) == "[]"


def test_exited_process_is_restarted(jvm_factory: JvmFactory, host: PluginHost) -> None:
    listener = listen(host)
    host.start()
    assert listener.next() == "up"
    host.set_log_level("a.b", "DEBUG")
    assert host.starts == 1
    jvm_factory.next().kill()
    assert listener.next() == "the JVM of Java plugins exited (exit code -9) and is being restarted"
    assert listener.next() == "up"
    assert host.down() is None
    assert host.starts == 2
    assert ("a.b", "DEBUG") in jvm_factory.next().levels


@pytest.mark.parametrize(("uptime_s", "starts"), [(3600.0, 2), (0.0, 3)])
def test_restart_is_delayed_for_a_process_that_exits_soon_after_its_start(
    jvm_factory: JvmFactory, host: PluginHost, monkeypatch: pytest.MonkeyPatch, uptime_s: float, starts: int
) -> None:
    monkeypatch.setattr(module, "_STABLE_UPTIME_S", uptime_s)
    monkeypatch.setattr(module, "_RESTART_DELAYS_S", (0.0, 0.0, 3600.0))
    listener = listen(host)
    host.start()
    for _ in range(2):
        wait_for_event(listener, "up")
        jvm_factory.next().kill()
    if starts == 3:
        wait_for_event(listener, "up")
    else:
        with pytest.raises(queue.Empty):
            jvm_factory.started_jvms.get(timeout=0.2)
    assert host.starts == starts


def test_failed_start_is_reported_and_retried(jvm_factory: JvmFactory, host: PluginHost) -> None:
    jvm_factory.failures = iter([RuntimeError("no memory")])
    listener = listen(host)
    host.start()
    assert listener.next() == "Java plugins are not available: no memory"
    assert listener.next() == "up"


def test_repeated_start_errors_are_reported_once(jvm_factory: JvmFactory, host: PluginHost) -> None:
    jvm_factory.failures = iter(
        [RuntimeError("no memory"), RuntimeError("no memory"), RuntimeError("no Java")]
    )
    listener = listen(host)
    host.start()
    reasons = [listener.next(), listener.next(), listener.next()]
    assert reasons == [
        "Java plugins are not available: no memory",
        "Java plugins are not available: no Java",
        "up",
    ]


def test_describe_raises_an_error_if_the_process_does_not_start(
    jvm_factory: JvmFactory, host: PluginHost
) -> None:
    jvm_factory.failures = itertools.repeat(RuntimeError("no memory"))
    host.start()
    with pytest.raises(PluginsUnavailable, match="no memory"):
        host.describe(never)
    down = host.down()
    assert down is not None
    assert (down.name, down.why) == ("plugins-jvm", "Java plugins are not available: no memory")


def test_describe_does_not_wait_if_the_worker_is_stopping(host: PluginHost) -> None:
    with pytest.raises(PluginsUnavailable, match="starting"):
        host.describe(lambda: True)


def test_unreachable_brokers_are_reported_until_the_worker_starts(
    jvm_factory: JvmFactory, host: PluginHost
) -> None:
    prepared_jvm = FakeJvm()
    prepared_jvm.start_errors = [RuntimeError("no brokers")] * 3
    jvm_factory.prepared_jvms = [prepared_jvm]
    listener = listen(host)
    host.start()
    assert listener.next() == "Java plugins are waiting for Kafka: no brokers"
    assert listener.next() == "up"
    assert prepared_jvm.start_errors == []


@pytest.mark.parametrize(("method", "error_type"), [("fail", Py4JJavaError), ("die", PluginsUnavailable)])
def test_ask_raises_java_exceptions_and_process_exits(
    jvm_factory: JvmFactory, host: PluginHost, method: str, error_type: type[Exception]
) -> None:
    del jvm_factory
    with pytest.raises(PluginsUnavailable, match="starting") as unavailable:
        host.ask(method)
    assert unavailable.value.retry_after_s, "REST returns 503 with Retry-After"
    listener = listen(host)
    host.start()
    listener.next()
    with pytest.raises(error_type):
        host.ask(method)


def test_unresponsive_process_is_killed(
    jvm_factory: JvmFactory, host: PluginHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HUNG_TIMEOUT_S", -1.0)
    listener = listen(host)
    host.start()
    assert listener.next() == "up"
    assert jvm_factory.next().died.wait(TIMEOUT_S)


def test_closed_host_drops_calls(host: PluginHost) -> None:
    calls: list[int] = []
    call: Callable[[], None] = lambda: calls.append(1)  # noqa: E731 - one call
    host.close()
    host.submit(call)
    assert calls == []


def test_calls_submitted_before_close_are_executed(host: PluginHost) -> None:
    listener, may_end, executed = listen(host), threading.Event(), threading.Semaphore(0)
    host.start()
    listener.next()
    for _ in range(THREAD_COUNT):
        host.submit(lambda: may_end.wait(TIMEOUT_S))
    host.submit(executed.release)  # such as the release of a claim
    host.close()
    may_end.set()
    assert executed.acquire(timeout=TIMEOUT_S)


@pytest.mark.parametrize("describe_counts", [[1, 0], [0, 0]])
def test_first_process_describes_plugins_unless_they_are_cached(
    jvm_factory: JvmFactory, describe_counts: list[int]
) -> None:
    host = make_host(describes_plugins=bool(describe_counts[0]))
    listener = listen(host)
    host.start()
    assert listener.next() == "up"
    first = jvm_factory.next()
    first.kill()
    listener.next()
    assert listener.next() == "up"
    assert [first.describe_count, jvm_factory.next().describe_count] == describe_counts
    host.close()


def test_messages_name_the_connector_of_a_dedicated_process(jvm_factory: JvmFactory) -> None:
    host = make_host("c")
    assert host.down_reason == "the JVM of the connector c is starting"
    listener = listen(host)
    host.start()
    assert listener.next() == "up"
    jvm_factory.next().kill()
    assert listener.next() == "the JVM of the connector c exited (exit code -9) and is being restarted"
    host.close()


def test_run_numbers_are_unique_across_hosts() -> None:
    assert len({make_host(name).next_number() for name in "abc"}) == 3
