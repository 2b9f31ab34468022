"""Tests for a cluster on a broker with SASL_SSL, SCRAM and the minimal ACLs of docs/security.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.testing import ProcessCluster
from tests.fakes.kafka.secured_kafka import SECRET, SecuredKafka
from tests.fakes.spark.pipe import Pipe, create_topic

pytestmark = pytest.mark.ci


@pytest.fixture
def secured_cluster(kafka_with_logins: SecuredKafka, tmp_path: Path) -> Iterator[ProcessCluster]:
    """Define a cluster that authenticates with a password, without starting its workers."""
    settings = kafka_with_logins.login("SCRAM-SHA-512") | {"exactly.once.source.support": "preparing"}
    properties = {key: value.replace("\\", "\\\\") for key, value in settings.items()}
    cluster = ProcessCluster(
        directory=tmp_path / "cluster", bootstrap=settings["bootstrap.servers"], properties=properties
    )
    kafka_with_logins.allow_worker(cluster.group, "pipe-")
    yield cluster
    cluster.close()


def test_cluster_with_sasl_and_acls_copies_lines_exactly_once(
    kafka_with_logins: SecuredKafka, secured_cluster: ProcessCluster, tmp_path: Path
) -> None:
    secured_cluster.start(2)
    pipe = Pipe(secured_cluster.workers[1], tmp_path)
    create_topic(kafka_with_logins.plain, pipe.topic)
    pipe.write(2000)
    pipe.create()
    pipe.wait_until_running()
    pipe.wait_until_through()
    assert pipe.is_through_exactly()
    assert [worker.end() for worker in secured_cluster.workers] == [0, 0]
    for worker in secured_cluster.workers:
        assert SECRET not in worker.log_text()
        assert "uthorization failed" not in worker.log_text()


def test_wrong_password_is_logged(kafka_with_logins: SecuredKafka, tmp_path: Path) -> None:
    settings = kafka_with_logins.login("SCRAM-SHA-512", password="hush")  # noqa: S106 - a wrong password
    cluster = ProcessCluster(directory=tmp_path, bootstrap=settings["bootstrap.servers"], properties=settings)
    worker = cluster.add()
    worker.launch()
    try:
        reason = "invalid credentials with SASL mechanism SCRAM-SHA-512"
        worker.wait_until("the reason was logged", lambda: reason in worker.log_text())
        assert "hush" not in worker.log_text()
    finally:
        cluster.close()
