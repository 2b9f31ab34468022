"""Assignment of connectors and their tasks to processes, and the lifetime of these."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import cast

import pytest

from kraal.config.connector.java_plugins import PluginsJvm
from kraal.java_plugins import hosts as module
from kraal.java_plugins.host import PluginHost
from kraal.java_plugins.hosts import PluginHosts

TIMEOUT_S = 10.0
OWN, SHARED = {"plugins.jvm": "own"}, {"plugins.jvm": "shared"}


class Host:
    """A host whose start calls `await_previous`, and whose close a test can delay."""

    def __init__(self, connector: str = "", await_previous: Callable[[], None] = lambda: None) -> None:
        self.connector = connector
        self._await_previous = await_previous
        self.events: queue.Queue[str] = queue.Queue()
        self.may_end = threading.Event()
        self.may_end.set()
        self.levels: list[tuple[str, str]] = []

    def start(self) -> None:
        """Start the host on a thread."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._await_previous()
        self.events.put("started")

    def close(self) -> None:
        """Close the host when the test permits it."""
        assert self.may_end.wait(TIMEOUT_S)
        self.events.put("ended")

    def set_log_level(self, namespace: str, level: str) -> None:
        """Record a level."""
        self.levels.append((namespace, level))

    def submit(self, work: Callable[[], object], *, may_block: bool) -> None:
        """Execute the work."""
        assert may_block
        work()

    def next(self) -> str:
        """Return the next event."""
        return self.events.get(timeout=TIMEOUT_S)


class Machine:
    """Creates and lists hosts."""

    def __init__(self, default_jvm: PluginsJvm = PluginsJvm.SHARED) -> None:
        self.shared = Host()
        self.processes: list[Host] = []
        self.hosts = PluginHosts(cast("PluginHost", self.shared), self._make, default_jvm)

    def _make(self, connector: str, await_previous: Callable[[], None]) -> PluginHost:
        self.processes.append(Host(connector, await_previous))
        return cast("PluginHost", self.processes[-1])


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.mark.parametrize(
    ("worker", "config", "is_own"),
    [
        (PluginsJvm.SHARED, {}, False),
        (PluginsJvm.SHARED, OWN, True),
        (PluginsJvm.OWN, {}, True),
        (PluginsJvm.OWN, SHARED, False),
        (PluginsJvm.OWN, {"plugins.jvm": "a value that a Java worker did not validate"}, True),
    ],
)
def test_connector_setting_overrides_the_worker_setting(
    worker: PluginsJvm, config: dict[str, str], *, is_own: bool
) -> None:
    machine = Machine(worker)
    assert (machine.hosts.acquire("c", config) is not machine.hosts.shared) is is_own


def test_connector_and_its_tasks_share_a_process_until_all_release_it(machine: Machine) -> None:
    first = machine.hosts.acquire("c", OWN)
    assert machine.hosts.acquire("c", OWN) is first
    other = machine.hosts.acquire("d", OWN)
    assert machine.hosts.all() == {"": machine.hosts.shared, "c": first, "d": other}
    c, _ = machine.processes
    assert c.next() == "started"
    machine.hosts.release(first)
    assert machine.hosts.acquire("c", OWN) is first
    for _ in range(2):
        machine.hosts.release(first)
    assert c.next() == "ended"
    assert machine.hosts.all() == {"": machine.hosts.shared, "d": other}


def test_next_process_starts_after_the_previous_has_exited(machine: Machine) -> None:
    last = machine.hosts.acquire("c", OWN)
    machine.processes[0].may_end.clear()
    machine.hosts.release(last)
    fresh = machine.hosts.acquire("c", OWN)
    assert fresh is not last
    machine.hosts.release(last)  # a surplus release of a host that is no longer current
    assert machine.hosts.all()["c"] is fresh
    assert machine.processes[1].events.empty()
    machine.processes[0].may_end.set()
    assert machine.processes[1].next() == "started"


def test_releasing_the_shared_host_does_not_close_it(machine: Machine) -> None:
    machine.hosts.release(machine.hosts.acquire("c", {}))
    assert machine.shared.events.empty()


def test_log_levels_are_set_in_all_current_and_later_processes(machine: Machine) -> None:
    machine.hosts.acquire("c", OWN)
    machine.hosts.set_log_level("a", "DEBUG")
    machine.hosts.set_log_level("b", "INFO")
    machine.hosts.set_log_level("a", "WARN")
    machine.hosts.acquire("d", OWN)
    levels = [("a", "DEBUG"), ("b", "INFO"), ("a", "WARN")]
    assert machine.shared.levels == machine.processes[0].levels == levels
    assert machine.processes[1].levels == [("b", "INFO"), ("a", "WARN")]


def test_close_stops_all_processes_and_starts_no_more(machine: Machine) -> None:
    machine.hosts.acquire("c", OWN)
    host = machine.hosts.acquire("d", OWN)
    machine.hosts.release(host)  # closes the host concurrently
    machine.hosts.close()
    assert [processes.events.queue[-1] for processes in (machine.shared, *machine.processes)] == ["ended"] * 3
    machine.hosts.release(host)
    assert machine.hosts.acquire("c", OWN) is machine.hosts.shared
    assert len(machine.processes) == 2


def test_abandon_stops_a_started_connector_once(machine: Machine) -> None:
    done: list[str] = []

    def stop_previous() -> None:
        done.append("previous")

    def stop_current() -> None:
        done.append("current")

    machine.hosts.add_stop("c", stop_previous)
    machine.hosts.add_stop("c", stop_current)
    machine.hosts.remove_stop("c", stop_previous)
    for _ in range(2):
        machine.hosts.abandon("c")
    assert done == ["current"]
    machine.hosts.add_stop("c", stop_current)
    machine.hosts.remove_stop("c", stop_current)
    machine.hosts.abandon("c")
    assert done == ["current"]


def test_unused_process_is_closed_only_after_the_idle_timeout(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_TIMEOUT_S", 0.01)
    host = machine.hosts.acquire("c", OWN)
    (processes,) = machine.processes
    assert processes.next() == "started"
    machine.hosts.acquire("c", OWN)
    machine.hosts.release(host, later=True)
    assert machine.hosts.all()["c"] is host
    machine.hosts.release(host, later=True)
    assert processes.next() == "ended"
    assert "c" not in machine.hosts.all()


def test_reopened_task_reuses_its_process(machine: Machine) -> None:
    host = machine.hosts.acquire("c", OWN)
    machine.hosts.release(host, later=True)
    assert machine.hosts.acquire("c", OWN) is host
    machine.hosts.close()
