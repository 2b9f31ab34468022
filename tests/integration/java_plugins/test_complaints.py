"""Tests for problems that users of other Connect runtimes have reported. Each test cites the issues."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from kraal.broker.broker import Broker, free_port
from kraal.jars.lock import PLUGINS_KAFKA_VERSION
from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from scripts.harness.processes import freeze
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    FAULTY_SINK,
    RUNNING,
    faulty_config,
    read_numbers,
    read_starts,
    restart_and_wait,
    scrape,
    unique_name,
    wait_for_plugins,
)
from tests.integration.java_plugins.kafka_tests import MONITORABLE_SOURCE

pytestmark = pytest.mark.ci


def sink_config(topic: str, file: Path, commit_lag: int) -> dict[str, str]:
    return {
        "connector.class": FAULTY_SINK,
        "topics": topic,
        "file": str(file),
        "commit.behind": str(commit_lag),
    }


def read_lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def test_sink_without_commits_reads_records_again_after_a_restart(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    """Reported in datastax/pulsar#664 and apache/beam#28248."""
    name, worker, file = unique_name("uncommitted"), cluster.alive[0], tmp_path / "out"
    cluster.write(name, "one")
    cluster.create(name, sink_config(name, file, -1))
    worker.wait_until("the first record arrived", lambda: read_lines(file) == ["one"])
    cluster.write(name, "two")
    worker.wait_until("the second record arrived", lambda: read_lines(file) == ["one", "two"])
    assert worker.get(f"/connectors/{name}/offsets").body == {"offsets": []}
    cluster.restart(name)
    worker.wait_until("both records were read again", lambda: read_lines(file) == ["one", "two"] * 2)
    cluster.delete(name)


def test_sink_commits_only_the_offsets_it_returns(cluster: ProcessCluster, tmp_path: Path) -> None:
    """Reported in apache/pulsar#16100."""
    name, worker, file = unique_name("behind"), cluster.alive[0], tmp_path / "out"
    cluster.write(name, "one", "two", "three")
    cluster.create(name, sink_config(name, file, 2))
    partition = {"kafka_partition": 0, "kafka_topic": name}
    expected_offsets = {"offsets": [{"partition": partition, "offset": {"kafka_offset": 1}}]}
    path = f"/connectors/{name}/offsets"
    worker.wait_until("the offset was committed", lambda: bool(worker.get(path).body == expected_offsets))
    assert read_lines(file) == ["one", "two", "three"]
    cluster.restart(name)
    worker.wait_until(
        "two records were read again", lambda: read_lines(file) == ["one", "two", "three", "two", "three"]
    )
    cluster.delete(name)


def test_source_continues_after_batches_dropped_by_a_transform(cluster: ProcessCluster) -> None:
    """Reported in apache/pulsar#24654."""
    name, worker = unique_name("dropped"), cluster.alive[0]
    config = {
        "connector.class": MONITORABLE_SOURCE,
        "topic": name,
        "max.messages": "100",
        "messages.per.poll": "10",
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "other",
        "transforms.drop.negate": "true",
        "predicates": "other",
        "predicates.other.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
        "predicates.other.name": "header-75",
    }
    cluster.create(name, config)
    worker.wait_until("one record was not dropped", lambda: cluster.values(name) == [f"value-{name}-0-75"])
    stored_offsets = [{"partition": {"task.id": f"{name}-0"}, "offset": {"saved": 75}}]
    path = f"/connectors/{name}/offsets"
    worker.wait_until(
        "the offset was stored", lambda: bool(worker.get(path).body["offsets"] == stored_offsets)
    )
    cluster.delete(name)


def test_offsets_do_not_depend_on_the_converters_of_records(cluster: ProcessCluster) -> None:
    """Reported in streamnative/pulsar-connectors#30 and apache/pulsar#15598."""
    name, worker = unique_name("converted"), cluster.alive[0]
    transform_config = {
        "transforms": "hoist,stamp",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "number",
        "transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.stamp.timestamp.field": "at",  # a long in JSON, a Date in Java
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    cluster.create(name, faulty_config(name) | transform_config)
    worker.wait_until("records arrived", lambda: len(cluster.records(name)) > 5)
    path = f"/connectors/{name}/offsets"
    worker.wait_until("the offset was stored", lambda: bool(worker.get(path).body["offsets"]))
    restart_and_wait(cluster, name)
    count = len(cluster.records(name))
    worker.wait_until("the source continued", lambda: len(cluster.records(name)) > count + 5)
    values = [json.loads(record.value or b"")["payload"]["number"] for record in cluster.records(name)]
    assert values == [str(number) for number in range(len(values))]
    cluster.delete(name)


def test_plugin_registers_its_mbean_once_per_start(
    cluster: ProcessCluster, java_cluster: MixedCluster
) -> None:
    """Reported in apache/flink-cdc#1094 and #2984 and in risingwavelabs/risingwave#23511.

    The plugin bundles another version of Kafka's clients.
    """

    def run_plugin(tested_cluster: ProcessCluster) -> list[str | None]:
        name, worker = unique_name("clients"), tested_cluster.alive[0]
        config = {
            "connector.class": "kraal.testing.ClientSource",
            "topic": name,
            "history": f"{name}-history",
            "bootstrap": tested_cluster.bootstrap,
        }
        tested_cluster.create(name, config)
        for start in range(1, 4):
            worker.wait_until("the record was written", lambda: len(tested_cluster.values(name)) == start)  # noqa: B023
            worker.wait_for_states(name, RUNNING)
            if start < 3:
                tested_cluster.restart(name)
        values = tested_cluster.values(name)
        tested_cluster.delete(name)
        for complaint in ("Unable to register", "InstanceAlreadyExists"):
            assert complaint not in worker.log_text()
        return values

    for tested_cluster in (cluster, java_cluster):
        assert run_plugin(tested_cluster) == [f"{PLUGINS_KAFKA_VERSION} {start} 1" for start in (1, 2, 3)]


def test_restarts_register_mbeans_once(cluster: ProcessCluster) -> None:
    """Reported in risingwavelabs/risingwave#23511."""
    name, worker = unique_name("restarted"), cluster.alive[0]
    cluster.create(name, faulty_config(name, tasks=2))
    worker.wait_for_states(name, ["RUNNING"] * 3)
    worker.wait_until("both tasks had started", lambda: len(read_starts(worker, name)) == 3)
    for _ in range(3):
        restart_and_wait(cluster, name)
    for complaint in ("Unable to register", "InstanceAlreadyExists"):
        assert complaint not in worker.log_text()
    cluster.delete(name)


FLUSH_MS = 1000
FREEZE_S = 3.0
"""The duration of a freeze, which is longer than several flush intervals but shorter than the session timeout."""
FLUSH_TIMEOUT = "Timed out waiting to flush offsets to storage"


@pytest.mark.slow
def test_offset_flush_succeeds_after_a_failed_flush(
    tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    """Reported in debezium/debezium#6612, where offsets were never stored again."""
    properties = worker_properties | {"offset.flush.timeout.ms": str(FLUSH_MS)}
    broker = Broker(tmp_path / "kafka", free_port())
    with ProcessCluster(1, directory=tmp_path, broker=broker, properties=properties) as cluster:
        wait_for_plugins(cluster.alive[0])
        name, worker = unique_name("flushed"), cluster.alive[0]
        cluster.create(name, faulty_config(name))
        worker.wait_until("offsets were stored", lambda: stored_position(worker, name) > 0)

        def has_failed_flush() -> bool:
            """Freeze the broker, and return whether a flush has failed. A flush without new offsets cannot fail."""
            polled_before = polled_count(worker, name)
            worker.wait_until("the task had polled", lambda: polled_count(worker, name) > polled_before + 50)
            freeze([psutil.Process(broker.pid)], FREEZE_S)
            return FLUSH_TIMEOUT in worker.log_text()

        worker.wait_until("a flush had failed", has_failed_flush)
        polled = polled_count(worker, name)
        worker.wait_until("later offsets were stored", lambda: stored_position(worker, name) > polled)
        worker.wait_for_states(name, RUNNING)
        values = read_numbers(cluster, name)
        assert set(values) == set(range(max(values) + 1))


def polled_count(worker: WorkerProcess, name: str) -> float:
    """Return the number of records that a faulty source has returned."""
    metric = "kafka_connect_source_task_metrics_source_record_poll_total"
    return scrape(worker).value(metric, connector=name, task="0")


def stored_position(worker: WorkerProcess, name: str) -> int:
    """Return the stored offset of a faulty source, or 0 if there is none or the broker does not respond."""
    stored_offsets = worker.get(f"/connectors/{name}/offsets").body.get("offsets")
    return int(stored_offsets[0]["offset"]["next"]) if stored_offsets else 0
