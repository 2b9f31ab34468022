"""`kraal doctor` on worker files whose brokers answer, hold unfit topics, or are away. About 8 s."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # documented there

from kraal.broker.broker import Broker, free_port
from kraal.cli.main import main

pytestmark = pytest.mark.ci


def examined(tmp_path: Path, bootstrap: str, tag: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the findings for a distributed worker with topics of its own."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    lines = [
        f"bootstrap.servers={bootstrap}",
        f"group.id=doctor-{tag}",
        *(f"{each}.storage.topic={each}-{tag}" for each in ("config", "offset", "status")),
        *(f"{each}.converter={converter}" for each in ("key", "value")),
        f"listeners=http://127.0.0.1:{free_port()}",
    ]
    file = tmp_path / "worker.properties"
    file.write_text("\n".join(lines))
    result = CliRunner().invoke(main, ["doctor", str(file), "-o", "json"])
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return result.exit_code, found


def of_kafka(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["id"], each["level"]) for each in found if each["id"].startswith(("broker.", "topics."))]


def create(bootstrap: str, name: str, partitions: int, policy: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config={"cleanup.policy": policy})
    admin.create_topics([new])[name].result(20)


def test_a_sound_worker_whose_topics_are_still_to_be_created(kafka: Broker, tmp_path: Path) -> None:
    code, found = examined(tmp_path, kafka.bootstrap, uuid4().hex)
    assert (code, [each for each in found if each["level"] == "error"]) == (0, [])
    assert of_kafka(found) == [("broker.reachable", "ok"), *[("topics.exist", "hint")] * 3]
    levels = {each["id"]: each["level"] for each in found}
    assert (levels["config.valid"], levels["listeners.free"], levels["java.version"]) == ("ok", "ok", "ok")


def test_topics_that_a_worker_cannot_use(kafka: Broker, tmp_path: Path) -> None:
    tag = uuid4().hex
    create(kafka.bootstrap, f"config-{tag}", 2, "compact")
    create(kafka.bootstrap, f"offset-{tag}", 2, "delete")
    code, found = examined(tmp_path, kafka.bootstrap, tag)
    assert code == 1
    assert of_kafka(found) == [
        ("broker.reachable", "ok"),
        ("topics.exist", "ok"),
        ("topics.partitions", "error"),
        ("topics.replicas", "hint"),
        ("topics.exist", "ok"),
        ("topics.cleanup", "error"),
        ("topics.replicas", "hint"),
        ("topics.exist", "hint"),
    ]


def test_a_broker_that_is_away(tmp_path: Path) -> None:
    code, found = examined(tmp_path, f"127.0.0.1:{free_port()}", uuid4().hex)
    assert (code, of_kafka(found)) == (1, [("broker.reachable", "error"), ("topics.exist", "skipped")])
    [away] = [each for each in found if each["id"] == "broker.reachable"]
    assert "Connection refused" in away["what"]
    assert "security.protocol" in away["fix"]
