"""Connectors in Python with Java transforms and converters, next to Kafka's own on a Java worker with the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    FILE_SINK,
    RUNNING,
    a_name,
    append,
    plugin_jvm,
    source_config,
    wait_for_plugins,
    wait_for_values,
)

pytestmark = pytest.mark.ci

MOODY = {
    "transforms": "moody",
    "transforms.moody.type": "kraal.testing.Moody",
    "transforms.moody.prefix": "-",
    "errors.tolerance": "all",
}
HOISTED = MOODY | {
    "transforms": "moody, hoist",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "line",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "predicates": "not-dropped",
    "predicates.not-dropped.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    "transforms.hoist.predicate": "not-dropped",
    "transforms.hoist.negate": "true",
}
SHOUTING = MOODY | {"value.converter": "kraal.testing.Shouting"}
TEXTS = MOODY | {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
MANY = 5500
"""More records than pass in the worker's own process; not a multiple of Java's batches of 2000 lines, because Kafka's
source keeps what follows a full batch in its buffer until the file grows.
"""


@pytest.fixture(scope="module")
def mixed(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, plugin_path: Path
) -> Iterator[ProcessCluster]:
    """A worker whose plugin.path has no file source, so that Kraal's is used."""
    directory = tmp_path_factory.mktemp("mixed")
    properties = {"plugin.path": str(plugin_path / "faulty"), "offset.flush.interval.ms": "500"}
    made = ProcessCluster(directory=directory, bootstrap=kafka.bootstrap, properties=properties)
    try:
        made.start(1)
        wait_for_plugins(made.alive[0])
        yield made
    finally:
        made.close()


def written(side: ProcessCluster, file: Path, config: dict[str, str], count: int) -> list[object]:
    """Let a cluster read the file; return the records."""
    name, worker = a_name("mixed"), side.alive[0]
    side.create(name, source_config(file, name) | config)
    worker.wait_for_states(name, RUNNING)
    worker.wait_until("all lines were there", lambda: len(side.records(name)) == count)
    records: list[object] = [
        (each.partition, each.key, each.value, each.headers) for each in side.records(name)
    ]
    side.delete(name)
    return records


@pytest.mark.one_a_day("config")
@pytest.mark.parametrize("config", [HOISTED, SHOUTING], ids=["hoisted", "shouting"])
def test_a_source_writes_what_java_s_writes(
    java: MixedCluster, mixed: ProcessCluster, tmp_path: Path, config: dict[str, str]
) -> None:
    file = tmp_path / "in.txt"
    append(file, "first", "bad", "", "drop", "déjà vu", *(f"line {each}" for each in range(MANY)))
    assert written(mixed, file, config, MANY + 3) == written(java, file, config, MANY + 3)


@pytest.mark.one_a_day("config")
@pytest.mark.parametrize("config", [HOISTED, SHOUTING], ids=["hoisted", "shouting"])
def test_a_sink_writes_what_java_s_writes(
    java: MixedCluster, mixed: ProcessCluster, tmp_path: Path, config: dict[str, str]
) -> None:
    topic, last = a_name("for-sinks"), f"line {MANY}"
    texts = ["first", "bad", "drop", "déjà vu", *(f"line {each}" for each in range(MANY)), last]
    quoted = config is HOISTED
    mixed.write(topic, *(f'{{"schema":null,"payload":"{each}"}}' if quoted else each for each in texts))
    lines = [
        taken(side, topic, tmp_path / kind, config, last) for kind, side in (("java", java), ("kraal", mixed))
    ]
    assert len(lines[0]) == len(texts) - 2
    assert lines[1] == lines[0]


def taken(side: ProcessCluster, topic: str, file: Path, config: dict[str, str], last: str) -> list[str]:
    """Let a sink of a cluster write a topic to a file, up to the last record; return the lines."""
    name, worker = a_name("mixed"), side.alive[0]
    side.create(name, {"connector.class": FILE_SINK, "topics": topic, "file": str(file)} | config)
    worker.wait_for_states(name, RUNNING)
    worker.wait_until(
        "all records were there", lambda: file.exists() and last in file.read_text("utf-8").rpartition(":")[2]
    )
    side.delete(name)
    return file.read_text("utf-8").splitlines()


def test_a_task_continues_when_the_jvm_was_killed(mixed: ProcessCluster, tmp_path: Path) -> None:
    file, name, worker = tmp_path / "in.txt", a_name("killed"), mixed.alive[0]
    append(file, "a", "b")
    mixed.create(name, source_config(file, name) | TEXTS)
    wait_for_values(mixed, name, ["-1:a", "-2:b"])
    stored = [{"partition": {"filename": str(file)}, "offset": {"position": 4}}]
    worker.wait_until(
        "the offset was stored", lambda: worker.get(f"/connectors/{name}/offsets").body["offsets"] == stored
    )
    jvm = plugin_jvm(worker)
    jvm.kill()
    worker.wait_until("another JVM ran", lambda: plugin_jvm_or_none(mixed) not in (None, jvm.pid))
    append(file, "c")
    wait_for_values(mixed, name, ["-1:a", "-2:b", "-1:c"])
    worker.wait_for_states(name, RUNNING)
    mixed.delete(name)


def plugin_jvm_or_none(cluster: ProcessCluster) -> int | None:
    try:
        return plugin_jvm(cluster.alive[0]).pid
    except AssertionError:
        return None


def test_a_record_that_fails_fails_the_task_with_java_s_trace(mixed: ProcessCluster, tmp_path: Path) -> None:
    file, name, worker = tmp_path / "in.txt", a_name("failing"), mixed.alive[0]
    append(file, "bad one")
    mixed.create(name, source_config(file, name) | TEXTS | {"errors.tolerance": "none"})
    worker.wait_for_states(name, ["RUNNING", "FAILED"])
    trace = worker.get(f"/connectors/{name}/tasks/0/status").body["trace"]
    assert trace.startswith("org.apache.kafka.connect.errors.DataException: bad one\n")
    assert "kraal.testing.Moody.apply" in trace
    mixed.delete(name)


def test_dead_letters_of_a_sink_are_those_of_java(
    java: MixedCluster, mixed: ProcessCluster, tmp_path: Path
) -> None:
    topic = a_name("with-bad")
    mixed.write(topic, "bad first", "good", "bad last")
    found = []
    for kind, side in (("java", java), ("kraal", mixed)):
        dead, name = a_name("dead"), f"dead-{kind}"
        config = {
            "connector.class": FILE_SINK,
            "topics": topic,
            "file": str(tmp_path / kind),
            "errors.deadletterqueue.topic.name": dead,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        side.create(name, config | TEXTS)
        side.alive[0].wait_until("the dead letters were there", partial(has_two, mixed, dead))
        found.append([(each.value, comparable(dict(each.headers))) for each in mixed.records(dead)])
        side.delete(name)
    assert found[1] == found[0]


def has_two(cluster: ProcessCluster, topic: str) -> bool:
    return len(cluster.values(topic)) == 2


def comparable(headers: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """Leave out the connector's name and the frames of the stack below the plugin."""
    stack = headers["__connect.errors.exception.stacktrace"] or b""
    kept = {"__connect.errors.exception.stacktrace": b"\n".join(stack.splitlines()[:2])}
    return headers | kept | {"__connect.errors.connector.name": b""}


def test_a_sink_continues_when_the_jvm_was_killed(mixed: ProcessCluster, tmp_path: Path) -> None:
    file, name, topic, worker = tmp_path / "out.txt", a_name("killed"), a_name("killed"), mixed.alive[0]
    mixed.write(topic, "a", "b")
    mixed.create(name, {"connector.class": FILE_SINK, "topics": topic, "file": str(file)} | TEXTS)
    worker.wait_until(
        "the first were there", lambda: file.exists() and len(file.read_text().splitlines()) == 2
    )
    jvm = plugin_jvm(worker)
    jvm.kill()
    worker.wait_until("another JVM ran", lambda: plugin_jvm_or_none(mixed) not in (None, jvm.pid))
    mixed.write(topic, "c")
    worker.wait_until("the last was there", lambda: file.read_text().endswith(":c\n"))
    worker.wait_for_states(name, RUNNING)
    mixed.delete(name)
