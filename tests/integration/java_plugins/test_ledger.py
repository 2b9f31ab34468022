"""Tests that the ledger counts the records of Java connectors, and that a kill leaves at most an uncounted range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kraal.testing import ProcessCluster
from tests.fakes.spark.pipe import create_topic
from tests.integration.java_plugins.flows import (
    FAULTY_SINK,
    FILE_SINK,
    RUNNING,
    append,
    plugin_jvm,
    source_config,
    unique_name,
)

pytestmark = pytest.mark.ci

OUTCOMES = ("read", "written", "dropped", "dead_letters", "tolerated", "break_count")
DROP_IF_MARKED = {
    "transforms": "drop",
    "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.drop.predicate": "marked",
    "predicates": "marked",
    "predicates.marked.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
    "predicates.marked.name": "drop",
}
DEAD_LETTERS = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.replication.factor": "1",
}


def ledger(cluster: ProcessCluster, name: str) -> Mapping[str, Any]:
    body: Mapping[str, Any] = cluster.alive[0].get(f"/connectors/{name}/ledger").body
    return body


def totals(cluster: ProcessCluster, name: str) -> tuple[int, ...]:
    """Return the numbers of a connector's records by outcome, and the number of breaks of the law."""
    tasks = ledger(cluster, name).get("tasks", [])
    return tuple(sum(task[outcome] for task in tasks) for outcome in OUTCOMES)


def wait_for_totals(cluster: ProcessCluster, name: str, *expected: int) -> None:
    cluster.alive[0].wait_until(
        f"{expected} were counted", lambda: totals(cluster, name) == (*expected, 0), timeout_s=60
    )


def wait_until(cluster: ProcessCluster, description: str, is_done: Callable[[], bool]) -> None:
    cluster.alive[0].wait_until(description, is_done, timeout_s=120)


def produce(cluster: ProcessCluster, topic: str, count: int, *, marked: int = 0, invalid: int = 0) -> None:
    """Write records to the two partitions of a topic: valid ones, ones that are dropped, and invalid ones."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(count):
        producer.produce(topic, f'"{number}"', partition=number % 2)
    for number in range(marked):
        producer.produce(topic, '"marked"', partition=number % 2, headers={"drop": "yes"})
    for number in range(invalid):
        producer.produce(topic, "not JSON", partition=number % 2)
    assert producer.flush(30) == 0


def test_sink_counts_its_records_by_outcome_despite_kills(cluster: ProcessCluster, tmp_path: Path) -> None:
    name, worker = unique_name("ledger-sink"), cluster.alive[0]
    create_topic(cluster.bootstrap, name, partitions=2)
    produce(cluster, name, 30, marked=5, invalid=3)
    config = {"connector.class": FILE_SINK, "topics": name, "file": str(tmp_path / "out.txt")}
    dead_letters = {"errors.deadletterqueue.topic.name": f"{name}-dead"}
    cluster.create(name, config | DROP_IF_MARKED | DEAD_LETTERS | dead_letters)
    wait_for_totals(cluster, name, 38, 30, 5, 3, 0)
    ends = {
        part["partition"]["kafka_partition"]: (part["since"], part["end"], part["uncounted"])
        for part in ledger(cluster, name)["partitions"]
    }
    assert ends == {0: (0, 20, []), 1: (0, 18, [])}

    produce(cluster, name, 10, invalid=2)
    plugin_jvm(worker).kill()
    produce(cluster, name, 10, marked=2)
    count = 38 + 24

    def count_offsets() -> tuple[int, int]:
        """Return the numbers of counted and of uncounted offsets, without repetitions."""
        partitions = ledger(cluster, name)["partitions"]
        uncounted = sum(each["end"] - each["start"] for part in partitions for each in part["uncounted"])
        return totals(cluster, name)[0] - sum(part["repeated"] for part in partitions), uncounted

    wait_until(cluster, "all records were counted or named", lambda: sum(count_offsets()) == count)
    read, written, dropped, dead, tolerated, breaks = totals(cluster, name)
    assert (read, breaks) == (written + dropped + dead + tolerated, 0)

    uncounted = count_offsets()[1]
    produce(cluster, name, 4)
    cluster.stop(name)  # which commits the last offsets
    worker.wait_for_states(name, ["STOPPED"])
    produce(cluster, name, 1)
    cluster.resume(name)
    worker.wait_for_states(name, RUNNING)
    wait_until(
        cluster, "all records were counted", lambda: count_offsets() == (count + 5 - uncounted, uncounted)
    )
    cluster.delete(name)


def test_source_counts_its_records_despite_kills(cluster: ProcessCluster, tmp_path: Path) -> None:
    name, worker, file = unique_name("ledger-source"), cluster.alive[0], tmp_path / "in.txt"
    append(file, *map(str, range(30)))
    cluster.create(name, source_config(file, name))
    wait_for_totals(cluster, name, 30, 30, 0, 0, 0)
    [partition] = ledger(cluster, name)["partitions"]
    assert partition["partition"] == {"filename": str(file)}
    assert (partition["since"], partition["end"]) == (None, {"position": file.stat().st_size})

    append(file, *map(str, range(9)))
    plugin_jvm(worker).kill()
    append(file, *map(str, range(9)))
    end = {"position": file.stat().st_size}
    wait_until(cluster, "the end was counted", lambda: ledger(cluster, name)["partitions"][0]["end"] == end)
    read, written, *_, breaks = totals(cluster, name)
    [partition] = ledger(cluster, name)["partitions"]
    assert (written, breaks) == (read, 0)
    assert read >= 48 or partition["uncounted"], "records that are not counted are named"

    append(file, "before the stop")
    wait_until(cluster, "the line arrived", lambda: cluster.values(name)[-1:] == ["before the stop"])
    cluster.stop(name)  # which stores the last offsets
    worker.wait_for_states(name, ["STOPPED"])
    cluster.resume(name)
    worker.wait_for_states(name, RUNNING)
    append(file, "after the stop")
    wait_until(cluster, "both lines were counted", lambda: totals(cluster, name)[0] == read + 2)
    assert ledger(cluster, name)["partitions"][0]["uncounted"] == partition["uncounted"]
    cluster.delete(name)


def test_source_counts_dropped_and_tolerated_records(cluster: ProcessCluster, tmp_path: Path) -> None:
    name, file = unique_name("ledger-faults"), tmp_path / "in.txt"
    append(file, "one", "x" * 2000, "two")
    config = {**source_config(file, name), "errors.tolerance": "all"}
    cluster.create(name, config | {"producer.override.max.request.size": "1000"})
    wait_for_totals(cluster, name, 3, 2, 0, 0, 1)
    cluster.delete(name)

    converted = unique_name("ledger-converted")
    invalid = {
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "errors.tolerance": "all",
    }
    cluster.create(converted, {**config, "topic": converted, **invalid})
    wait_for_totals(cluster, converted, 3, 0, 0, 0, 3)
    cluster.delete(converted)


def test_sink_that_commits_late_is_counted_up_to_its_commits(cluster: ProcessCluster, tmp_path: Path) -> None:
    name = unique_name("ledger-late")
    create_topic(cluster.bootstrap, name)
    cluster.write(name, *map(str, range(50)))
    settings = {"commit.behind": "20", "consumer.override.max.poll.records": "10"}
    cluster.create(
        name, {"connector.class": FAULTY_SINK, "topics": name, "file": str(tmp_path / "out.txt"), **settings}
    )
    wait_for_totals(cluster, name, 30, 30, 0, 0, 0)
    cluster.delete(name)
