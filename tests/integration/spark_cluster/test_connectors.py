"""Tests for connectors on a Spark cluster whose executors cannot access Kraal or the worker's directory."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kraal.testing.process import WorkerProcess
from tests.fakes.kafka.internal_topics import set_config
from tests.fakes.spark.pipe import create_topic
from tests.integration.spark_cluster.environment import CORES, SparkEnvironment

pytestmark = pytest.mark.ci  # 60 s in total on an idle machine

ROW_COUNT = 20_000
BAD_RECORDS = 7
JSON_CONFIG = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
BYTES_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture(scope="module")
def worker(environment: SparkEnvironment) -> WorkerProcess:
    """Return a worker with all connectors of this module, which run concurrently."""
    process = environment.worker("connectors")
    process.start()
    lines = process.directory / "in.txt"
    lines.write_text("".join(f"{number:08d}\n" for number in range(ROW_COUNT)))
    rows = environment.create_shared_folder("rows")
    (rows / "a.json").write_text("".join(f'{{"n":{number}}}\n' for number in range(ROW_COUNT)))
    environment.produce(
        "mixed",
        [b"{", *(json.dumps({"n": n}).encode() for n in range(BAD_RECORDS)), *[b"no"] * (BAD_RECORDS - 1)],
    )
    out_file = str(sink_file(process))
    configs = {
        "lines-in": {"connector.class": "FileStreamSource", "file": str(lines), "topic": "lines"},
        "lines-out": {"connector.class": "FileStreamSink", "file": out_file, "topics": "lines"},
        "rows-in": {
            "connector.class": "SparkSource",
            "spark.format": "json",
            "spark.schema": "n BIGINT",
            "path": str(rows),
            "topic": "rows",
            **JSON_CONFIG,
        },
        "rows-out": {
            "connector.class": "SparkSink",
            "spark.format": "parquet",
            "spark.schema": "n BIGINT",
            "path": str(environment.create_shared_folder("rows-out")),
            "topics": "rows",
        },
        "mixed-out": {
            "connector.class": "FileStreamSink",
            "file": str(process.directory / "mixed.txt"),
            "topics": "mixed",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "dead",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "transforms": "hoist",
            "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.hoist.field": "all",
            **JSON_CONFIG,
        },
        "mirror": {
            "connector.class": "MirrorSource",
            "source.cluster.alias": "west",
            "source.cluster.bootstrap.servers": environment.broker.bootstrap,
            "target.cluster.bootstrap.servers": environment.broker.bootstrap,
            "topics": "lines",
            "refresh.topics.interval.seconds": "1",
            "replication.factor": "1",
            "key.converter": BYTES_CONVERTER,
            "value.converter": BYTES_CONVERTER,
        },
    }
    for name, config in configs.items():
        process.create(name, config)
    return process


def sink_file(worker: WorkerProcess) -> Path:
    return worker.directory / "out.txt"


@pytest.fixture(autouse=True)
def _assert_no_failure(worker: WorkerProcess) -> Iterator[None]:
    yield
    for name in worker.get("/connectors").body:
        assert worker.traces(name) == []


def test_lines_are_copied_through_a_topic_in_order(
    environment: SparkEnvironment, worker: WorkerProcess
) -> None:
    out = sink_file(worker)
    expected = (worker.directory / "in.txt").read_bytes()
    worker.wait_until(
        "all lines were in the file", lambda: out.exists() and out.stat().st_size >= len(expected)
    )
    assert out.read_bytes() == expected
    assert environment.values("lines") == expected.split()


@pytest.mark.slow
def test_rows_of_files_are_written_to_files(environment: SparkEnvironment, worker: WorkerProcess) -> None:
    folder = environment.directory / "shared" / "rows-out"

    def read_rows() -> list[int]:
        return [n for file in folder.glob("*.parquet") for n in pq.read_table(file)["n"].to_pylist()]

    worker.wait_until("all rows were in files", lambda: len(read_rows()) >= ROW_COUNT)
    assert sorted(read_rows()) == list(range(ROW_COUNT))


def test_records_are_transformed_and_unreadable_ones_become_dead_letters(
    environment: SparkEnvironment, worker: WorkerProcess
) -> None:
    environment.wait_for_values(worker, "dead", BAD_RECORDS)
    assert environment.values("dead") == [b"{", *[b"no"] * (BAD_RECORDS - 1)]
    out = worker.directory / "mixed.txt"
    worker.wait_until(
        "the other lines were in the file", lambda: len(out.read_text().splitlines()) >= BAD_RECORDS
    )
    assert [re.findall(r"\d+", line) for line in out.read_text().splitlines()] == [
        [str(n)] for n in range(BAD_RECORDS)
    ]


@pytest.mark.slow
def test_topic_is_mirrored(environment: SparkEnvironment, worker: WorkerProcess) -> None:
    environment.wait_for_values(worker, "west.lines", ROW_COUNT)
    assert environment.values("west.lines") == environment.values("lines")


@pytest.mark.slow
def test_batches_become_smaller_when_the_limit_of_their_topic_is_lowered(
    environment: SparkEnvironment, worker: WorkerProcess
) -> None:
    """Executors report refusals, because their producers would retry the batch forever."""
    topic, lines = "small", worker.directory / "small.txt"
    lines.write_text("first\n")
    create_topic(environment.broker.bootstrap, topic)
    config = {"connector.class": "FileStreamSource", "file": str(lines), "topic": topic}
    worker.create("small", {**config, "producer.override.linger.ms": "1000"})
    environment.wait_for_values(worker, topic, 1)
    set_config(environment.broker.bootstrap, topic, "max.message.bytes", "20000")
    with lines.open("a") as file:
        file.writelines(f"{secrets.token_hex(75)}\n" for _ in range(300))
    environment.wait_for_values(worker, topic, 301)
    assert "trying batches of" in worker.log_text()
    assert worker.ask("DELETE", "/connectors/small").status == 204


def test_application_uses_the_configured_number_of_cores(
    environment: SparkEnvironment, worker: WorkerProcess
) -> None:
    worker.wait_for_states("lines-in", ["RUNNING", "RUNNING"])
    (application,) = environment.cluster.state()["activeapps"]
    assert application["cores"] == CORES
    assert sum(spark_worker["coresused"] for spark_worker in environment.cluster.state()["workers"]) == CORES
    assert len(environment.cluster.executors()) == CORES


def test_configs_a_spark_cluster_cannot_run_are_rejected(
    environment: SparkEnvironment, worker: WorkerProcess
) -> None:
    mirror = worker.get("/connectors/mirror/config").body | {"name": "now", "trigger": "realtime"}
    response = worker.post("/connectors", {"name": "now", "config": mirror})
    assert response.status == 400
    assert "realtime needs a local Spark" in response.body["message"]
    config = worker.get("/connectors/rows-out/config").body | {
        "name": "e",
        "path": str(environment.directory),
    }
    response = worker.post("/connectors", {"name": "e", "config": config})
    assert response.status == 400
    assert "add it to spark.cluster.shared.paths" in response.body["message"]


def test_worker_without_the_cluster_secret_does_not_start(environment: SparkEnvironment) -> None:
    worker = environment.worker("refused", {"spark.authenticate.secret": ""})
    worker.launch()
    assert worker.wait() == 2
    assert "spark.authenticate.secret is missing" in worker.log_text()
