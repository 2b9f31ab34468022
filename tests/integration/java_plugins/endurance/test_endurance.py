"""Fifty tasks as Debezium's, and a day of their batches and of flushes: threads, handles and memory stay.

Debezium polls twice a second (`poll.interval.ms=500`), which is 172,800 polls of a task in 24 hours, and Connect
flushes offsets every minute (`offset.flush.interval.ms=60000`), 1,440 times. Both are compressed. Polls of the test's
source block for 50 µs in place of half a second, and each returns a batch: 8,640,000 of 50 tasks. Flushes are 100 ms
apart; Kafka's runtime flushes one task after the other, so there five tasks flush 1,440 times each. The day begins
when a twentieth of it has passed, so that compilers, caches and buffers have what they want. What happens by the clock,
such as the reports of the plugins' JVM twice a second, is not compressed.
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
from tests.integration.java_plugins.flows import a_name, kraal_worker, plugin_jvm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

TASKS = 50
POLLS = 172_800
FLUSHING = 5
FLUSHES = 1_440
CALLERS = 16
"""Threads of Python that all Java plugins share."""
DAY_S = 1200.0
"""A day takes two or three minutes on two cores."""
MB = 1 << 20


@pytest.fixture(scope="module")
def own(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """A worker of its own, whose threads are counted; its plugins' JVM has all its heap from the start."""
    properties = worker_properties | {
        "plugins.jvm.options": "-Xms256M -Xmx256M -XX:+UseParallelGC -XX:+AlwaysPreTouch",
        "offset.flush.interval.ms": "100",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    with kraal_worker(tmp_path_factory.mktemp("endurance"), kafka.bootstrap, properties) as made:
        yield made


def config(topic: str, *, tasks: int, poll_us: int = 500_000) -> dict[str, str]:
    """Return the config of a source whose tasks return a batch a poll."""
    return {
        "connector.class": "kraal.testing.BatchSource",
        "topic": topic,
        "tasks.max": str(tasks),
        "poll.us": str(poll_us),
    }


@dataclass(frozen=True)
class Use:
    """What the worker's process and the JVM of its plugins have."""

    threads: int
    handles: int
    memory: int
    """Bytes that no other process shares."""
    java_threads: int
    """Without those of JIT compilers, which come and go, and connections."""
    connections: int
    """Threads for calls from Python: one a thread there that has called, whatever it called for."""
    java_handles: int
    java_memory: int
    """Resident bytes, of which the heap is a constant part."""
    java_heap: int
    """Bytes of living objects, after a full collection."""

    @classmethod
    def of(cls, cluster: ProcessCluster) -> Use:
        worker = psutil.Process(cluster.alive[0].pid)
        java = plugin_jvm(cluster.alive[0])
        heap = jcmd(java, "GC.class_histogram").splitlines()[-1]  # collects first; the last line is the sum
        found = re.fullmatch(r"Total +\d+ +(\d+)", heap.strip())
        assert found, heap
        threads, connections = java_threads(java)
        return cls(
            threads=worker.num_threads(),
            handles=worker.num_fds(),
            memory=worker.memory_full_info().uss,
            java_threads=threads,
            connections=connections,
            java_handles=java.num_fds(),
            java_memory=java.memory_info().rss,
            java_heap=int(found[1]),
        )


def jcmd(java: psutil.Process, command: str) -> str:
    program = Path(find_java()).resolve().with_name("jcmd")
    return subprocess.run(
        [str(program), str(java.pid), command], capture_output=True, text=True, check=True, timeout=120
    ).stdout


def java_threads(java: psutil.Process) -> tuple[int, int]:
    """Return how many threads of Java there are without those for connections, and how many for these."""
    named = re.findall(r'^"(.*)" #\d+ ', jcmd(java, "Thread.print"), re.MULTILINE)
    lasting = [name for name in named if "CompilerThread" not in name]
    connections = [name for name in lasting if re.fullmatch(r"Thread-\d+", name)]
    return len(lasting) - len(connections), len(connections)


def wait_for_starters(cluster: ProcessCluster) -> None:
    """Wait until threads that started tasks have ended, which they do when they are idle for a minute."""
    threads = Path(f"/proc/{plugin_jvm(cluster.alive[0]).pid}/task")

    def ended() -> bool:
        try:
            return not any(path.read_text().startswith("kraal-start") for path in threads.glob("*/comm"))
        except OSError:  # one ended just now
            return False

    cluster.alive[0].wait_until("threads that started tasks had ended", ended)


def at_rest(cluster: ProcessCluster, name: str) -> Use:
    """Pause a connector, and return what both processes have; then resume it."""
    wait_for_starters(cluster)
    states = cluster.states(name)
    cluster.pause(name)
    cluster.alive[0].wait_for_states(name, ["PAUSED"] * len(states))
    use = Use.of(cluster)
    cluster.resume(name)
    cluster.alive[0].wait_for_states(name, states)
    return use


def wait_for(cluster: ProcessCluster, name: str, tasks: int, what: str, count: float) -> None:
    """Wait until the offset of each task says that it has done `count` polls or flushes."""
    worker = cluster.alive[0]

    def done() -> bool:
        found = worker.get(f"/connectors/{name}/offsets").body["offsets"]
        return len(found) == tasks and all(each["offset"][what] >= count for each in found)

    worker.wait_until(f"each task had {count} {what}", done, timeout_s=DAY_S)


def assert_nothing_grew(before: Use, after: Use) -> None:
    assert after.threads <= before.threads + 2
    assert after.handles <= before.handles + 5
    assert after.memory < before.memory + 20 * MB
    assert after.java_threads <= before.java_threads
    assert after.java_handles <= before.java_handles + 5
    assert after.java_memory < before.java_memory + 30 * MB
    assert after.java_heap < before.java_heap + 4 * MB


def test_a_task_has_two_threads_of_java_and_none_of_python(own: ProcessCluster) -> None:
    worker, first, name = own.alive[0], a_name("first"), a_name("many")
    own.create(first, config(first, tasks=1))  # starts what all of them share
    worker.wait_for_states(first, ["RUNNING"] * 2)
    wait_for_starters(own)
    before = Use.of(own)
    own.create(name, config(name, tasks=TASKS))
    worker.wait_for_states(name, ["RUNNING"] * (TASKS + 1))
    wait_for_starters(own)
    running = Use.of(own)
    assert running.java_threads <= before.java_threads + 1 + 2 * TASKS  # one is the connector's
    assert running.connections <= CALLERS + 8  # those of start, events, offsets and metrics, at rest or not
    assert running.threads <= before.threads + CALLERS
    own.delete(name)
    java = plugin_jvm(worker)
    worker.wait_until("their threads ended", lambda: java_threads(java)[0] <= before.java_threads)
    own.delete(first)


@pytest.mark.parametrize(
    ("what", "count", "tasks", "poll_us"),
    [
        pytest.param("polls", POLLS, TASKS, 50, id="batches"),
        pytest.param("flushes", FLUSHES, FLUSHING, 20_000, id="flushes"),
    ],
)
def test_day_of_operation_leaks_no_resources(
    own: ProcessCluster, what: str, count: int, tasks: int, poll_us: int
) -> None:
    name = a_name(what)
    own.create(name, config(name, tasks=tasks, poll_us=poll_us))
    own.alive[0].wait_for_states(name, ["RUNNING"] * (tasks + 1))
    wait_for(own, name, tasks, what, count / 20)
    before = at_rest(own, name)
    wait_for(own, name, tasks, what, count / 20 + count)
    after = at_rest(own, name)
    own.delete(name)
    assert_nothing_grew(before, after)
