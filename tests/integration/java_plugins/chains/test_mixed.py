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

MOODY_CONFIG = {
    "transforms": "moody",
    "transforms.moody.type": "kraal.testing.Moody",
    "transforms.moody.prefix": "-",
    "errors.tolerance": "all",
}
HOIST_CONFIG = MOODY_CONFIG | {
    "transforms": "moody, hoist",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "line",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "predicates": "not-dropped",
    "predicates.not-dropped.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    "transforms.hoist.predicate": "not-dropped",
    "transforms.hoist.negate": "true",
}
SHOUTING_CONFIG = MOODY_CONFIG | {"value.converter": "kraal.testing.Shouting"}
STRING_CONFIG = MOODY_CONFIG | {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
RECORD_COUNT = 5500
"""Number of records, which exceeds the number that the worker process converts without Spark.

The number must not be a multiple of 2000: after a full batch of 2000 lines, Kafka's source keeps the next lines in its
buffer until the file grows.
"""


@pytest.fixture(scope="module")
def kraal_cluster(
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


def run_source(cluster: ProcessCluster, file: Path, config: dict[str, str], count: int) -> list[object]:
    """Run a file source on a cluster, and return the records that it has written."""
    name, worker = unique_name("mixed"), cluster.alive[0]
    cluster.create(name, source_config(file, name) | config)
    worker.wait_for_states(name, RUNNING)
    worker.wait_until("all lines arrived", lambda: len(cluster.records(name)) == count)
    records: list[object] = [
        (record.partition, record.key, record.value, record.headers) for record in cluster.records(name)
    ]
    cluster.delete(name)
    return records


@pytest.mark.one_a_day("config")
@pytest.mark.parametrize("config", [HOIST_CONFIG, SHOUTING_CONFIG], ids=["hoisted", "shouting"])
def test_source_output_matches_java(
    java_cluster: MixedCluster, kraal_cluster: ProcessCluster, tmp_path: Path, config: dict[str, str]
) -> None:
    file = tmp_path / "in.txt"
    append(file, "first", "bad", "", "drop", "déjà vu", *(f"line {number}" for number in range(RECORD_COUNT)))
    assert run_source(kraal_cluster, file, config, RECORD_COUNT + 3) == run_source(
        java_cluster, file, config, RECORD_COUNT + 3
    )


@pytest.mark.one_a_day("config")
@pytest.mark.parametrize("config", [HOIST_CONFIG, SHOUTING_CONFIG], ids=["hoisted", "shouting"])
def test_sink_output_matches_java(
    java_cluster: MixedCluster, kraal_cluster: ProcessCluster, tmp_path: Path, config: dict[str, str]
) -> None:
    topic, last = unique_name("for-sinks"), f"line {RECORD_COUNT}"
    texts = ["first", "bad", "drop", "déjà vu", *(f"line {number}" for number in range(RECORD_COUNT)), last]
    is_json = config is HOIST_CONFIG
    kraal_cluster.write(
        topic, *(f'{{"schema":null,"payload":"{text}"}}' if is_json else text for text in texts)
    )
    lines = [
        run_sink(cluster, topic, tmp_path / worker_kind, config, last)
        for worker_kind, cluster in (("java", java_cluster), ("kraal", kraal_cluster))
    ]
    assert len(lines[0]) == len(texts) - 2
    assert lines[1] == lines[0]


def run_sink(
    cluster: ProcessCluster, topic: str, file: Path, config: dict[str, str], last_value: str
) -> list[str]:
    """Run a sink that writes a topic to a file until it has written `last_value`. Return the file's lines."""
    name, worker = unique_name("mixed"), cluster.alive[0]
    cluster.create(name, {"connector.class": FILE_SINK, "topics": topic, "file": str(file)} | config)
    worker.wait_for_states(name, RUNNING)
    worker.wait_until(
        "all records arrived",
        lambda: file.exists() and last_value in file.read_text("utf-8").rpartition(":")[2],
    )
    cluster.delete(name)
    return file.read_text("utf-8").splitlines()


def test_task_continues_after_the_jvm_was_killed(kraal_cluster: ProcessCluster, tmp_path: Path) -> None:
    file, name, worker = tmp_path / "in.txt", unique_name("killed"), kraal_cluster.alive[0]
    append(file, "a", "b")
    kraal_cluster.create(name, source_config(file, name) | STRING_CONFIG)
    wait_for_values(kraal_cluster, name, ["-1:a", "-2:b"])
    stored_offsets = [{"partition": {"filename": str(file)}, "offset": {"position": 4}}]
    worker.wait_until(
        "the offset was stored",
        lambda: worker.get(f"/connectors/{name}/offsets").body["offsets"] == stored_offsets,
    )
    jvm = plugin_jvm(worker)
    jvm.kill()
    worker.wait_until(
        "another JVM was running", lambda: plugin_jvm_or_none(kraal_cluster) not in (None, jvm.pid)
    )
    append(file, "c")
    wait_for_values(kraal_cluster, name, ["-1:a", "-2:b", "-1:c"])
    worker.wait_for_states(name, RUNNING)
    kraal_cluster.delete(name)


def plugin_jvm_or_none(cluster: ProcessCluster) -> int | None:
    try:
        return plugin_jvm(cluster.alive[0]).pid
    except AssertionError:
        return None


def test_failed_record_fails_the_task_with_the_java_trace(
    kraal_cluster: ProcessCluster, tmp_path: Path
) -> None:
    file, name, worker = tmp_path / "in.txt", unique_name("failing"), kraal_cluster.alive[0]
    append(file, "bad one")
    kraal_cluster.create(name, source_config(file, name) | STRING_CONFIG | {"errors.tolerance": "none"})
    worker.wait_for_states(name, ["RUNNING", "FAILED"])
    trace = worker.get(f"/connectors/{name}/tasks/0/status").body["trace"]
    assert trace.startswith("org.apache.kafka.connect.errors.DataException: bad one\n")
    assert "kraal.testing.Moody.apply" in trace
    kraal_cluster.delete(name)


def test_dead_letters_of_a_sink_match_java(
    java_cluster: MixedCluster, kraal_cluster: ProcessCluster, tmp_path: Path
) -> None:
    topic = unique_name("with-bad")
    kraal_cluster.write(topic, "bad first", "good", "bad last")
    letters = []
    for worker_kind, cluster in (("java", java_cluster), ("kraal", kraal_cluster)):
        dead_letter_topic, name = unique_name("dead"), f"dead-{worker_kind}"
        config = {
            "connector.class": FILE_SINK,
            "topics": topic,
            "file": str(tmp_path / worker_kind),
            "errors.deadletterqueue.topic.name": dead_letter_topic,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        cluster.create(name, config | STRING_CONFIG)
        cluster.alive[0].wait_until(
            "the dead letters arrived", partial(has_two_records, kraal_cluster, dead_letter_topic)
        )
        letters.append(
            [
                (record.value, normalize_headers(dict(record.headers)))
                for record in kraal_cluster.records(dead_letter_topic)
            ]
        )
        cluster.delete(name)
    assert letters[1] == letters[0]


def has_two_records(cluster: ProcessCluster, topic: str) -> bool:
    return len(cluster.values(topic)) == 2


def normalize_headers(headers: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """Remove the connector's name and the stack frames below the plugin from the headers of a dead letter."""
    stack = headers["__connect.errors.exception.stacktrace"] or b""
    shortened = {"__connect.errors.exception.stacktrace": b"\n".join(stack.splitlines()[:2])}
    return headers | shortened | {"__connect.errors.connector.name": b""}


@pytest.mark.slow
def test_sink_continues_after_the_jvm_was_killed(kraal_cluster: ProcessCluster, tmp_path: Path) -> None:
    file, name, topic, worker = (
        tmp_path / "out.txt",
        unique_name("killed"),
        unique_name("killed"),
        kraal_cluster.alive[0],
    )
    kraal_cluster.write(topic, "a", "b")
    kraal_cluster.create(
        name, {"connector.class": FILE_SINK, "topics": topic, "file": str(file)} | STRING_CONFIG
    )
    worker.wait_until(
        "the first records arrived", lambda: file.exists() and len(file.read_text().splitlines()) == 2
    )
    jvm = plugin_jvm(worker)
    jvm.kill()
    worker.wait_until(
        "another JVM was running", lambda: plugin_jvm_or_none(kraal_cluster) not in (None, jvm.pid)
    )
    kraal_cluster.write(topic, "c")
    worker.wait_until("the last record arrived", lambda: file.read_text().endswith(":c\n"))
    worker.wait_for_states(name, RUNNING)
    kraal_cluster.delete(name)
