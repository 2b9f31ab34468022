"""What users of other runtimes for Connect's plugins have met; each is named by the place where they reported it."""

from __future__ import annotations

import json
from pathlib import Path

from kraal.testing import ProcessCluster
from tests.integration.java_plugins.flows import (
    FAULTY_SINK,
    a_name,
    faulty_config,
    restart,
    starts,
)
from tests.integration.java_plugins.kafka_tests import MONITORABLE_SOURCE


def sink(topic: str, file: Path, behind: int) -> dict[str, str]:
    return {
        "connector.class": FAULTY_SINK,
        "topics": topic,
        "file": str(file),
        "commit.behind": str(behind),
    }


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def test_a_sink_that_commits_nothing_reads_on_and_reads_again(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    """datastax/pulsar#664, apache/beam#28248."""
    name, worker, file = a_name("uncommitted"), cluster.alive[0], tmp_path / "out"
    cluster.write(name, "one")
    cluster.create(name, sink(name, file, -1))
    worker.wait_until("the first was there", lambda: lines(file) == ["one"])
    cluster.write(name, "two")
    worker.wait_until("the second was there", lambda: lines(file) == ["one", "two"])
    assert worker.get(f"/connectors/{name}/offsets").body == {"offsets": []}
    cluster.restart(name)
    worker.wait_until("they came again", lambda: lines(file) == ["one", "two"] * 2)
    cluster.delete(name)


def test_a_sink_commits_what_it_says_and_no_more(cluster: ProcessCluster, tmp_path: Path) -> None:
    """apache/pulsar#16100."""
    name, worker, file = a_name("behind"), cluster.alive[0], tmp_path / "out"
    cluster.write(name, "one", "two", "three")
    cluster.create(name, sink(name, file, 2))
    place = {"kafka_partition": 0, "kafka_topic": name}
    committed = {"offsets": [{"partition": place, "offset": {"kafka_offset": 1}}]}
    path = f"/connectors/{name}/offsets"
    worker.wait_until("it was committed", lambda: bool(worker.get(path).body == committed))
    assert lines(file) == ["one", "two", "three"]
    cluster.restart(name)
    worker.wait_until("two came again", lambda: lines(file) == ["one", "two", "three", "two", "three"])
    cluster.delete(name)


def test_a_source_continues_after_batches_that_a_transform_drops(cluster: ProcessCluster) -> None:
    """apache/pulsar#24654."""
    name, worker = a_name("dropped"), cluster.alive[0]
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
    worker.wait_until("one was left", lambda: cluster.values(name) == [f"value-{name}-0-75"])
    stored = [{"partition": {"task.id": f"{name}-0"}, "offset": {"saved": 75}}]
    path = f"/connectors/{name}/offsets"
    worker.wait_until("its offset was stored", lambda: bool(worker.get(path).body["offsets"] == stored))
    cluster.delete(name)


def test_offsets_do_not_depend_on_the_converters_of_records(cluster: ProcessCluster) -> None:
    """streamnative/pulsar-connectors#30, apache/pulsar#15598."""
    name, worker = a_name("converted"), cluster.alive[0]
    hoisted = {
        "transforms": "hoist,stamp",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "number",
        "transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.stamp.timestamp.field": "at",  # a long for JSON, and a Date in Java
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    cluster.create(name, faulty_config(name) | hoisted)
    worker.wait_until("records were there", lambda: len(cluster.records(name)) > 5)
    path = f"/connectors/{name}/offsets"
    worker.wait_until("the offset was stored", lambda: bool(worker.get(path).body["offsets"]))
    restart(cluster, name)
    seen = len(cluster.records(name))
    worker.wait_until("it continued", lambda: len(cluster.records(name)) > seen + 5)
    found = [json.loads(each.value or b"")["payload"]["number"] for each in cluster.records(name)]
    assert found == [str(number) for number in range(len(found))]
    cluster.delete(name)


def test_restarts_register_no_bean_twice(cluster: ProcessCluster) -> None:
    """risingwavelabs/risingwave#23511."""
    name, worker = a_name("restarted"), cluster.alive[0]
    cluster.create(name, faulty_config(name, tasks=2))
    worker.wait_for_states(name, ["RUNNING"] * 3)
    worker.wait_until("both tasks had started", lambda: len(starts(worker, name)) == 3)
    for _ in range(3):
        restart(cluster, name)
    assert "InstanceAlreadyExistsException" not in worker.log_text()
    cluster.delete(name)
