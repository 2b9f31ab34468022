"""Tests for the assignment of connectors and tasks to processes, and for the lifetime of the processes."""

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
OWN_JVM_CONFIG, SHARED_JVM_CONFIG = {"plugins.jvm": "own"}, {"plugins.jvm": "shared"}


class Host:
    """A host whose start calls `await_previous` and whose close can be delayed by a test."""

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


class WorkerHosts:
    """The hosts of a worker, and the processes that were created for them."""

    def __init__(self, default_jvm: PluginsJvm = PluginsJvm.SHARED) -> None:
        self.shared = Host()
        self.processes: list[Host] = []
        self.hosts = PluginHosts(cast("PluginHost", self.shared), self._make, default_jvm)

    def _make(self, connector: str, await_previous: Callable[[], None]) -> PluginHost:
        self.processes.append(Host(connector, await_previous))
        return cast("PluginHost", self.processes[-1])


@pytest.fixture
def worker_hosts() -> WorkerHosts:
    return WorkerHosts()


@pytest.mark.parametrize(
    ("worker_jvm", "config", "is_own"),
    [
        (PluginsJvm.SHARED, {}, False),
        (PluginsJvm.SHARED, OWN_JVM_CONFIG, True),
        (PluginsJvm.OWN, {}, True),
        (PluginsJvm.OWN, SHARED_JVM_CONFIG, False),
        (PluginsJvm.OWN, {"plugins.jvm": "a value that a Java worker did not validate"}, True),
    ],
)
def test_connector_setting_overrides_the_worker_setting(
    worker_jvm: PluginsJvm, config: dict[str, str], *, is_own: bool
) -> None:
    worker_hosts = WorkerHosts(worker_jvm)
    assert (worker_hosts.hosts.acquire("c", config) is not worker_hosts.hosts.shared) is is_own


def test_connector_and_its_tasks_share_a_process_until_all_release_it(worker_hosts: WorkerHosts) -> None:
    first = worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG)
    assert worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG) is first
    other_host = worker_hosts.hosts.acquire("d", OWN_JVM_CONFIG)
    assert worker_hosts.hosts.all() == {"": worker_hosts.hosts.shared, "c": first, "d": other_host}
    c, _ = worker_hosts.processes
    assert c.next() == "started"
    worker_hosts.hosts.release(first)
    assert worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG) is first
    for _ in range(2):
        worker_hosts.hosts.release(first)
    assert c.next() == "ended"
    assert worker_hosts.hosts.all() == {"": worker_hosts.hosts.shared, "d": other_host}


def test_next_process_starts_after_the_previous_has_exited(worker_hosts: WorkerHosts) -> None:
    previous_host = worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG)
    worker_hosts.processes[0].may_end.clear()
    worker_hosts.hosts.release(previous_host)
    current_host = worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG)
    assert current_host is not previous_host
    worker_hosts.hosts.release(previous_host)  # a surplus release of a host that is no longer current
    assert worker_hosts.hosts.all()["c"] is current_host
    assert worker_hosts.processes[1].events.empty()
    worker_hosts.processes[0].may_end.set()
    assert worker_hosts.processes[1].next() == "started"


def test_releasing_the_shared_host_does_not_close_it(worker_hosts: WorkerHosts) -> None:
    worker_hosts.hosts.release(worker_hosts.hosts.acquire("c", {}))
    assert worker_hosts.shared.events.empty()


def test_log_levels_are_set_in_all_current_and_later_processes(worker_hosts: WorkerHosts) -> None:
    worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG)
    worker_hosts.hosts.set_log_level("a", "DEBUG")
    worker_hosts.hosts.set_log_level("b", "INFO")
    worker_hosts.hosts.set_log_level("a", "WARN")
    worker_hosts.hosts.acquire("d", OWN_JVM_CONFIG)
    levels = [("a", "DEBUG"), ("b", "INFO"), ("a", "WARN")]
    assert worker_hosts.shared.levels == worker_hosts.processes[0].levels == levels
    assert worker_hosts.processes[1].levels == [("b", "INFO"), ("a", "WARN")]


def test_close_stops_all_processes_and_starts_no_more(worker_hosts: WorkerHosts) -> None:
    worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG)
    host = worker_hosts.hosts.acquire("d", OWN_JVM_CONFIG)
    for process in worker_hosts.processes:
        assert process.next() == "started"
    worker_hosts.hosts.release(host)  # closes the host concurrently
    worker_hosts.hosts.close()
    assert [process.events.queue[-1] for process in (worker_hosts.shared, *worker_hosts.processes)] == [
        "ended"
    ] * 3
    worker_hosts.hosts.release(host)
    assert worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG) is worker_hosts.hosts.shared
    assert len(worker_hosts.processes) == 2


def test_abandon_stops_a_started_connector_once(worker_hosts: WorkerHosts) -> None:
    stopped_connectors: list[str] = []

    def stop_previous() -> None:
        stopped_connectors.append("previous")

    def stop_current() -> None:
        stopped_connectors.append("current")

    worker_hosts.hosts.add_stop("c", stop_previous)
    worker_hosts.hosts.add_stop("c", stop_current)
    worker_hosts.hosts.remove_stop("c", stop_previous)
    for _ in range(2):
        worker_hosts.hosts.abandon("c")
    assert stopped_connectors == ["current"]
    worker_hosts.hosts.add_stop("c", stop_current)
    worker_hosts.hosts.remove_stop("c", stop_current)
    worker_hosts.hosts.abandon("c")
    assert stopped_connectors == ["current"]


def test_unused_process_is_closed_only_after_the_idle_timeout(
    worker_hosts: WorkerHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_TIMEOUT_S", 0.01)
    host = worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG)
    (process,) = worker_hosts.processes
    assert process.next() == "started"
    worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG)
    worker_hosts.hosts.release(host, later=True)
    assert worker_hosts.hosts.all()["c"] is host
    worker_hosts.hosts.release(host, later=True)
    assert process.next() == "ended"
    assert "c" not in worker_hosts.hosts.all()


def test_reopened_task_reuses_its_process(worker_hosts: WorkerHosts) -> None:
    host = worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG)
    worker_hosts.hosts.release(host, later=True)
    assert worker_hosts.hosts.acquire("c", OWN_JVM_CONFIG) is host
    worker_hosts.hosts.close()
