"""Tests that the connectors of Kafka's own tests have the same records and states as on a Java worker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kraal.broker.broker import Broker
from kraal.jars.lock import PLUGINS_KAFKA
from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import RUNNING, java_worker, scrape, stored_offsets, unique_name
from tests.integration.java_plugins.kafka_tests import (
    BLOCKING,
    EMPTY_CONFIGS,
    ERRANT_SINK,
    MONITORABLE_SINK,
    MONITORABLE_SOURCE,
    VERIFIABLE_SINK,
    VERIFIABLE_SOURCE,
)

ONLY_CONNECTOR = ["RUNNING"]
BLOCKED: dict[str, tuple[str, str, list[str]]] = {
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
"""Blocking connectors: the class, the blocking method, and the states of the connector and its task while blocked."""


def source(topic: str, **settings: str) -> dict[str, str]:
    """Return the config of a slow, endless source."""
    config = {"connector.class": MONITORABLE_SOURCE, "topic": topic, "throughput": "100"}
    return config | {key.replace("_", "."): text for key, text in settings.items()}


def wait_for_more(side: ProcessCluster, topic: str) -> None:
    count = len(side.records(topic))
    side.alive[0].wait_until("more records arrived", lambda: len(side.records(topic)) > count + 10)


def block(side: ProcessCluster, without_status: Sequence[str] = ("UNASSIGNED",)) -> dict[str, str]:
    """Create connectors that block in each method; return their names once they have the expected states.

    `without_status`: the expected states of a connector without a status.
    """
    worker, topic = side.alive[0], unique_name("records")
    side.write(topic, "a", "b")
    names = {where: unique_name(where) for where in BLOCKED}
    side.create(f"{topic}-healthy", source(f"{topic}-healthy"))
    for where, (kind, method, _) in BLOCKED.items():
        side.create(names[where], {"connector.class": BLOCKING + kind, "topics": topic, "block": method})
    expected = {where: states or list(without_status) for where, (_, _, states) in BLOCKED.items()}
    for where, states in expected.items():
        worker.wait_for_states(names[where], states)
    wait_for_more(side, f"{topic}-healthy")
    assert {where: worker.states(name) for where, name in names.items()} == expected
    return names | {"healthy": f"{topic}-healthy", "topic": topic}


@pytest.mark.ci
def test_states_of_blocked_connectors_match_java(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    with java_worker(tmp_path, kafka.bootstrap, worker_properties) as java:
        block(java, without_status=())


def test_blocked_connectors_do_not_affect_others(blocked_cluster: ProcessCluster) -> None:
    cluster = blocked_cluster
    names, worker = block(cluster), cluster.alive[0]
    start_methods = ("source-initialize", "source-start", "sink-initialize", "sink-start")
    task_methods = ("sink-open", "sink-put", "sink-flush", "sink-precommit")
    blocked = {names[where] for where in (*start_methods, *task_methods)}
    worker.wait_until("the blocked tasks were stalled", lambda: list_stalled(cluster) == blocked)
    blocked = {names[where] for where in ("connector-initialize", "connector-start")}
    assert list_stalled(cluster, "stalled_connectors") == blocked
    for where in BLOCKED:
        cluster.delete(names[where])
    kind, method, _ = BLOCKED["sink-put"]
    config = {"connector.class": BLOCKING + kind, "topics": names["topic"], "block": method}
    cluster.create(names["sink-put"], config)
    worker.wait_until(
        "the task waited for its previous run",
        lambda: "has not ended" in read_status(cluster, names["sink-put"]),
    )
    wait_for_more(cluster, names["healthy"])
    for where in ("sink-put", "healthy"):
        cluster.delete(names[where])


def test_sink_behind_an_open_transaction_is_stalled_until_it_ends(blocked_cluster: ProcessCluster) -> None:
    topic, worker = unique_name("open"), blocked_cluster.alive[0]
    producer = Producer({"bootstrap.servers": blocked_cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in ("a", "b", "c"):
        producer.produce(topic, value)
    producer.flush(30)
    sink = {"connector.class": MONITORABLE_SINK, "topics": topic}
    blocked_cluster.create(topic, sink | {"consumer.override.isolation.level": "read_committed"})
    worker.wait_until("the sink was stalled", lambda: topic in list_stalled(blocked_cluster))
    [cause] = [
        entry["cause"] for entry in worker.get("/health").body["stalled"] if entry["connector"] == topic
    ]
    assert "its backlog is 3 records" in cause
    assert scrape(worker).value("kraal_task_backlog_records", connector=topic, task="0") == 3
    producer.commit_transaction(30)
    worker.wait_until("the sink had read the records", lambda: topic not in list_stalled(blocked_cluster))
    blocked_cluster.delete(topic)


def list_stalled(side: ProcessCluster, key: str = "stalled") -> set[str]:
    """Return the connectors in a list of `/health`. A polling source may wait for data, so it is never stalled."""
    return {entry["connector"] for entry in side.alive[0].get("/health").body.get(key, ())}


def read_status(side: ProcessCluster, name: str) -> str:
    return str(side.alive[0].get(f"/connectors/{name}/status").body)


def test_records_of_the_monitorable_source_match_java(cluster: ProcessCluster, java: MixedCluster) -> None:
    def run_source(side: ProcessCluster) -> list[object]:
        name, worker = unique_name("monitored"), side.alive[0]
        config = source(name, max_messages="50", messages_per_poll="7") | {"throughput": "-1"}
        config["header.converter"] = "org.apache.kafka.connect.converters.LongConverter"
        side.create(name, config)
        side.create(f"{name}-sink", {"connector.class": MONITORABLE_SINK, "topics": name})
        worker.wait_for_states(name, RUNNING)
        worker.wait_until("all records arrived", lambda: len(side.records(name)) == 50)
        partition = {"kafka_partition": 0, "kafka_topic": name}
        expected_offsets = [{"partition": partition, "offset": {"kafka_offset": 50}}]
        path = f"/connectors/{name}-sink/offsets"
        worker.wait_until(
            "the sink had read all records", lambda: worker.get(path).body["offsets"] == expected_offsets
        )
        stored = [{"partition": {"task.id": f"{name}-0"}, "offset": {"saved": 50}}]
        path = f"/connectors/{name}/offsets"
        worker.wait_until("the offset was stored", lambda: worker.get(path).body["offsets"] == stored)
        records = [
            (str(record.key).replace(name, ""), str(record.value).replace(name, ""), record.headers)
            for record in side.records(name)
        ]
        for connector in (name, f"{name}-sink"):
            side.delete(connector)
        return [*records, stored_offsets(side, name)[-1]]

    assert run_source(cluster) == run_source(java)


def test_records_reported_by_a_sink_become_dead_letters_as_in_java(
    cluster: ProcessCluster, java: MixedCluster
) -> None:
    def run_sink(side: ProcessCluster) -> Sequence[object]:
        name, worker = unique_name("errant"), side.alive[0]
        side.write(name, *(f"value {number}" for number in range(20)), key="k")
        config = {
            "connector.class": ERRANT_SINK,
            "topics": name,
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{name}-dead",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        side.create(name, config)
        worker.wait_for_states(name, RUNNING)
        worker.wait_until("all records were reported", lambda: len(side.records(f"{name}-dead")) == 20)
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
            for record in side.records(f"{name}-dead")
        ]
        side.delete(name)
        return sorted(records, key=str)  # half of the records are reported by another thread

    assert run_sink(cluster) == run_sink(java)


@pytest.mark.parametrize(
    "config",
    [
        {"connector.class": MONITORABLE_SOURCE, "topic": "t", "connector.start.inject.error": "true"},
        {"connector.class": MONITORABLE_SOURCE, "topic": "t", "task-NAME-0.start.inject.error": "true"},
        {"connector.class": MONITORABLE_SOURCE, "topic": "t", "num.tasks": "3"},
        {"connector.class": EMPTY_CONFIGS, "topics": "t"},
    ],
    ids=["connector", "task", "too-many-tasks", "empty-task-configs"],
)
def test_error_reports_match_java(
    cluster: ProcessCluster, java: MixedCluster, config: dict[str, str]
) -> None:
    def report_failure(side: ProcessCluster) -> tuple[list[str], list[str]]:
        name, worker = unique_name("wrong"), side.alive[0]
        side.create(name, {key.replace("NAME", name): text for key, text in config.items()})
        if config["connector.class"] == EMPTY_CONFIGS:
            worker.wait_for_states(name, RUNNING)
        else:
            worker.wait_until("the failure was reported", lambda: "FAILED" in worker.states(name))
        report = (
            worker.states(name),
            [first_lines(trace.replace(name, "NAME")) for trace in worker.traces(name)],
        )
        side.delete(name)
        return report

    assert report_failure(cluster) == report_failure(java)


def first_lines(trace: str) -> str:
    """Return the exception and the plugin's frames of a trace."""
    return "\n".join(trace.splitlines()[:2])


def test_verifiable_connectors_match_java(cluster: ProcessCluster, java: MixedCluster) -> None:
    def run_connectors(side: ProcessCluster) -> list[object]:
        name, worker = unique_name("verifiable"), side.alive[0]
        config = {"topic": name, "throughput": "200", "id": "7"}
        side.create(name, {"connector.class": VERIFIABLE_SOURCE} | config)
        side.create(f"{name}-sink", {"connector.class": VERIFIABLE_SINK, "topics": name, "id": "8"})
        worker.wait_until("300 records arrived", lambda: len(side.records(name)) >= 300)
        worker.wait_until(
            "the sink had read 300 records", lambda: committed_offset(side, f"{name}-sink") >= 300
        )
        records = [(record.key, record.value, record.headers) for record in side.records(name)[:300]]
        side.stop(name)
        worker.wait_for_states(name, ["STOPPED"])
        last = b'{"seqno":%d}' % (len(side.records(name)) - 1)
        worker.wait_until("the last offset was stored", lambda: stored_offsets(side, name)[-1][1] == last)
        key, _ = stored_offsets(side, name)[-1]
        for connector in (name, f"{name}-sink"):
            side.delete(connector)
        return [*records, key]

    assert run_connectors(cluster) == run_connectors(java)


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
    assert status["connector"]["version"] == PLUGINS_KAFKA
    cluster.delete(name)


def committed_offset(side: ProcessCluster, sink: str) -> int:
    """Return the committed offset of a sink's only partition."""
    offsets = side.alive[0].get(f"/connectors/{sink}/offsets").body["offsets"]
    return sum(entry["offset"]["kafka_offset"] for entry in offsets)
