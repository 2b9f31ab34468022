"""Tests that 50 tasks like Debezium's run for a simulated day without leaking threads, handles or memory.

Debezium polls twice a second (`poll.interval.ms=500`), so a task polls 172,800 times in 24 hours. Connect flushes
offsets every minute (`offset.flush.interval.ms=60000`), 1,440 times a day. The tests compress both. A poll of the
test's source blocks for 50 µs instead of half a second and returns one batch, so 50 tasks return 8,640,000 batches.
Flushes are 100 ms apart. Because Kafka's runtime flushes tasks one after another, the flush test has only five tasks,
which flush 1,440 times each. Measurements start after a twentieth of the day, when compilers, caches and buffers are
warm. Periodic activity, such as the reports of the plugins' JVM twice a second, is not compressed.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from kraal.broker.broker import Broker
from kraal.jars.java import find_java
from kraal.testing import ProcessCluster
from tests.integration.java_plugins.flows import kraal_worker, plugin_jvm, unique_name

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

TASK_COUNT = 50
POLLS_PER_DAY = 172_800
FLUSH_TASK_COUNT = 5
FLUSHES_PER_DAY = 1_440
CALLER_THREADS = 16
"""The number of Python threads that all Java plugins share."""
DAY_TIMEOUT_S = 1200.0
"""The timeout of a simulated day, which takes two or three minutes on two cores."""
MIB = 1 << 20


@pytest.fixture(scope="module")
def endurance_cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """Run a separate worker whose threads are counted. The plugins' JVM allocates its whole heap at startup."""
    properties = worker_properties | {
        "plugins.jvm.options": "-Xms256M -Xmx256M -XX:+UseParallelGC -XX:+AlwaysPreTouch",
        "offset.flush.interval.ms": "100",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    with kraal_worker(tmp_path_factory.mktemp("endurance"), kafka.bootstrap, properties) as cluster:
        yield cluster


def config(topic: str, *, tasks: int, poll_us: int = 500_000) -> dict[str, str]:
    """Return the config of a source whose tasks return one batch per poll."""
    return {
        "connector.class": "kraal.testing.BatchSource",
        "topic": topic,
        "tasks.max": str(tasks),
        "poll.us": str(poll_us),
    }


@dataclass(frozen=True)
class Usage:
    """The resources used by the worker's process and the JVM of its plugins."""

    threads: int
    handles: int
    memory: int
    """The private memory in bytes."""
    java_threads: int
    """The number of Java threads, except connection threads and JIT compiler threads, whose number varies."""
    connections: int
    """The number of threads for calls from Python: one for each Python thread that has made a call."""
    java_handles: int
    java_memory: int
    """The resident memory in bytes, including the heap, whose size is constant."""
    java_heap: int
    """The size of live objects in bytes, after a full collection."""

    @classmethod
    def of(cls, cluster: ProcessCluster) -> Usage:
        worker = psutil.Process(cluster.alive[0].pid)
        jvm = plugin_jvm(cluster.alive[0])
        heap = jcmd(jvm, "GC.class_histogram").splitlines()[
            -1
        ]  # after a full collection; the last line is the total
        match = re.fullmatch(r"Total +\d+ +(\d+)", heap.strip())
        assert match, heap
        threads, connections = java_threads(jvm)
        return cls(
            threads=worker.num_threads(),
            handles=worker.num_fds(),
            memory=worker.memory_full_info().uss,
            java_threads=threads,
            connections=connections,
            java_handles=jvm.num_fds(),
            java_memory=jvm.memory_info().rss,
            java_heap=int(match[1]),
        )


def jcmd(jvm: psutil.Process, command: str) -> str:
    program = Path(find_java()).resolve().with_name("jcmd")
    return subprocess.run(
        [str(program), str(jvm.pid), command], capture_output=True, text=True, check=True, timeout=120
    ).stdout


def java_threads(jvm: psutil.Process) -> tuple[int, int]:
    """Return the number of Java threads except connection threads, and the number of connection threads."""
    names = re.findall(r'^"(.*)" #\d+ ', jcmd(jvm, "Thread.print"), re.MULTILINE)
    counted_names = [name for name in names if "CompilerThread" not in name]
    connections = [name for name in counted_names if re.fullmatch(r"Thread-\d+", name)]
    return len(counted_names) - len(connections), len(connections)


def wait_for_start_threads(cluster: ProcessCluster) -> None:
    """Wait until the threads that started tasks have exited. They exit after a minute without work."""
    threads = Path(f"/proc/{plugin_jvm(cluster.alive[0]).pid}/task")

    def have_exited() -> bool:
        try:
            return not any(path.read_text().startswith("kraal-start") for path in threads.glob("*/comm"))
        except OSError:  # a thread has just exited
            return False

    cluster.alive[0].wait_until("threads that started tasks had ended", have_exited)


def measure_paused(cluster: ProcessCluster, name: str) -> Usage:
    """Pause a connector, measure both processes, and resume the connector."""
    wait_for_start_threads(cluster)
    states = cluster.states(name)
    cluster.pause(name)
    cluster.alive[0].wait_for_states(name, ["PAUSED"] * len(states))
    usage = Usage.of(cluster)
    cluster.resume(name)
    cluster.alive[0].wait_for_states(name, states)
    return usage


def wait_for_count(cluster: ProcessCluster, name: str, tasks: int, unit: str, count: float) -> None:
    """Wait until the offsets of all tasks show at least `count` polls or flushes."""
    worker = cluster.alive[0]

    def have_reached_count() -> bool:
        offsets = worker.get(f"/connectors/{name}/offsets").body["offsets"]
        return len(offsets) == tasks and all(entry["offset"][unit] >= count for entry in offsets)

    worker.wait_until(f"each task had {count} {unit}", have_reached_count, timeout_s=DAY_TIMEOUT_S)


def assert_usage_is_stable(before: Usage, after: Usage) -> None:
    assert after.threads <= before.threads + 2
    assert after.handles <= before.handles + 5
    assert after.memory < before.memory + 20 * MIB
    assert after.java_threads <= before.java_threads
    assert after.java_handles <= before.java_handles + 5
    assert after.java_memory < before.java_memory + 30 * MIB
    assert after.java_heap < before.java_heap + 4 * MIB


def test_task_uses_two_java_threads_and_no_python_threads(endurance_cluster: ProcessCluster) -> None:
    worker, first_name, name = endurance_cluster.alive[0], unique_name("first"), unique_name("many")
    endurance_cluster.create(
        first_name, config(first_name, tasks=1)
    )  # starts the threads that all tasks share
    worker.wait_for_states(first_name, ["RUNNING"] * 2)
    wait_for_start_threads(endurance_cluster)
    before = Usage.of(endurance_cluster)
    endurance_cluster.create(name, config(name, tasks=TASK_COUNT))
    worker.wait_for_states(name, ["RUNNING"] * (TASK_COUNT + 1))
    wait_for_start_threads(endurance_cluster)
    usage = Usage.of(endurance_cluster)
    assert (
        usage.java_threads <= before.java_threads + 1 + 2 * TASK_COUNT
    )  # one thread belongs to the connector
    # Eight more threads for starts, events, offsets and metrics.
    assert usage.connections <= CALLER_THREADS + 8
    assert usage.threads <= before.threads + CALLER_THREADS
    endurance_cluster.delete(name)
    jvm = plugin_jvm(worker)
    worker.wait_until(
        "the threads of the tasks had ended", lambda: java_threads(jvm)[0] <= before.java_threads
    )
    endurance_cluster.delete(first_name)


@pytest.mark.parametrize(
    ("unit", "count", "tasks", "poll_us"),
    [
        pytest.param("polls", POLLS_PER_DAY, TASK_COUNT, 50, id="batches"),
        pytest.param("flushes", FLUSHES_PER_DAY, FLUSH_TASK_COUNT, 20_000, id="flushes"),
    ],
)
def test_day_of_operation_leaks_no_resources(
    endurance_cluster: ProcessCluster, unit: str, count: int, tasks: int, poll_us: int
) -> None:
    name = unique_name(unit)
    endurance_cluster.create(name, config(name, tasks=tasks, poll_us=poll_us))
    endurance_cluster.alive[0].wait_for_states(name, ["RUNNING"] * (tasks + 1))
    wait_for_count(endurance_cluster, name, tasks, unit, count / 20)
    before = measure_paused(endurance_cluster, name)
    wait_for_count(endurance_cluster, name, tasks, unit, count / 20 + count)
    after = measure_paused(endurance_cluster, name)
    endurance_cluster.delete(name)
    assert_usage_is_stable(before, after)
