"""Tests for the effect of faulty plugins on other connectors, in a shared JVM and in dedicated JVMs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil
import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.integration.java_plugins.flows import (
    RUNNING,
    faulty_config,
    kraal_worker,
    plugin_jvm,
    read_numbers,
    thread_names,
    unique_name,
    wait_for_more,
)

pytestmark = pytest.mark.ci
SETTINGS = {"plugins.jvm.options": "-Xms32M -Xmx96M", "task.shutdown.graceful.timeout.ms": "1000"}
LEAKED_THREADS = {"faulty-1", "faulty-2"}
"""The threads that the fault `thread` leaks."""


@pytest.fixture(scope="module")
def cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """Run a worker with small heaps. It must stop even if plugins have leaked threads in the shared JVM."""
    directory = tmp_path_factory.mktemp("jvms")
    with kraal_worker(directory, kafka.bootstrap, worker_properties | SETTINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def healthy_connectors(cluster: ProcessCluster) -> Mapping[str, str]:
    """Create a healthy connector in the shared JVM and another one in its own JVM. Return their names."""
    names = {jvm: unique_name(f"healthy-{jvm}") for jvm in ("shared", "own")}
    for jvm, name in names.items():
        cluster.create(name, config(name, jvm))
    for name in names.values():
        wait_for_more(cluster, name)
    return names


def config(topic: str, jvm: str, fault: str = "", at: str = "") -> dict[str, str]:
    return faulty_config(topic, fault, at) | {"plugins.jvm": jvm}


def find_jvm(cluster: ProcessCluster, name: str, jvm: str) -> psutil.Process:
    return plugin_jvm(cluster.alive[0], name if jvm == "own" else "")


@contextmanager
def expect_exits(
    cluster: ProcessCluster, healthy_connectors: Mapping[str, str], *exited_jvms: str
) -> Iterator[None]:
    """Assert that healthy connectors lose no records, and that of their JVMs, exactly `exited_jvms` exit."""
    jvms_before = {jvm: find_jvm(cluster, name, jvm) for jvm, name in healthy_connectors.items()}
    yield
    for jvm, name in healthy_connectors.items():
        wait_for_more(cluster, name)
        cluster.alive[0].wait_for_states(name, RUNNING)
        values = read_numbers(cluster, name)
        assert set(values) == set(range(max(values) + 1))
        assert jvms_before[jvm].is_running() is (jvm not in exited_jvms), jvm


@pytest.mark.one_a_day("jvm")
@pytest.mark.parametrize("jvm", ["shared", "own"])
def test_exhausted_heap_ends_only_its_jvm(
    cluster: ProcessCluster, healthy_connectors: Mapping[str, str], jvm: str
) -> None:
    """Reported in risingwavelabs/risingwave#24285 and #22708."""
    worker, name = cluster.alive[0], unique_name("exhausts")
    owner = "of Java plugins" if jvm == "shared" else f"of the connector {name}"
    with expect_exits(cluster, healthy_connectors, *(["shared"] if jvm == "shared" else [])):
        cluster.create(name, config(name, jvm, "exhaust", "task.poll"))
        worker.wait_until(
            "the exit was logged", lambda: f"Lost the JVM {owner}: exit code 3" in worker.log_text()
        )
        cluster.delete(name)
    assert "java.lang.OutOfMemoryError" in worker.log_text()


@pytest.mark.parametrize("jvm", ["shared", pytest.param("own", marks=pytest.mark.slow)])
def test_plugins_that_exit_block_or_leak_threads_do_not_affect_others(
    cluster: ProcessCluster, healthy_connectors: Mapping[str, str], jvm: str
) -> None:
    worker = cluster.alive[0]
    faults = {
        "exit": ("task.poll", ["RUNNING", "FAILED"]),
        "thread": ("task.start", RUNNING),
        "block": ("connector.taskConfigs", ["RUNNING"]),
    }
    names = {fault: unique_name(fault) for fault in faults}
    with expect_exits(cluster, healthy_connectors):
        for fault, (at, _) in faults.items():
            cluster.create(names[fault], config(names[fault], jvm, fault, at))
        for fault, (_, states) in faults.items():
            worker.wait_for_states(names[fault], states)
        processes = {find_jvm(cluster, name, jvm) for name in names.values()}
        leaking_jvm = find_jvm(cluster, names["thread"], jvm)
        worker.wait_until("threads were leaked", lambda: thread_names(leaking_jvm.pid) >= LEAKED_THREADS)
        for name in names.values():
            cluster.delete(name)
        if jvm == "own":
            _, remaining = psutil.wait_procs(processes, 60)
            assert remaining == [], "leaked threads must end with the connector's JVM"
        else:
            assert processes == {leaking_jvm}
            assert thread_names(leaking_jvm.pid) >= LEAKED_THREADS, (
                "leaked threads remain until the JVM exits"
            )


@pytest.mark.slow
def test_killed_jvm_is_restarted(cluster: ProcessCluster, healthy_connectors: Mapping[str, str]) -> None:
    with expect_exits(cluster, healthy_connectors, "own"):
        find_jvm(cluster, healthy_connectors["own"], "own").kill()
