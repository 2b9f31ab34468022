"""Tests for SparkSource and SparkSink with objects of an S3 server, on a separate worker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.broker.records import read_topic
from kraal.connectors.frames.range_files import parse_file_name
from kraal.testing.process import WorkerProcess
from scripts.harness.proofs import prove
from tests.fakes.servers.s3_server import S3Server, s3_server
from tests.fakes.spark.pipe import create_topic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

READ_TIMEOUT_S = 60.0
BUCKET = "lake"
SOURCE_CONFIG = {"connector.class": "SparkSource", "spark.format": "text", "path": f"s3a://{BUCKET}/in"}
SINK_CONFIG = {"connector.class": "SparkSink", "spark.format": "text", "path": f"s3a://{BUCKET}/out"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture(scope="module")
def worker(
    kafka: Broker, store: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    process = WorkerProcess(
        tmp_path_factory.mktemp("worker"), kafka.bootstrap, properties=store.worker_properties
    )
    process.start()
    yield process
    process.close()


def read_values(kafka: Broker, topic: str) -> list[str]:
    return [
        (record.value or b"").decode()
        for record in read_topic(kafka.bootstrap, topic, timeout_s=READ_TIMEOUT_S)
    ]


def find_end_offset(store: S3Server, topic: str) -> int:
    """Return the highest end offset in the names of a topic's objects."""
    files = [file for name in store.names(BUCKET, "out/") if (file := parse_file_name(name)) is not None]
    return max((file.span[1] for file in files if file.partition.topic == topic), default=0)


def read_lines(store: S3Server, topic: str) -> list[str]:
    """Return the lines of a topic's objects in order, after checking that their names cover each offset once."""
    parsed = [(parse_file_name(name), content) for name, content in store.objects(BUCKET, "out/").items()]
    files = sorted(
        (file.span, content) for file, content in parsed if file is not None and file.partition.topic == topic
    )
    spans = [span for span, _ in files]
    assert all(left[1] == right[0] for left, right in itertools.pairwise(spans)), spans
    return [line for _, content in files for line in content.decode().splitlines()]


def test_new_objects_are_read_once_except_hidden_and_nested_ones(
    worker: WorkerProcess, store: S3Server, kafka: Broker
) -> None:
    topic = "objects-in"
    create_topic(kafka.bootstrap, topic)
    worker.create("objects-source", {**SOURCE_CONFIG, "topic": topic, "file.batch.bytes": "1"})
    worker.wait_for_states("objects-source", ["RUNNING", "RUNNING"])
    store.put(BUCKET, "in/b c.txt", b"3\n4\n")
    worker.wait_until("the first object was read", lambda: read_values(kafka, topic) == ["3", "4"])
    store.put(BUCKET, "in/a.txt", b"1\n2")
    store.put(BUCKET, "in/_hidden", b"no\n")
    store.put(BUCKET, "in/deep/down", b"no\n")
    worker.wait_until("the second object was read", lambda: read_values(kafka, topic) == ["3", "4", "1", "2"])

    def list_done_paths() -> list[str]:
        offsets = worker.get("/connectors/objects-source/offsets").body["offsets"]
        return sorted(entry["partition"]["path"] for entry in offsets if entry["offset"]["done"])

    expected = [f"s3a://{BUCKET}/in/a.txt", f"s3a://{BUCKET}/in/b c.txt"]
    worker.wait_until("both objects were stored as done", lambda: list_done_paths() == expected)
    worker.kill()
    store.put(BUCKET, "in/c.txt", b"5\n")
    worker.start()
    worker.wait_until("the third object was read", lambda: read_values(kafka, topic)[-1] == "5")
    expected.append(f"s3a://{BUCKET}/in/c.txt")
    worker.wait_until("all objects were stored as done", lambda: list_done_paths() == expected)
    assert read_values(kafka, topic) == ["3", "4", "1", "2", "5"]
    proof = prove(worker, "objects-source")
    assert (proof["state"], proof["result"]["expected_rows"]) == ("PROVED", 5)
    assert worker.delete("/connectors/objects-source").status == 204


def test_object_sink_has_each_record_once_after_kills(
    worker: WorkerProcess, store: S3Server, kafka: Broker, tmp_path: Path
) -> None:
    topic, file = "objects-out", tmp_path / "lines"
    create_topic(kafka.bootstrap, topic)
    file.touch()
    worker.create("lines", {"connector.class": "FileStreamSource", "file": str(file), "topic": topic})
    worker.create("objects-sink", {**SINK_CONFIG, "topics": topic})
    count = 0
    for kill in (True, True, True, False):
        end_offset_before = find_end_offset(store, topic)
        with file.open("a", encoding="ascii") as lines:
            lines.writelines(f"{number}\n" for number in range(count, count + 20_000))
        count += 20_000
        worker.wait_until(
            "new objects were written",
            lambda end_offset_before=end_offset_before: find_end_offset(store, topic) > end_offset_before,  # type: ignore[misc]
        )
        if kill:
            worker.kill()
            worker.start()

    def is_written() -> bool:
        lines = read_values(kafka, topic)
        return str(count - 1) in lines and find_end_offset(store, topic) >= len(lines)

    worker.wait_until("all lines were written", is_written)
    assert read_lines(store, topic) == read_values(kafka, topic)
    assert worker.states("objects-sink") == ["RUNNING", "RUNNING"]
    proof = prove(worker, "objects-sink")
    assert (proof["state"], proof["result"]["expected_rows"]) == ("PROVED", len(read_values(kafka, topic)))


def test_worker_without_the_jars_reports_the_missing_setting(kafka: Broker, tmp_path: Path) -> None:
    process = WorkerProcess(tmp_path, kafka.bootstrap)
    process.start()
    try:
        response = process.post("/connectors", {"name": "no", "config": {**SOURCE_CONFIG, "topic": "t"}})
    finally:
        process.close()
    assert response.status == 400
    assert "kraal plugins add org.apache.hadoop:hadoop-aws:3.5.0" in response.body["message"]
