"""What a plugin that misbehaves does to other connectors: in the JVM that they share, and in JVMs of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil
import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.integration.java_plugins.flows import (
    RUNNING,
    a_name,
    faulty_config,
    kraal_worker,
    numbers,
    plugin_jvm,
    threads,
    wait_for_more,
)

pytestmark = pytest.mark.ci
SETTINGS = {"plugins.jvm.options": "-Xms32M -Xmx96M", "task.shutdown.graceful.timeout.ms": "1000"}
LEAKED = {"faulty-1", "faulty-2"}
"""The threads that the fault `thread` leaves behind."""


@pytest.fixture(scope="module")
def cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """A worker whose JVMs have little memory; it ends although its shared JVM has threads that plugins left behind."""
    place = tmp_path_factory.mktemp("jvms")
    with kraal_worker(place, kafka.bootstrap, worker_properties | SETTINGS) as made:
        yield made


@pytest.fixture(scope="module")
def others(cluster: ProcessCluster) -> Mapping[str, str]:
    """The names of two connectors that work: one in the shared JVM, one in its own."""
    names = {jvm: a_name(f"healthy-{jvm}") for jvm in ("shared", "own")}
    for jvm, name in names.items():
        cluster.create(name, config(name, jvm))
    for name in names.values():
        wait_for_more(cluster, name)
    return names


def config(topic: str, jvm: str, fault: str = "", at: str = "") -> dict[str, str]:
    return faulty_config(topic, fault, at) | {"plugins.jvm": jvm}


def jvm_of(cluster: ProcessCluster, name: str, jvm: str) -> psutil.Process:
    return plugin_jvm(cluster.alive[0], name if jvm == "own" else "")


@contextmanager
def ends_the_jvms_of(cluster: ProcessCluster, others: Mapping[str, str], *ended: str) -> Iterator[None]:
    """Check which JVMs of connectors that work end meanwhile; afterwards they continue, and have lost nothing."""
    before = {jvm: jvm_of(cluster, name, jvm) for jvm, name in others.items()}
    yield
    for jvm, name in others.items():
        wait_for_more(cluster, name)
        cluster.alive[0].wait_for_states(name, RUNNING)
        found = numbers(cluster, name)
        assert set(found) == set(range(max(found) + 1))
        assert before[jvm].is_running() is (jvm not in ended), jvm


@pytest.mark.one_a_day("jvm")
@pytest.mark.parametrize("jvm", ["shared", "own"])
def test_exhausted_heap_fails_only_tasks_of_the_same_jvm(
    cluster: ProcessCluster, others: Mapping[str, str], jvm: str
) -> None:
    """risingwavelabs/risingwave#24285 and #22708."""
    worker, name = cluster.alive[0], a_name("exhausts")
    which = "of Java plugins" if jvm == "shared" else f"of the connector {name}"
    with ends_the_jvms_of(cluster, others, *(["shared"] if jvm == "shared" else [])):
        cluster.create(name, config(name, jvm, "exhaust", "task.poll"))
        worker.wait_until("it was told", lambda: f"Lost the JVM {which}: exit code 3" in worker.log_text())
        cluster.delete(name)
    assert "java.lang.OutOfMemoryError" in worker.log_text()


@pytest.mark.parametrize("jvm", ["shared", pytest.param("own", marks=pytest.mark.slow)])
def test_plugins_that_exit_block_and_leak_threads_leave_others_alone(
    cluster: ProcessCluster, others: Mapping[str, str], jvm: str
) -> None:
    worker = cluster.alive[0]
    faults = {
        "exit": ("task.poll", ["RUNNING", "FAILED"]),
        "thread": ("task.start", RUNNING),
        "block": ("connector.taskConfigs", ["RUNNING"]),
    }
    names = {fault: a_name(fault) for fault in faults}
    with ends_the_jvms_of(cluster, others):
        for fault, (at, _) in faults.items():
            cluster.create(names[fault], config(names[fault], jvm, fault, at))
        for fault, (_, states) in faults.items():
            worker.wait_for_states(names[fault], states)
        processes = {jvm_of(cluster, name, jvm) for name in names.values()}
        leaking = jvm_of(cluster, names["thread"], jvm)
        worker.wait_until("threads were left behind", lambda: threads(leaking.pid) >= LEAKED)
        for name in names.values():
            cluster.delete(name)
        if jvm == "own":
            _, left = psutil.wait_procs(processes, 60)
            assert left == [], "what a connector leaves behind ends with its JVM"
        else:
            assert processes == {leaking}
            assert threads(leaking.pid) >= LEAKED, "they stay until the JVM ends"


@pytest.mark.slow
def test_a_jvm_that_is_killed_is_replaced(cluster: ProcessCluster, others: Mapping[str, str]) -> None:
    with ends_the_jvms_of(cluster, others, "own"):
        jvm_of(cluster, others["own"], "own").kill()
