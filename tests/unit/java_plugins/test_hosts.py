"""Which process a connector and its tasks get, and how long a process of their own lives."""

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
    """A host whose start waits for what must be over, and whose end a test can hold up."""

    def __init__(self, connector: str = "", before: Callable[[], None] = lambda: None) -> None:
        self.connector = connector
        self._before = before
        self.events: queue.Queue[str] = queue.Queue()
        self.may_end = threading.Event()
        self.may_end.set()
        self.levels: list[tuple[str, str]] = []

    def start(self) -> None:
        """Start, on a thread."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._before()
        self.events.put("started")

    def close(self) -> None:
        """End."""
        assert self.may_end.wait(TIMEOUT_S)
        self.events.put("ended")

    def set_log_level(self, namespace: str, level: str) -> None:
        """Note."""
        self.levels.append((namespace, level))

    def submit(self, work: Callable[[], object], *, may_block: bool) -> None:
        """Do it, as it were on a thread."""
        assert may_block
        work()

    def next(self) -> str:
        """Return the next event."""
        return self.events.get(timeout=TIMEOUT_S)


class Machine:
    """Creates hosts, and lists them."""

    def __init__(self, by_default: PluginsJvm = PluginsJvm.SHARED) -> None:
        self.shared = Host()
        self.processes: list[Host] = []
        self.hosts = PluginHosts(cast("PluginHost", self.shared), self._make, by_default)

    def _make(self, connector: str, before: Callable[[], None]) -> PluginHost:
        self.processes.append(Host(connector, before))
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
        (PluginsJvm.OWN, {"plugins.jvm": "what a Java worker let pass"}, True),
    ],
)
def test_the_connector_s_value_wins_over_the_worker_s(
    worker: PluginsJvm, config: dict[str, str], *, is_own: bool
) -> None:
    machine = Machine(worker)
    assert (machine.hosts.take("c", config) is not machine.hosts.shared) is is_own


def test_a_connector_and_its_tasks_share_one_process_until_none_is_left(machine: Machine) -> None:
    first = machine.hosts.take("c", OWN)
    assert machine.hosts.take("c", OWN) is first
    other = machine.hosts.take("d", OWN)
    assert machine.hosts.all() == {"": machine.hosts.shared, "c": first, "d": other}
    c, _ = machine.processes
    assert c.next() == "started"
    machine.hosts.give_back(first)
    assert machine.hosts.take("c", OWN) is first
    for _ in range(2):
        machine.hosts.give_back(first)
    assert c.next() == "ended"
    assert machine.hosts.all() == {"": machine.hosts.shared, "d": other}


def test_the_next_process_of_a_connector_starts_when_the_last_has_ended(machine: Machine) -> None:
    last = machine.hosts.take("c", OWN)
    machine.processes[0].may_end.clear()
    machine.hosts.give_back(last)
    fresh = machine.hosts.take("c", OWN)
    assert fresh is not last
    machine.hosts.give_back(last)  # too often; it is not the present one
    assert machine.hosts.all()["c"] is fresh
    assert machine.processes[1].events.empty()
    machine.processes[0].may_end.set()
    assert machine.processes[1].next() == "started"


def test_the_shared_process_is_not_ended_by_its_users(machine: Machine) -> None:
    machine.hosts.give_back(machine.hosts.take("c", {}))
    assert machine.shared.events.empty()


def test_levels_of_loggers_are_set_in_all_processes_and_in_later_ones(machine: Machine) -> None:
    machine.hosts.take("c", OWN)
    machine.hosts.set_log_level("a", "DEBUG")
    machine.hosts.set_log_level("b", "INFO")
    machine.hosts.set_log_level("a", "WARN")
    machine.hosts.take("d", OWN)
    all_of_them = [("a", "DEBUG"), ("b", "INFO"), ("a", "WARN")]
    assert machine.shared.levels == machine.processes[0].levels == all_of_them
    assert machine.processes[1].levels == [("b", "INFO"), ("a", "WARN")]


def test_the_worker_s_end_ends_all_processes_and_starts_no_more(machine: Machine) -> None:
    machine.hosts.take("c", OWN)
    host = machine.hosts.take("d", OWN)
    machine.hosts.give_back(host)  # ends meanwhile
    machine.hosts.close()
    assert [processes.events.queue[-1] for processes in (machine.shared, *machine.processes)] == ["ended"] * 3
    machine.hosts.give_back(host)
    assert machine.hosts.take("c", OWN) is machine.hosts.shared
    assert len(machine.processes) == 2


def test_a_connector_is_abandoned_once_and_not_after_it_was_stopped(machine: Machine) -> None:
    done: list[str] = []

    def earlier() -> None:
        done.append("earlier")

    def present() -> None:
        done.append("present")

    machine.hosts.add_stop("c", earlier)
    machine.hosts.add_stop("c", present)
    machine.hosts.remove_stop("c", earlier)
    for _ in range(2):
        machine.hosts.abandon("c")
    assert done == ["present"]
    machine.hosts.add_stop("c", present)
    machine.hosts.remove_stop("c", present)
    machine.hosts.abandon("c")
    assert done == ["present"]


def test_a_process_that_is_used_again_soon_is_kept(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_TIMEOUT_S", 0.01)
    host = machine.hosts.take("c", OWN)
    (processes,) = machine.processes
    assert processes.next() == "started"
    machine.hosts.take("c", OWN)
    machine.hosts.give_back(host, later=True)
    assert machine.hosts.all()["c"] is host
    machine.hosts.give_back(host, later=True)
    assert processes.next() == "ended"
    assert "c" not in machine.hosts.all()


def test_a_process_is_kept_for_longer_than_a_task_needs_to_be_opened_again(machine: Machine) -> None:
    host = machine.hosts.take("c", OWN)
    machine.hosts.give_back(host, later=True)
    assert machine.hosts.take("c", OWN) is host
    machine.hosts.close()
