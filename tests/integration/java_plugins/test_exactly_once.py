"""Tests that Java sources with exactly-once support write each number exactly once despite kills."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kraal.broker.broker import Broker
from kraal.jars.jars import ensure
from kraal.jars.java_module import compile_jar
from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from tests.integration.java_plugins.conftest import JAVA_SOURCES
from tests.integration.java_plugins.flows import (
    RUNNING,
    faulty_config,
    java_worker,
    kraal_worker,
    ledger_properties,
    plugin_jvm,
    unique_name,
)
from tests.integration.java_plugins.kafka_tests import MONITORABLE_SOURCE, NAUGHTY_SOURCE

pytestmark = pytest.mark.ci

READ_TIMEOUT_S = 60.0
"""Timeout of reads, which is longer than the timeout of transactions that a killed JVM leaves open."""


@pytest.fixture(scope="module")
def exactly_once_cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """Run a cluster of one worker with exactly-once support and a ledger."""
    properties = worker_properties | ledger_properties("exact-ledger")
    properties["exactly.once.source.support"] = "enabled"
    with kraal_worker(tmp_path_factory.mktemp("exact"), kafka.bootstrap, properties) as cluster:
        yield cluster


def read_committed(bootstrap: str, topic: str) -> list[int]:
    """Return the numbers that a `read_committed` consumer reads, up to the current end of the topic.

    Raises AssertionError if reading takes too long, because the numbers read so far may be any prefix.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )
    try:
        partition = TopicPartition(topic, 0, 0)
        if topic not in consumer.list_topics(timeout=30).topics:
            return []
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([partition])
        values, deadline = [], time.monotonic() + READ_TIMEOUT_S
        while (position := consumer.position([partition])[0].offset) < end:
            assert time.monotonic() < deadline, f"{topic} was read up to {position} of {end}"
            if (message := consumer.poll(0.2)) is not None:
                assert message.error() is None
                values.append(int((message.value() or b"").rpartition(b"-")[2]))
        return values
    finally:
        consumer.close()


def wait_for_records(cluster: ProcessCluster, topic: str, count: int) -> None:
    """Wait until more than `count` further records are committed."""
    total = len(read_committed(cluster.bootstrap, topic)) + count
    cluster.alive[0].wait_until(
        "more records were committed", lambda: len(read_committed(cluster.bootstrap, topic)) > total
    )


def expect_each_number_once(cluster: ProcessCluster, name: str) -> None:
    """Stop the connector, and assert that the topic of the same name contains each number once, in order."""
    cluster.stop(name)
    cluster.alive[0].wait_for_states(name, ["STOPPED"])
    values = read_committed(cluster.bootstrap, name)
    assert values == list(range(len(values)))


def expect_each_record_counted_once(cluster: ProcessCluster, name: str) -> None:
    """Assert that the ledger names the records that it does not count, and that all others are written once."""
    body = cluster.alive[0].get(f"/connectors/{name}/ledger").body
    [task], [partition] = body["tasks"], body["partitions"]
    assert task["read"] == task["written"]
    uncounted = sum(next_number(each["end"]) - next_number(each["start"]) for each in partition["uncounted"])
    written_count = len(read_committed(cluster.bootstrap, name))
    assert next_number(partition["end"]) == written_count
    assert task["read"] + uncounted == written_count


def count_outcomes(worker: WorkerProcess, name: str) -> list[tuple[int, int, int]]:
    """Return the numbers of records that each task has read, written and dropped."""
    tasks = worker.get(f"/connectors/{name}/ledger").body["tasks"]
    return [(task["read"], task["written"], task["dropped"]) for task in tasks]


def next_number(offset: Mapping[str, int] | None) -> int:
    """Return the number after the last one of an offset of the faulty source."""
    return 0 if offset is None else offset["next"]


@pytest.mark.releases
@pytest.mark.parametrize(
    ("boundary", "jvm"),
    [
        ("poll", "shared"),
        pytest.param("interval", "shared", marks=pytest.mark.slow),
        ("connector", "shared"),
        pytest.param("poll", "own", marks=pytest.mark.slow),
    ],
)
def test_each_number_is_written_exactly_once(
    exactly_once_cluster: ProcessCluster, boundary: str, jvm: str
) -> None:
    name, worker = unique_name(boundary), exactly_once_cluster.alive[0]
    config = faulty_config(name) | {
        "plugins.jvm": jvm,
        "exactly.once.support": "required",
        "transaction.boundary": boundary,
        "transaction.boundary.interval.ms": "300",
    }
    exactly_once_cluster.create(name, config)
    worker.wait_for_states(name, RUNNING)

    wait_for_records(exactly_once_cluster, name, 50)
    plugin_jvm(worker, name if jvm == "own" else "").kill()
    wait_for_records(exactly_once_cluster, name, 50)
    exactly_once_cluster.restart(name)
    wait_for_records(exactly_once_cluster, name, 50)
    expect_each_number_once(exactly_once_cluster, name)
    expect_each_record_counted_once(exactly_once_cluster, name)
    exactly_once_cluster.delete(name)


@pytest.fixture
def slow_cluster(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> Iterator[ProcessCluster]:
    """Run a cluster of one worker with exactly-once support. `SlowSender` suspends the producers' senders."""
    agent = tmp_path / "agent.jar"
    compile_jar(JAVA_SOURCES / "delayed", ensure("plugins"), agent)
    properties = worker_properties | {
        "exactly.once.source.support": "enabled",
        "plugins.jvm.options": f"-Xmx512M -javaagent:{agent}",
    }
    with kraal_worker(tmp_path, kafka.bootstrap, properties) as cluster:
        yield cluster


def test_transactions_contain_all_records_despite_a_suspended_sender(slow_cluster: ProcessCluster) -> None:
    name = unique_name("suspended")
    config = {"exactly.once.support": "required", "transaction.boundary": "connector", "pause.ms": "1"}
    slow_cluster.create(name, faulty_config(name) | config)
    wait_for_records(slow_cluster, name, 100)
    slow_cluster.restart(name)
    wait_for_records(slow_cluster, name, 100)
    expect_each_number_once(slow_cluster, name)


def test_transactions_aborted_by_a_connector_are_not_read(exactly_once_cluster: ProcessCluster) -> None:
    name, worker = unique_name("aborts"), exactly_once_cluster.alive[0]
    config = {
        "connector.class": MONITORABLE_SOURCE,
        "topic": name,
        "max.messages": "55",
        "messages.per.poll": "4",
        "exactly.once.support": "required",
        "transaction.boundary": "connector",
        "custom.exactly.once.support": "supported",
        "custom.transaction.boundaries": "supported",
    }
    exactly_once_cluster.create(name, config)
    worker.wait_for_states(name, RUNNING)
    # Transactions end at Fibonacci numbers. Transactions that end at an even number are aborted.
    expected = [1, *range(3, 6), *range(9, 22), *range(35, 56)]
    worker.wait_until(
        "the last transaction was committed",
        lambda: len(read_committed(exactly_once_cluster.bootstrap, name)) == len(expected),
    )
    assert read_committed(exactly_once_cluster.bootstrap, name) == expected
    worker.wait_until(
        "the records were counted by their outcome",
        lambda: count_outcomes(worker, name) == [(55, len(expected), 55 - len(expected))],
    )
    exactly_once_cluster.delete(name)


@pytest.mark.parametrize(
    ("key", "error_key"),
    [
        ("custom.exactly.once.support", "exactly.once.support"),
        ("custom.transaction.boundaries", "transaction.boundary"),
    ],
)
@pytest.mark.parametrize("support", ["unsupported", "null", "fail"])
def test_unsupported_exactly_once_settings_are_rejected(
    exactly_once_cluster: ProcessCluster, key: str, error_key: str, support: str
) -> None:
    config = {
        "connector.class": MONITORABLE_SOURCE,
        "topic": "t",
        "exactly.once.support": "required",
        "transaction.boundary": "connector",
        "custom.exactly.once.support": "supported",
        "custom.transaction.boundaries": "supported",
        "name": "any",
    } | {key: support}
    path = f"/connector-plugins/{MONITORABLE_SOURCE}/config/validate"
    configs = exactly_once_cluster.alive[0].put(path, config).body["configs"]
    keys_with_errors = [entry["value"]["name"] for entry in configs if entry["value"]["errors"]]
    assert keys_with_errors == [error_key]


def test_write_to_the_offsets_topic_by_a_connector_fails_as_in_java(
    exactly_once_cluster: ProcessCluster, kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    def read_traces(cluster: ProcessCluster) -> list[list[str]]:
        name, worker = unique_name("naughty"), cluster.alive[0]
        config = {
            "connector.class": NAUGHTY_SOURCE,
            "tasks.max": "1",
            "offsets.storage.topic": unique_name("offsets"),
        }
        cluster.create(name, config)
        worker.wait_for_states(name, ["RUNNING", "FAILED"])
        traces = [trace.splitlines()[:2] for trace in worker.traces(name)]
        cluster.delete(name)
        return traces

    kraal_traces = read_traces(exactly_once_cluster)
    assert "offsets topic" in kraal_traces[0][0]
    properties = worker_properties | {"exactly.once.source.support": "enabled"}
    with java_worker(tmp_path, kafka.bootstrap, properties) as java_cluster:
        assert kraal_traces == read_traces(java_cluster)
