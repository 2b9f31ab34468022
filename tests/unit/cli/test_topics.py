"""Tests for `kraal topics create` with a worker's properties file and in-memory brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kraal.cli.main import main
from kraal.kafka import topics
from tests.fakes.kafka.topic_client import TopicClient
from tests.fakes.workers.worker_config import MINIMAL_CONFIG

COMPACT_POLICY = {"cleanup.policy": "compact"}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> TopicClient:
    """Return a client of brokers on which only the config topic exists."""
    topic_client = TopicClient({"configs": COMPACT_POLICY})
    monkeypatch.setattr(topics, "AdminClient", lambda _: topic_client)
    return topic_client


@pytest.fixture
def worker_file(tmp_path: Path) -> Path:
    """Write a worker's properties file without automatic creation and with settings for one topic; return its path."""
    file = tmp_path / "worker.properties"
    config = {
        **MINIMAL_CONFIG,
        "internal.topics.automatic.creation.enable": "false",
        "offset.storage.partitions": "7",
        "offset.storage.replication.factor": "2",
        "offset.storage.segment.bytes": "1048576",
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in config.items()), encoding="utf-8")
    return file


def run(*arguments: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["topics", "create", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_create_uses_the_settings_of_the_worker(client: TopicClient, worker_file: Path) -> None:
    assert [line.split() for line in run(worker_file).stdout.splitlines()] == [
        ["TOPIC", "PROPERTY", "RESULT"],
        ["configs", "config.storage.topic", "exists"],
        ["offsets", "offset.storage.topic", "created"],
        ["statuses", "status.storage.topic", "created"],
    ]
    offsets, statuses = client.created
    assert (offsets.num_partitions, offsets.replication_factor) == (7, 2)
    assert offsets.config == {**COMPACT_POLICY, "segment.bytes": "1048576"}
    assert (statuses.num_partitions, statuses.replication_factor) == (5, 3)
    assert "created" not in run(worker_file).stdout


def test_dry_run_does_not_create_topics(client: TopicClient, worker_file: Path) -> None:
    output = json.loads(run(worker_file, "--dry-run", "-o", "json").stdout)
    assert [(row["topic"], row["result"]) for row in output] == [
        ("configs", "exists"),
        ("offsets", "to be created"),
        ("statuses", "to be created"),
    ]
    assert output[1]["settings"] == {**COMPACT_POLICY, "segment.bytes": "1048576"}
    assert client.created == []


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_uncompacted_topic_is_an_error_with_a_fix(
    client: TopicClient, worker_file: Path, options: list[str]
) -> None:
    client.topics["configs"] = {"cleanup.policy": "delete"}
    output = run(worker_file, *options, code=1).stderr
    assert "required to have 'cleanup.policy=compact'" in output
    assert "kafka-configs.sh" in output
