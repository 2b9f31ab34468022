"""Tests for the ledger in a topic: created by the workers, shared by them, and unusable topics."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import pytest
from confluent_kafka import cimpl
from confluent_kafka.admin import (  # type: ignore[attr-defined] # they are documented there
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from kraal.broker.broker import Broker
from kraal.broker.records import read_topic
from kraal.testing import ProcessCluster

pytestmark = [pytest.mark.ci, pytest.mark.timeout(300)]

CONFIG = {"connector.class": "FileStreamSource", "tasks.max": "1"}


def settings(topic: str) -> dict[str, str]:
    return {"ledger.storage.topic": topic, "ledger.storage.replication.factor": "1"}


def list_live_keys(kafka: Broker, topic: str) -> list[bytes | None]:
    """Return the keys whose latest record is not a tombstone."""
    latest = {record.key: record.value for record in read_topic(kafka.bootstrap, topic, timeout_s=20)}
    return [key for key, value in latest.items() if value is not None]


def read_counts(cluster: ProcessCluster, worker: int, name: str) -> tuple[int, int, list[object]]:
    response = cluster.workers[worker].get(f"/connectors/{name}/ledger")
    if (
        response.status != HTTPStatus.OK
    ):  # the worker has not read the config yet, or a rebalance is in progress
        return 0, 0, []
    body = response.body
    tasks = body["tasks"]
    uncounted = [each for part in body["partitions"] for each in part["uncounted"]]
    return sum(task["read"] for task in tasks), sum(task["written"] for task in tasks), uncounted


def test_totals_move_to_another_worker_with_the_task(kafka: Broker, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("a\nb\n")
    with ProcessCluster(
        workers=2, directory=tmp_path / "cluster", bootstrap=kafka.bootstrap, properties=settings("ledger-1")
    ) as cluster:
        cluster.create("lines", {**CONFIG, "file": str(file), "topic": "ledger-lines"})
        cluster.wait_until(
            "each worker shows the counts",
            lambda: [read_counts(cluster, worker, "lines")[:2] for worker in range(2)] == [(2, 2)] * 2,
        )
        owner = cluster.owner("lines-0")
        cluster.stop_worker(owner)
        with file.open("a") as stream:
            stream.write("c\n")
        other = 1 - owner
        cluster.wait_until(
            "the other worker continues the totals",
            lambda: read_counts(cluster, other, "lines") == (3, 3, []),
        )
        description = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics("ledger-1", timeout=20)
        assert len(description.topics["ledger-1"].partitions) == 1

        assert list_live_keys(kafka, "ledger-1") != []
        cluster.workers[other].ask("DELETE", "/connectors/lines")
        cluster.wait_until("the totals are deleted", lambda: list_live_keys(kafka, "ledger-1") == [])


def test_topic_that_is_not_compacted_is_reported_and_delivery_continues(
    kafka: Broker, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([cimpl.NewTopic("ledger-2", 1, 1)])["ledger-2"].result(20)
    file = tmp_path / "lines"
    file.write_text("a\nb\n")
    with ProcessCluster(
        workers=1, directory=tmp_path / "cluster", bootstrap=kafka.bootstrap, properties=settings("ledger-2")
    ) as cluster:
        cluster.create("lines", {**CONFIG, "file": str(file), "topic": "ledger-lines-2"})
        cluster.wait_until("the lines arrive", lambda: cluster.values("ledger-lines-2") == ["a", "b"])
        cluster.wait_until("the counts are shown", lambda: read_counts(cluster, 0, "lines")[:2] == (2, 2))
        body = cluster.workers[0].get("/connectors/lines/ledger").body
        assert "cleanup.policy=delete" in body["problem"]
        assert "kafka-configs.sh" in body["problem"]
        worker = cluster.workers[0]
        worker.wait_until("the problem is logged", lambda: "The ledger is unavailable" in worker.log_text())

        policy = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", "ledger-2", incremental_configs=[policy])
        admin.incremental_alter_configs([resource])[resource].result(20)
        worker.wait_until("the totals are written", lambda: "Wrote the ledger again" in worker.log_text())
        assert worker.log_text().count("The ledger is unavailable") == 1
        assert worker.get("/connectors/lines/ledger").body["problem"] is None

        admin.delete_topics(["ledger-2"])["ledger-2"].result(20)
        with file.open("a") as stream:
            stream.write("c\n")
        worker.wait_until(
            "the totals are in the new topic",
            lambda: (
                read_counts(cluster, 0, "lines") == (3, 3, [])
                and worker.get("/connectors/lines/ledger").body["problem"] is None
                and "ledger-2" in admin.list_topics(timeout=20).topics
            ),
        )
