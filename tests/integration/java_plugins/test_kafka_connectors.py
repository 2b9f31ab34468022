"""Tests that the connectors of Kafka's own tests write the same records and have the same states as in Java."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kraal.broker.broker import Broker
from kraal.jars.lock import PLUGINS_KAFKA_VERSION
from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import RUNNING, java_worker, scrape, stored_offsets, unique_name
from tests.integration.java_plugins.kafka_tests import (
    BLOCKING_PREFIX,
    EMPTY_CONFIGS_SINK,
    ERRANT_SINK,
    MONITORABLE_SINK,
    MONITORABLE_SOURCE,
    VERIFIABLE_SINK,
    VERIFIABLE_SOURCE,
)

ONLY_CONNECTOR = ["RUNNING"]
BLOCKING_CONNECTORS: dict[str, tuple[str, str, list[str]]] = {
    "connector-initialize": ("InitializeBlockingConnector", "Connector::initialize", []),
    "connector-start": ("BlockingConnector", "Connector::start", []),
    "source-initialize": ("TaskInitializeBlockingSourceConnector", "", ONLY_CONNECTOR),
    "source-start": ("BlockingSourceConnector", "Task::start", ONLY_CONNECTOR),
    "source-poll": ("BlockingSourceConnector", "SourceTask::poll", RUNNING),
    "sink-initialize": ("TaskInitializeBlockingSinkConnector", "", ONLY_CONNECTOR),
    "sink-start": ("BlockingSinkConnector", "Task::start", ONLY_CONNECTOR),
    "sink-open": ("BlockingSinkConnector", "SinkTask::open", RUNNING),
    "sink-put": ("BlockingSinkConnector", "SinkTask::put", RUNNING),
    "sink-flush": ("BlockingSinkConnector", "SinkTask::flush", RUNNING),
    "sink-precommit": ("BlockingSinkConnector", "SinkTask::preCommit", RUNNING),
    "sink-close": ("BlockingSinkConnector", "SinkTask::close", RUNNING),
    "sink-stop": ("BlockingSinkConnector", "Task::stop", RUNNING),
}
"""The class of each blocking connector, the method that blocks, and the states of the connector and its task."""


def source_config(topic: str, **settings: str) -> dict[str, str]:
    """Return the config of a slow, endless source."""
    config = {"connector.class": MONITORABLE_SOURCE, "topic": topic, "throughput": "100"}
    return config | {key.replace("_", "."): text for key, text in settings.items()}


def wait_for_more(cluster: ProcessCluster, topic: str) -> None:
    count = len(cluster.records(topic))
    cluster.alive[0].wait_until("more records arrived", lambda: len(cluster.records(topic)) > count + 10)


def block(cluster: ProcessCluster, without_status: Sequence[str] = ("UNASSIGNED",)) -> dict[str, str]:
    """Create connectors that block in each method, and return their names once they have the expected states.

    `without_status` contains the expected states of a connector without a status.
    """
    worker, topic = cluster.alive[0], unique_name("records")
    cluster.write(topic, "a", "b")
    names = {case: unique_name(case) for case in BLOCKING_CONNECTORS}
    cluster.create(f"{topic}-healthy", source_config(f"{topic}-healthy"))
    for case, (kind, method, _) in BLOCKING_CONNECTORS.items():
        cluster.create(
            names[case], {"connector.class": BLOCKING_PREFIX + kind, "topics": topic, "block": method}
        )
    expected = {case: states or list(without_status) for case, (_, _, states) in BLOCKING_CONNECTORS.items()}
    for case, states in expected.items():
        worker.wait_for_states(names[case], states)
    wait_for_more(cluster, f"{topic}-healthy")
    assert {case: worker.states(name) for case, name in names.items()} == expected
    return names | {"healthy": f"{topic}-healthy", "topic": topic}


@pytest.mark.ci
def test_states_of_blocked_connectors_match_java(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    with java_worker(tmp_path, kafka.bootstrap, worker_properties) as java_cluster:
        block(java_cluster, without_status=())


def test_blocked_connectors_do_not_affect_others(cluster_for_blocking_plugins: ProcessCluster) -> None:
    cluster = cluster_for_blocking_plugins
    names, worker = block(cluster), cluster.alive[0]
    start_methods = ("source-initialize", "source-start", "sink-initialize", "sink-start")
    task_methods = ("sink-open", "sink-put", "sink-flush", "sink-precommit")
    expected_names = {names[case] for case in (*start_methods, *task_methods)}
    worker.wait_until("the blocked tasks were stalled", lambda: list_stalled(cluster) == expected_names)
    expected_names = {names[case] for case in ("connector-initialize", "connector-start")}
    assert list_stalled(cluster, "stalled_connectors") == expected_names
    for case in BLOCKING_CONNECTORS:
        cluster.delete(names[case])
    kind, method, _ = BLOCKING_CONNECTORS["sink-put"]
    config = {"connector.class": BLOCKING_PREFIX + kind, "topics": names["topic"], "block": method}
    cluster.create(names["sink-put"], config)
    worker.wait_until(
        "the task waited for its previous run",
        lambda: "has not ended" in read_status(cluster, names["sink-put"]),
    )
    wait_for_more(cluster, names["healthy"])
    for case in ("sink-put", "healthy"):
        cluster.delete(names[case])


def test_sink_behind_an_open_transaction_is_stalled_until_it_ends(
    cluster_for_blocking_plugins: ProcessCluster,
) -> None:
    topic, worker = unique_name("open"), cluster_for_blocking_plugins.alive[0]
    producer = Producer(
        {"bootstrap.servers": cluster_for_blocking_plugins.bootstrap, "transactional.id": topic}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in ("a", "b", "c"):
        producer.produce(topic, value)
    producer.flush(30)
    sink = {"connector.class": MONITORABLE_SINK, "topics": topic}
    cluster_for_blocking_plugins.create(topic, sink | {"consumer.override.isolation.level": "read_committed"})
    worker.wait_until("the sink was stalled", lambda: topic in list_stalled(cluster_for_blocking_plugins))
    [cause] = [
        entry["cause"] for entry in worker.get("/health").body["stalled"] if entry["connector"] == topic
    ]
    assert "its backlog is 3 records" in cause
    assert scrape(worker).value("kraal_task_backlog_records", connector=topic, task="0") == 3
    producer.commit_transaction(30)
    worker.wait_until(
        "the sink had read the records", lambda: topic not in list_stalled(cluster_for_blocking_plugins)
    )
    cluster_for_blocking_plugins.delete(topic)


def list_stalled(cluster: ProcessCluster, key: str = "stalled") -> set[str]:
    """Return the connectors in a list of `/health`. A blocked `poll` is not a stall, because it may wait for data."""
    return {entry["connector"] for entry in cluster.alive[0].get("/health").body.get(key, ())}


def read_status(cluster: ProcessCluster, name: str) -> str:
    return str(cluster.alive[0].get(f"/connectors/{name}/status").body)


def test_records_of_the_monitorable_source_match_java(
    cluster: ProcessCluster, java_cluster: MixedCluster
) -> None:
    def run_source(tested_cluster: ProcessCluster) -> list[object]:
        name, worker = unique_name("monitored"), tested_cluster.alive[0]
        config = source_config(name, max_messages="50", messages_per_poll="7") | {"throughput": "-1"}
        config["header.converter"] = "org.apache.kafka.connect.converters.LongConverter"
        tested_cluster.create(name, config)
        tested_cluster.create(f"{name}-sink", {"connector.class": MONITORABLE_SINK, "topics": name})
        worker.wait_for_states(name, RUNNING)
        worker.wait_until("all records arrived", lambda: len(tested_cluster.records(name)) == 50)
        partition = {"kafka_partition": 0, "kafka_topic": name}
        expected_offsets = [{"partition": partition, "offset": {"kafka_offset": 50}}]
        path = f"/connectors/{name}-sink/offsets"
        worker.wait_until(
            "the sink had read all records", lambda: worker.get(path).body["offsets"] == expected_offsets
        )
        expected_offset = [{"partition": {"task.id": f"{name}-0"}, "offset": {"saved": 50}}]
        path = f"/connectors/{name}/offsets"
        worker.wait_until(
            "the offset was stored", lambda: worker.get(path).body["offsets"] == expected_offset
        )
        records = [
            (str(record.key).replace(name, ""), str(record.value).replace(name, ""), record.headers)
            for record in tested_cluster.records(name)
        ]
        for connector in (name, f"{name}-sink"):
            tested_cluster.delete(connector)
        return [*records, stored_offsets(tested_cluster, name)[-1]]

    assert run_source(cluster) == run_source(java_cluster)


def test_records_reported_by_a_sink_become_dead_letters_as_in_java(
    cluster: ProcessCluster, java_cluster: MixedCluster
) -> None:
    def run_sink(tested_cluster: ProcessCluster) -> Sequence[object]:
        name, worker = unique_name("errant"), tested_cluster.alive[0]
        tested_cluster.write(name, *(f"value {number}" for number in range(20)), key="k")
        config = {
            "connector.class": ERRANT_SINK,
            "topics": name,
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{name}-dead",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        tested_cluster.create(name, config)
        worker.wait_for_states(name, RUNNING)
        worker.wait_until(
            "all records were reported", lambda: len(tested_cluster.records(f"{name}-dead")) == 20
        )
        records = [
            (
                record.key,
                record.value,
                [
                    (key, None if value is None else value.replace(name.encode(), b""))
                    for key, value in record.headers
                    if not key.endswith("stacktrace")
                ],
            )
            for record in tested_cluster.records(f"{name}-dead")
        ]
        tested_cluster.delete(name)
        return sorted(records, key=str)  # half of the records are reported by another thread

    assert run_sink(cluster) == run_sink(java_cluster)


@pytest.mark.parametrize(
    "config",
    [
        {"connector.class": MONITORABLE_SOURCE, "topic": "t", "connector.start.inject.error": "true"},
        {"connector.class": MONITORABLE_SOURCE, "topic": "t", "task-NAME-0.start.inject.error": "true"},
        {"connector.class": MONITORABLE_SOURCE, "topic": "t", "num.tasks": "3"},
        {"connector.class": EMPTY_CONFIGS_SINK, "topics": "t"},
    ],
    ids=["connector", "task", "too-many-tasks", "empty-task-configs"],
)
def test_error_reports_match_java(
    cluster: ProcessCluster, java_cluster: MixedCluster, config: dict[str, str]
) -> None:
    def report_failure(tested_cluster: ProcessCluster) -> tuple[list[str], list[str]]:
        name, worker = unique_name("wrong"), tested_cluster.alive[0]
        tested_cluster.create(name, {key.replace("NAME", name): text for key, text in config.items()})
        if config["connector.class"] == EMPTY_CONFIGS_SINK:
            worker.wait_for_states(name, RUNNING)
        else:
            worker.wait_until("the failure was reported", lambda: "FAILED" in worker.states(name))
        report = (
            worker.states(name),
            [first_lines(trace.replace(name, "NAME")) for trace in worker.traces(name)],
        )
        tested_cluster.delete(name)
        return report

    assert report_failure(cluster) == report_failure(java_cluster)


def first_lines(trace: str) -> str:
    """Return the first two lines of a trace: the exception and the plugin's frame."""
    return "\n".join(trace.splitlines()[:2])


def test_verifiable_connectors_match_java(cluster: ProcessCluster, java_cluster: MixedCluster) -> None:
    def run_connectors(tested_cluster: ProcessCluster) -> list[object]:
        name, worker = unique_name("verifiable"), tested_cluster.alive[0]
        config = {"topic": name, "throughput": "200", "id": "7"}
        tested_cluster.create(name, {"connector.class": VERIFIABLE_SOURCE} | config)
        tested_cluster.create(f"{name}-sink", {"connector.class": VERIFIABLE_SINK, "topics": name, "id": "8"})
        worker.wait_until("300 records arrived", lambda: len(tested_cluster.records(name)) >= 300)
        worker.wait_until(
            "the sink had read 300 records", lambda: committed_offset(tested_cluster, f"{name}-sink") >= 300
        )
        records = [
            (record.key, record.value, record.headers) for record in tested_cluster.records(name)[:300]
        ]
        tested_cluster.stop(name)
        worker.wait_for_states(name, ["STOPPED"])
        last_offset = b'{"seqno":%d}' % (len(tested_cluster.records(name)) - 1)
        worker.wait_until(
            "the last offset was stored", lambda: stored_offsets(tested_cluster, name)[-1][1] == last_offset
        )
        key, _ = stored_offsets(tested_cluster, name)[-1]
        for connector in (name, f"{name}-sink"):
            tested_cluster.delete(connector)
        return [*records, key]

    assert run_connectors(cluster) == run_connectors(java_cluster)


def test_plugins_built_with_kafka_3_4_4_3_and_4_4_run_in_one_connector(cluster: ProcessCluster) -> None:
    """Each plugin uses AppInfoParser under the class name of its Kafka version (KAFKA-20297)."""
    name, worker = unique_name("generations"), cluster.alive[0]
    config = {
        "connector.class": VERIFIABLE_SOURCE,
        "topic": name,
        "throughput": "200",
        "id": "7",
        "transforms": "before,since",
        "transforms.before.type": "kraal.testing.UtilsBefore44",
        "transforms.since.type": "kraal.testing.UtilsSince44",
    }
    cluster.create(name, config)
    worker.wait_for_states(name, RUNNING)
    worker.wait_until("records arrived", lambda: len(cluster.records(name)) > 100)
    status = worker.get(f"/connectors/{name}/status").body
    assert status["connector"]["version"] == PLUGINS_KAFKA_VERSION
    cluster.delete(name)


def committed_offset(cluster: ProcessCluster, sink: str) -> int:
    """Return the committed offset of a sink's only partition."""
    offsets = cluster.alive[0].get(f"/connectors/{sink}/offsets").body["offsets"]
    return sum(entry["offset"]["kafka_offset"] for entry in offsets)
