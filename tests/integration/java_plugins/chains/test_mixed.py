"""Tests that Python connectors with Java transforms and converters match Kafka's connectors on a Java worker."""

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
    append,
    plugin_jvm,
    source_config,
    unique_name,
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
RECORD_COUNT = 5500
"""More records than are processed within the worker's process.

Not a multiple of 2000: after a full batch of 2000 lines, Kafka's source keeps the next lines in its buffer until the
file grows.
"""


@pytest.fixture(scope="module")
def mixed(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, plugin_path: Path
) -> Iterator[ProcessCluster]:
    """Run a worker whose plugin.path contains no file source, so that the worker uses Kraal's file source."""
    directory = tmp_path_factory.mktemp("mixed")
    properties = {"plugin.path": str(plugin_path / "faulty"), "offset.flush.interval.ms": "500"}
    cluster = ProcessCluster(directory=directory, bootstrap=kafka.bootstrap, properties=properties)
    try:
        cluster.start(1)
        wait_for_plugins(cluster.alive[0])
        yield cluster
    finally:
        cluster.close()


def run_source(side: ProcessCluster, file: Path, config: dict[str, str], count: int) -> list[object]:
    """Run a file source on a cluster; return the records."""
    name, worker = unique_name("mixed"), side.alive[0]
    side.create(name, source_config(file, name) | config)
    worker.wait_for_states(name, RUNNING)
    worker.wait_until("all lines arrived", lambda: len(side.records(name)) == count)
    records: list[object] = [
        (record.partition, record.key, record.value, record.headers) for record in side.records(name)
    ]
    side.delete(name)
    return records


@pytest.mark.one_a_day("config")
@pytest.mark.parametrize("config", [HOISTED, SHOUTING], ids=["hoisted", "shouting"])
def test_source_output_matches_java(
    java: MixedCluster, mixed: ProcessCluster, tmp_path: Path, config: dict[str, str]
) -> None:
    file = tmp_path / "in.txt"
    append(file, "first", "bad", "", "drop", "déjà vu", *(f"line {number}" for number in range(RECORD_COUNT)))
    assert run_source(mixed, file, config, RECORD_COUNT + 3) == run_source(
        java, file, config, RECORD_COUNT + 3
    )


@pytest.mark.one_a_day("config")
@pytest.mark.parametrize("config", [HOISTED, SHOUTING], ids=["hoisted", "shouting"])
def test_sink_output_matches_java(
    java: MixedCluster, mixed: ProcessCluster, tmp_path: Path, config: dict[str, str]
) -> None:
    topic, last = unique_name("for-sinks"), f"line {RECORD_COUNT}"
    texts = ["first", "bad", "drop", "déjà vu", *(f"line {number}" for number in range(RECORD_COUNT)), last]
    quoted = config is HOISTED
    mixed.write(topic, *(f'{{"schema":null,"payload":"{text}"}}' if quoted else text for text in texts))
    lines = [
        run_sink(side, topic, tmp_path / kind, config, last)
        for kind, side in (("java", java), ("kraal", mixed))
    ]
    assert len(lines[0]) == len(texts) - 2
    assert lines[1] == lines[0]


def run_sink(side: ProcessCluster, topic: str, file: Path, config: dict[str, str], last: str) -> list[str]:
    """Run a sink that writes a topic to a file, up to the last record; return the lines."""
    name, worker = unique_name("mixed"), side.alive[0]
    side.create(name, {"connector.class": FILE_SINK, "topics": topic, "file": str(file)} | config)
    worker.wait_for_states(name, RUNNING)
    worker.wait_until(
        "all records arrived", lambda: file.exists() and last in file.read_text("utf-8").rpartition(":")[2]
    )
    side.delete(name)
    return file.read_text("utf-8").splitlines()


def test_task_continues_after_the_jvm_was_killed(mixed: ProcessCluster, tmp_path: Path) -> None:
    file, name, worker = tmp_path / "in.txt", unique_name("killed"), mixed.alive[0]
    append(file, "a", "b")
    mixed.create(name, source_config(file, name) | TEXTS)
    wait_for_values(mixed, name, ["-1:a", "-2:b"])
    stored = [{"partition": {"filename": str(file)}, "offset": {"position": 4}}]
    worker.wait_until(
        "the offset was stored", lambda: worker.get(f"/connectors/{name}/offsets").body["offsets"] == stored
    )
    jvm = plugin_jvm(worker)
    jvm.kill()
    worker.wait_until("another JVM was running", lambda: plugin_jvm_or_none(mixed) not in (None, jvm.pid))
    append(file, "c")
    wait_for_values(mixed, name, ["-1:a", "-2:b", "-1:c"])
    worker.wait_for_states(name, RUNNING)
    mixed.delete(name)


def plugin_jvm_or_none(cluster: ProcessCluster) -> int | None:
    try:
        return plugin_jvm(cluster.alive[0]).pid
    except AssertionError:
        return None


def test_failed_record_fails_the_task_with_the_java_trace(mixed: ProcessCluster, tmp_path: Path) -> None:
    file, name, worker = tmp_path / "in.txt", unique_name("failing"), mixed.alive[0]
    append(file, "bad one")
    mixed.create(name, source_config(file, name) | TEXTS | {"errors.tolerance": "none"})
    worker.wait_for_states(name, ["RUNNING", "FAILED"])
    trace = worker.get(f"/connectors/{name}/tasks/0/status").body["trace"]
    assert trace.startswith("org.apache.kafka.connect.errors.DataException: bad one\n")
    assert "kraal.testing.Moody.apply" in trace
    mixed.delete(name)


def test_dead_letters_of_a_sink_match_java(java: MixedCluster, mixed: ProcessCluster, tmp_path: Path) -> None:
    topic = unique_name("with-bad")
    mixed.write(topic, "bad first", "good", "bad last")
    letters = []
    for kind, side in (("java", java), ("kraal", mixed)):
        dead_letter_topic, name = unique_name("dead"), f"dead-{kind}"
        config = {
            "connector.class": FILE_SINK,
            "topics": topic,
            "file": str(tmp_path / kind),
            "errors.deadletterqueue.topic.name": dead_letter_topic,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        side.create(name, config | TEXTS)
        side.alive[0].wait_until(
            "the dead letters arrived", partial(has_two_records, mixed, dead_letter_topic)
        )
        letters.append(
            [
                (record.value, normalize_headers(dict(record.headers)))
                for record in mixed.records(dead_letter_topic)
            ]
        )
        side.delete(name)
    assert letters[1] == letters[0]


def has_two_records(cluster: ProcessCluster, topic: str) -> bool:
    return len(cluster.values(topic)) == 2


def normalize_headers(headers: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """Remove the connector's name, and the stack frames below the plugin."""
    stack = headers["__connect.errors.exception.stacktrace"] or b""
    shortened = {"__connect.errors.exception.stacktrace": b"\n".join(stack.splitlines()[:2])}
    return headers | shortened | {"__connect.errors.connector.name": b""}


def test_sink_continues_after_the_jvm_was_killed(mixed: ProcessCluster, tmp_path: Path) -> None:
    file, name, topic, worker = (
        tmp_path / "out.txt",
        unique_name("killed"),
        unique_name("killed"),
        mixed.alive[0],
    )
    mixed.write(topic, "a", "b")
    mixed.create(name, {"connector.class": FILE_SINK, "topics": topic, "file": str(file)} | TEXTS)
    worker.wait_until(
        "the first records arrived", lambda: file.exists() and len(file.read_text().splitlines()) == 2
    )
    jvm = plugin_jvm(worker)
    jvm.kill()
    worker.wait_until("another JVM was running", lambda: plugin_jvm_or_none(mixed) not in (None, jvm.pid))
    mixed.write(topic, "c")
    worker.wait_until("the last record arrived", lambda: file.read_text().endswith(":c\n"))
    worker.wait_for_states(name, RUNNING)
    mixed.delete(name)
