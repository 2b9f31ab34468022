"""Tests for `kraal doctor`: available and unavailable brokers, unsuitable topics, and missing permissions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # documented there

from kraal.broker.broker import Broker, free_port
from kraal.cli.main import main
from tests.fakes.kafka.kafka_member import KafkaMember, close_all
from tests.fakes.kafka.secured_kafka import SecuredKafka

pytestmark = pytest.mark.ci


@pytest.fixture
def patient_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the checks wait for a slow broker, for tests whose broker is available."""
    monkeypatch.setattr("kraal.doctor.broker._TIMEOUT_S", 60.0)


with_patient_doctor = pytest.mark.usefixtures("patient_doctor")


def run_doctor(
    tmp_path: Path, bootstrap: str, tag: str, **properties: str
) -> tuple[int, list[dict[str, Any]]]:
    """Run `kraal doctor` for a distributed worker with its own topics. Return the exit code and the findings."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    lines = [
        f"bootstrap.servers={bootstrap}",
        f"group.id=doctor-{tag}",
        *(f"{kind}.storage.topic={kind}-{tag}" for kind in ("config", "offset", "status")),
        *(f"{kind}.storage.replication.factor=1" for kind in ("config", "offset", "status")),
        *(f"{kind}.converter={converter}" for kind in ("key", "value")),
        f"listeners=http://127.0.0.1:{free_port()}",
        *(f"{key}={value}" for key, value in properties.items()),
    ]
    file = tmp_path / "worker.properties"
    file.write_text("\n".join(lines))
    result = CliRunner().invoke(main, ["doctor", str(file), "-o", "json"])
    findings: list[dict[str, Any]] = json.loads(result.stdout)
    return result.exit_code, findings


def select_kafka_findings(findings: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (finding["id"], finding["level"])
        for finding in findings
        if finding["id"].startswith(("broker.", "topics."))
    ]


def create_topic(bootstrap: str, name: str, partitions: int, policy: str, *, in_sync: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"cleanup.policy": policy, "min.insync.replicas": str(in_sync)}
    new_topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
    admin.create_topics([new_topic])[name].result(20)
    deadline_s = time.monotonic() + 20
    while not has_topic(admin, name):  # the controller responds before the broker has the topic
        assert time.monotonic() < deadline_s, f"the broker does not have the topic {name}"


def has_topic(admin: AdminClient, name: str) -> bool:
    try:
        admin.describe_topics(TopicCollection([name]))[name].result(20)
    except KafkaException:
        return False
    return True


@with_patient_doctor
def test_valid_worker_without_topics_passes(kafka: Broker, tmp_path: Path) -> None:
    code, findings = run_doctor(tmp_path, kafka.bootstrap, uuid4().hex)
    assert (code, [finding for finding in findings if finding["level"] == "error"]) == (0, [])
    assert select_kafka_findings(findings) == [("broker.reachable", "ok"), *[("topics.exist", "hint")] * 3]
    levels = {finding["id"]: finding["level"] for finding in findings}
    assert (levels["config.valid"], levels["listeners.free"], levels["java.version"]) == ("ok", "ok", "ok")


@with_patient_doctor
def test_unsuitable_topics_are_reported(kafka: Broker, tmp_path: Path) -> None:
    tag = uuid4().hex
    create_topic(kafka.bootstrap, f"config-{tag}", 2, "compact")
    create_topic(kafka.bootstrap, f"offset-{tag}", 2, "delete", in_sync=2)
    code, findings = run_doctor(tmp_path, kafka.bootstrap, tag)
    assert code == 1
    assert select_kafka_findings(findings) == [
        ("broker.reachable", "ok"),
        ("topics.exist", "ok"),
        ("topics.partitions", "error"),
        ("topics.replicas", "hint"),
        ("topics.exist", "ok"),
        ("topics.cleanup", "error"),
        ("topics.insync", "error"),
        ("topics.replicas", "hint"),
        ("topics.exist", "hint"),
    ]


def test_unavailable_broker_is_reported(tmp_path: Path) -> None:
    code, findings = run_doctor(tmp_path, f"127.0.0.1:{free_port()}", uuid4().hex)
    assert (code, select_kafka_findings(findings)) == (
        1,
        [("broker.reachable", "error"), ("topics.exist", "skipped")],
    )
    [finding] = [finding for finding in findings if finding["id"] == "broker.reachable"]
    assert "Connection refused" in finding["what"]
    assert "security.protocol" in finding["fix"]


@with_patient_doctor
def test_missing_permissions_of_the_worker_are_reported(
    kafka_with_logins: SecuredKafka, tmp_path: Path
) -> None:
    kafka, tag = kafka_with_logins, uuid4().hex
    login = kafka.certificate()
    bootstrap = login.pop("bootstrap.servers")
    create_topic(kafka.plain, f"config-{tag}", 1, "compact")

    def read_acl_findings() -> list[tuple[str, str]]:
        findings = run_doctor(tmp_path, bootstrap, tag, **login)[1]
        return [(finding["id"], finding["level"]) for finding in findings if finding["area"] == "acls"]

    assert read_acl_findings() == [*[("acls.topics", "error")] * 3, ("acls.group", "error")]

    kafka.allow("TOPIC", f"config-{tag}", "READ")
    kafka.allow("GROUP", f"doctor-{tag}", "READ")
    wait_until_equal(read_acl_findings, [*[("acls.topics", "error")] * 3, ("acls.group", "ok")])

    with run_group_member(kafka.plain, f"doctor-{tag}"):
        assert read_acl_findings()[-1] == ("acls.group", "ok")

    for kind in ("config", "offset", "status"):
        kafka.allow("TOPIC", f"{kind}-{tag}", "READ", "WRITE", "DESCRIBE_CONFIGS", "CREATE")
    wait_until_equal(
        read_acl_findings, [("acls.topics", "ok"), ("acls.group", "ok"), ("acls.cluster", "hint")]
    )

    for kind in ("offset", "status"):
        create_topic(kafka.plain, f"{kind}-{tag}", 1, "compact")
    wait_until_equal(read_acl_findings, [*[("acls.topics", "ok")] * 3, ("acls.group", "ok")])


@with_patient_doctor
def test_broker_without_acls_passes_permission_checks(kafka: Broker, tmp_path: Path) -> None:
    tag = uuid4().hex
    create_topic(kafka.bootstrap, f"config-{tag}", 1, "compact")
    produce(kafka.bootstrap, f"config-{tag}", ahead_ms=3_600_000)
    with run_group_member(kafka.bootstrap, f"doctor-{tag}"):
        findings = run_doctor(tmp_path, kafka.bootstrap, tag)[1]
    assert [(finding["id"], finding["level"]) for finding in findings if finding["area"] == "acls"] == [
        ("acls.topics", "ok"),
        ("acls.group", "ok"),
        ("acls.cluster", "ok"),
    ]
    [clock] = [finding for finding in findings if finding["id"] == "clock.records"]
    assert (clock["level"], f"config-{tag} is 3," in clock["what"]) == ("warning", True), clock


@contextmanager
def run_group_member(bootstrap: str, group: str) -> Iterator[None]:
    """Keep a worker in a group, so that the group is not a consumer group."""
    member = KafkaMember(bootstrap, group, "w1")
    try:
        member.hooks.wait_for_generation(1, 30)
        yield
    finally:
        close_all([member])


def produce(bootstrap: str, topic: str, *, ahead_ms: int) -> None:
    """Produce a record with a current timestamp and a record with a future timestamp."""
    producer = Producer({"bootstrap.servers": bootstrap})
    now_ms = round(time.time() * 1000)
    for ms in (now_ms + ahead_ms, now_ms):
        producer.produce(topic, b"value", b"key", timestamp=ms)
    assert producer.flush(20) == 0


def wait_until_equal(
    read_findings: Callable[[], list[tuple[str, str]]], expected: list[tuple[str, str]]
) -> None:
    """Repeat a check until it returns the expected findings, because brokers apply new ACLs with a delay."""
    deadline_s = time.monotonic() + 20
    while (findings := read_findings()) != expected and time.monotonic() < deadline_s:
        pass
    assert findings == expected
