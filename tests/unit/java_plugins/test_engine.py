"""Tests for the assignment of tasks to engines: the JVM of the Java connector, or the engine of Python plugins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from kraal.config.connector.converters import ConverterSettings
from kraal.core.ids import Config, ConnectorName, Instance, TaskId
from kraal.engine.api import Failed, Run, RunEvent, Stopped, TaskSpec
from kraal.java_plugins.engine import JavaPluginEngine
from kraal.java_plugins.hosts import PluginHosts
from kraal.plugins.api import NotComparable
from kraal.plugins.registry import Registry
from kraal.testing._simulation.plugins import FAKE_SOURCE, FakeSourceConnector
from tests.unit.java_plugins.fake_host import FakeHost, FakeHosts

TASK = TaskId(ConnectorName("c"), 0)


class InnerEngine:
    """An engine that records the tasks that it opens."""

    def __init__(self) -> None:
        self.opened_tasks: list[TaskId] = []
        self.requested_classes: list[list[str | None]] = []

    def is_ready_for(self, connectors: Iterable[Config]) -> bool:
        """Record the classes of connectors; return True from the second call on."""
        self.requested_classes.append([connector.get("connector.class") for connector in connectors])
        return len(self.requested_classes) > 1

    def waiting_reason(self) -> str | None:
        """Return the reason why the engine is not up, or None after the first call of `is_ready_for`."""
        return None if self.requested_classes else "Spark is starting"

    def abandon(self, instance: Instance) -> None:
        """Do nothing."""

    def open(self, spec: TaskSpec, *arguments: Any) -> object:
        """Record the task."""
        del arguments
        self.opened_tasks.append(spec.task)
        return object()


class ProvingEngine(InnerEngine):
    """An engine whose proofs are texts."""

    def open_proof(self, spec: TaskSpec, target: object = None) -> str:
        """Return a proof of a connector in Python, or of a sink with a target."""
        suffix = "" if target is None else f" with {target}"
        return f"proof of {spec.connector_config['connector.class']}{suffix}"

    def open_keyed_proof(self, spec: TaskSpec, source: object) -> str:
        """Return a proof of a source with keys."""
        return f"proof of {spec.connector_config['connector.class']} with {source}"


def make_engine(
    inner: InnerEngine,
    hosts: FakeHosts,
    registry: Registry,
    keyed_sources: Any = MappingProxyType({}),
    sink_targets: Any = MappingProxyType({}),
) -> JavaPluginEngine:
    worker: Any = SimpleNamespace(raw={}, graceful_timeout_s=5.0)
    fake_hosts = cast("PluginHosts", hosts)
    return JavaPluginEngine(cast("Any", inner), fake_hosts, registry, worker, keyed_sources, sink_targets)


@dataclass
class OpenTask:
    """An open task of a connector, with its host and its events."""

    engine: JavaPluginEngine
    spec: TaskSpec
    run: Run
    host: FakeHost
    events: list[RunEvent]


def open_task(hosts: FakeHosts, registry: Registry, jvm: str) -> OpenTask:
    """Open a task in a JVM that is up."""
    engine = make_engine(InnerEngine(), hosts, registry)
    config = {"name": "c", "connector.class": "OldSource", "plugins.jvm": jvm}
    host, events = hosts.acquire("c", config), list[RunEvent]()
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
    assert [request[:4] for request in host.requests] == [("startTask", "c", 0, 1)]
    host.emit(1, "started")
    return OpenTask(engine, spec, run, host, events)


@pytest.mark.parametrize("jvm", ["own", "shared"])
def test_ended_task_releases_the_jvm_of_its_connector(hosts: FakeHosts, registry: Registry, jvm: str) -> None:
    task = open_task(hosts, registry, jvm)
    assert hosts.released_hosts == []
    task.run.cancel()
    assert task.events[1:] == [Stopped(clean=True)]
    assert (hosts.released_hosts, hosts.hosts_released_later) == ([task.host], [])


def test_host_is_kept_for_a_task_whose_jvm_was_lost(hosts: FakeHosts, registry: Registry) -> None:
    task = open_task(hosts, registry, "own")
    task.host.down()
    assert task.events[1:] == [Failed(trace="it was killed", engine_lost=True)]
    assert (hosts.released_hosts, hosts.hosts_released_later) == ([], [task.host])


@pytest.mark.parametrize("next_step", ["stop", "restart", "abandon"])
def test_failed_task_keeps_its_jvm_until_it_is_restarted_or_abandoned(
    hosts: FakeHosts, registry: Registry, next_step: str
) -> None:
    task = open_task(hosts, registry, "own")
    task.host.emit(1, "failed", "java.lang.Error: x")
    assert hosts.released_hosts == []
    match next_step:
        case "stop":
            task.run.stop()
        case "restart":
            task.engine.open(task.spec, {}, task.events.append)
        case _:
            task.engine.abandon(task.spec.task)
    assert hosts.released_hosts == [task.host]
    assert ("endTask", "c", 0, 1) in task.host.requests
    assert task.events[1:] == [Failed(trace="java.lang.Error: x")]


@pytest.mark.parametrize(
    ("name", "version", "is_java"),
    [
        ("OldSource", None, True),
        ("com.example.OldSource", "1.0", True),
        ("com.example.OldSource", "3.0", True),  # not installed
        ("com.example.OldSource", "[1,", True),
        (FAKE_SOURCE, None, False),
        (FAKE_SOURCE, "3.0", False),
    ],
)
def test_java_task_runs_in_its_jvm_even_if_its_version_is_not_installed(
    hosts: FakeHosts, registry: Registry, name: str, version: str | None, *, is_java: bool
) -> None:
    inner, events = InnerEngine(), list[RunEvent]()
    old_source = registry.connector_class("OldSource")
    mixed_registry = registry.with_connectors(
        {FAKE_SOURCE: FakeSourceConnector, "com.example.OldSource": old_source}
    )
    engine = make_engine(inner, hosts, mixed_registry)
    hosts.shared.up()
    config = {"name": "c", "connector.class": name} | (
        {} if version is None else {"connector.plugin.version": version}
    )
    engine.open(TaskSpec(task=TASK, task_config={}, connector_config=config), {}, events.append)
    assert [request[0] for request in hosts.shared.requests] == (["startTask"] if is_java else [])
    assert inner.opened_tasks == ([] if is_java else [TASK])


def test_only_engines_required_by_a_connector_are_started_and_awaited(
    hosts: FakeHosts, registry: Registry
) -> None:
    inner = InnerEngine()
    old_source = registry.connector_class("OldSource")
    mixed_registry = registry.with_connectors(
        {FAKE_SOURCE: FakeSourceConnector, "com.example.OldSource": old_source}
    )
    engine = make_engine(inner, hosts, mixed_registry)
    java_config, python_config, unresolved_config = (
        {"connector.class": name} for name in ("OldSource", FAKE_SOURCE, "${file:x:class}")
    )
    assert engine.is_ready_for([])
    assert not engine.is_ready_for([java_config]), "the plugins' JVM is down"
    hosts.shared.up()
    assert engine.is_ready_for([java_config])
    assert inner.requested_classes == []
    assert not engine.is_ready_for([java_config, python_config, unresolved_config])
    assert engine.is_ready_for([java_config, python_config])
    assert inner.requested_classes == [[FAKE_SOURCE, "${file:x:class}"], [FAKE_SOURCE]]
    assert engine.waiting_reason() is None
    hosts.shared.down()
    assert not engine.is_ready_for([java_config, python_config])
    assert engine.waiting_reason() == hosts.shared.down_reason


def test_connectors_of_unknown_classes_start_and_await_no_engine(
    hosts: FakeHosts, registry: Registry
) -> None:
    inner = InnerEngine()
    engine = make_engine(inner, hosts, registry)
    assert engine.is_ready_for([{"connector.class": "com.example.Gone"}, {"connector.class": ""}, {}])
    assert inner.requested_classes == []


def test_task_of_an_unknown_class_fails_without_starting_spark(hosts: FakeHosts, registry: Registry) -> None:
    inner, events = InnerEngine(), list[RunEvent]()
    spec = TaskSpec(task=TASK, task_config={}, connector_config={"connector.class": "com.example.Gone"})
    make_engine(inner, hosts, registry).open(spec, {}, events.append).next()
    (failure,) = events
    assert isinstance(failure, Failed)
    assert failure.trace.startswith("PluginMissing: Failed to find any class that implements Connector")
    assert inner.opened_tasks == []


def test_connector_class_with_a_variable_waits_for_spark(hosts: FakeHosts, registry: Registry) -> None:
    inner = InnerEngine()
    assert not make_engine(inner, hosts, registry).is_ready_for([{"connector.class": "${file:x:class}"}])


def make_proof_spec(class_name: str, **settings: str) -> TaskSpec:
    return TaskSpec(task=TASK, task_config={}, connector_config={"connector.class": class_name, **settings})


def test_java_source_with_keys_is_proved_with_its_converters_and_plugin(
    hosts: FakeHosts, registry: Registry
) -> None:
    sources = {"com.example.OldSource": lambda *parts: parts[1:]}
    engine = make_engine(ProvingEngine(), hosts, registry, sources)
    config = {"key.converter": "Both", "key.converter.size": "7", "connector.plugin.version": "1.0"}
    key = ConverterSettings("com.example.Both", {"size": "7"})
    value = ConverterSettings("org.apache.kafka.connect.converters.ByteArrayConverter", {})
    proof: object = engine.open_proof(make_proof_spec("OldSource", **config))
    assert proof == f"proof of OldSource with {(key, value, Path('/one'))}"


def test_target_of_a_java_sink_is_proved_without_java_converters(
    hosts: FakeHosts, registry: Registry
) -> None:
    targets = {"com.example.OldSource": lambda config, plugin: f"{config['connector.class']} in {plugin}"}
    engine = make_engine(ProvingEngine(), hosts, registry, sink_targets=targets)
    spec = make_proof_spec("OldSource", **{"connector.plugin.version": "1.0"})
    proof: object = engine.open_proof(spec)
    assert proof == "proof of OldSource with OldSource in /one"
    with pytest.raises(NotComparable, match="Java classes, which a proof cannot run"):
        engine.open_proof(
            make_proof_spec("OldSource", **{"key.converter": "Both", "connector.plugin.version": "1.0"})
        )


def test_other_java_connectors_are_not_proved(hosts: FakeHosts, registry: Registry) -> None:
    old_source = registry.connector_class("OldSource")
    mixed_registry = registry.with_connectors(
        {FAKE_SOURCE: FakeSourceConnector, "com.example.OldSource": old_source}
    )
    engine = make_engine(ProvingEngine(), hosts, mixed_registry)
    proof: object = engine.open_proof(make_proof_spec(FAKE_SOURCE))
    assert proof == f"proof of {FAKE_SOURCE}"
    with pytest.raises(NotComparable, match="the Java connector OldSource does not support proofs"):
        engine.open_proof(make_proof_spec("OldSource"))
    with pytest.raises(NotComparable, match="this worker cannot prove deliveries"):
        make_engine(InnerEngine(), hosts, mixed_registry).open_proof(make_proof_spec(FAKE_SOURCE))
