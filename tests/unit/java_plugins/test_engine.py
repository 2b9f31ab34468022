"""Which engine runs a task: a JVM of Java plugins, the one that the connector has, or the other engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraal.core.ids import Config, ConnectorName, Instance, TaskId
from kraal.engine.api import Failed, Run, RunEvent, Stopped, TaskSpec
from kraal.java_plugins.engine import JavaPluginEngine
from kraal.java_plugins.hosts import PluginHosts
from kraal.plugins.registry import Registry
from kraal.testing._simulation.plugins import FAKE_SOURCE, FakeSourceConnector
from tests.unit.java_plugins.fake_host import FakeHost, FakeHosts

TASK = TaskId(ConnectorName("c"), 0)


class Inner:
    """Another engine, which notes the tasks that it opens."""

    def __init__(self) -> None:
        self.opened: list[TaskId] = []
        self.wanted: list[list[str | None]] = []

    def ready_for(self, connectors: Iterable[Config]) -> bool:
        """Note the classes of connectors; it is up the second time."""
        self.wanted.append([each.get("connector.class") for each in connectors])
        return len(self.wanted) > 1

    def waits_for(self) -> str | None:
        """Return why it is not up."""
        return None if self.wanted else "Spark is starting"

    def abandon(self, instance: Instance) -> None:
        """Do nothing."""

    def open(self, spec: TaskSpec, *more: Any) -> object:
        """Note a task."""
        del more
        self.opened.append(spec.task)
        return object()


def engine_of(inner: Inner, hosts: FakeHosts, registry: Registry) -> JavaPluginEngine:
    worker = SimpleNamespace(raw={}, graceful_timeout_s=5.0)
    return JavaPluginEngine(cast("Any", inner), cast("PluginHosts", hosts), registry, cast("Any", worker))


@dataclass
class Opened:
    """A task of a connector, its host, and its reports."""

    engine: JavaPluginEngine
    spec: TaskSpec
    run: Run
    host: FakeHost
    events: list[RunEvent]


def opened(hosts: FakeHosts, registry: Registry, jvm: str) -> Opened:
    """Open a task in a process that is up."""
    engine = engine_of(Inner(), hosts, registry)
    config = {"name": "c", "connector.class": "OldSource", "plugins.jvm": jvm}
    host, events = hosts.take("c", config), list[RunEvent]()
    host.up()
    spec = TaskSpec(
        task=TaskId(ConnectorName("c"), 0),
        task_config={},
        connector_config=config,
        lease=lambda: True,
        assigned=lambda _: None,
        transactions=None,
    )
    run = engine.open(spec, {}, events.append)
    assert [each[:4] for each in host.requests] == [("startTask", "c", 0, 1)]
    host.tell(1, "started")
    return Opened(engine, spec, run, host, events)


@pytest.mark.parametrize("jvm", ["own", "shared"])
def test_a_task_runs_in_the_jvm_of_its_connector_which_is_given_back_when_it_is_over(
    hosts: FakeHosts, registry: Registry, jvm: str
) -> None:
    task = opened(hosts, registry, jvm)
    assert hosts.given_back == []
    task.run.cancel()
    assert task.events[1:] == [Stopped(clean=True)]
    assert (hosts.given_back, hosts.kept) == ([task.host], [])


def test_a_jvm_is_kept_for_a_task_that_continues_in_it(hosts: FakeHosts, registry: Registry) -> None:
    task = opened(hosts, registry, "own")
    task.host.down()
    assert task.events[1:] == [Failed(trace="it was killed", engine_lost=True)]
    assert (hosts.given_back, hosts.kept) == ([], [task.host])


@pytest.mark.parametrize("next_step", ["stop", "restart", "abandon"])
def test_a_failed_task_keeps_its_jvm_until_it_is_restarted_or_leaves(
    hosts: FakeHosts, registry: Registry, next_step: str
) -> None:
    task = opened(hosts, registry, "own")
    task.host.tell(1, "failed", "java.lang.Error: x")
    assert hosts.given_back == []
    match next_step:
        case "stop":
            task.run.stop()
        case "restart":
            task.engine.open(task.spec, {}, task.events.append)
        case _:
            task.engine.abandon(task.spec.task)
    assert hosts.given_back == [task.host]
    assert ("endTask", "c", 0, 1) in task.host.requests
    assert task.events[1:] == [Failed(trace="java.lang.Error: x")]


@pytest.mark.parametrize(
    ("name", "version", "is_java"),
    [
        ("OldSource", None, True),
        ("com.example.OldSource", "1.0", True),
        ("com.example.OldSource", "3.0", True),  # its directory is gone
        ("com.example.OldSource", "[1,", True),
        (FAKE_SOURCE, None, False),
        (FAKE_SOURCE, "3.0", False),
    ],
)
def test_java_tasks_run_in_their_jvm_also_if_their_version_is_gone(
    hosts: FakeHosts, registry: Registry, name: str, version: str | None, *, is_java: bool
) -> None:
    inner, events = Inner(), list[RunEvent]()
    old = registry.connector_class("OldSource")
    both = registry.with_connectors({FAKE_SOURCE: FakeSourceConnector, "com.example.OldSource": old})
    engine = engine_of(inner, hosts, both)
    hosts.shared.up()
    config = {"name": "c", "connector.class": name} | (
        {} if version is None else {"connector.plugin.version": version}
    )
    engine.open(TaskSpec(task=TASK, task_config={}, connector_config=config), {}, events.append)
    assert [each[0] for each in hosts.shared.requests] == (["startTask"] if is_java else [])
    assert inner.opened == ([] if is_java else [TASK])


def test_each_runtime_starts_and_is_waited_for_only_if_a_connector_needs_it(
    hosts: FakeHosts, registry: Registry
) -> None:
    inner = Inner()
    old = registry.connector_class("OldSource")
    both = registry.with_connectors({FAKE_SOURCE: FakeSourceConnector, "com.example.OldSource": old})
    engine = engine_of(inner, hosts, both)
    java, python, unknown = (
        {"connector.class": name} for name in ("OldSource", FAKE_SOURCE, "${file:x:class}")
    )
    assert engine.ready_for([])
    assert not engine.ready_for([java]), "the JVM of plugins is not up"
    hosts.shared.up()
    assert engine.ready_for([java])
    assert inner.wanted == []
    assert not engine.ready_for([java, python, unknown])
    assert engine.ready_for([java, python])
    assert inner.wanted == [[FAKE_SOURCE, "${file:x:class}"], [FAKE_SOURCE]]
    assert engine.waits_for() is None
    hosts.shared.down()
    assert not engine.ready_for([java, python])
    assert engine.waits_for() == hosts.shared.why_away


def test_connectors_of_unknown_classes_start_and_await_no_runtime(
    hosts: FakeHosts, registry: Registry
) -> None:
    inner = Inner()
    engine = engine_of(inner, hosts, registry)
    assert engine.ready_for([{"connector.class": "com.example.Gone"}, {"connector.class": ""}, {}])
    assert inner.wanted == []


def test_a_task_of_an_unknown_class_fails_without_starting_spark(
    hosts: FakeHosts, registry: Registry
) -> None:
    inner, events = Inner(), list[RunEvent]()
    spec = TaskSpec(task=TASK, task_config={}, connector_config={"connector.class": "com.example.Gone"})
    engine_of(inner, hosts, registry).open(spec, {}, events.append).next()
    (failed,) = events
    assert isinstance(failed, Failed)
    assert failed.trace.startswith("PluginMissing: Failed to find any class that implements Connector")
    assert inner.opened == []


def test_a_variable_class_waits_for_spark(hosts: FakeHosts, registry: Registry) -> None:
    inner = Inner()
    assert not engine_of(inner, hosts, registry).ready_for([{"connector.class": "${file:x:class}"}])
