"""Tests for files of a standalone worker: Connect's offset file, configs, and connector files of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.core.ids import ConnectorName
from kraal.core.offsets import Offset, SourcePartition
from kraal.stores.file_log import FileLog
from kraal.stores.offset_file import OffsetFile
from kraal.testing.process import WorkerProcess
from tests.fakes.spark.pipe import Pipe, create_topic

MakeWorker = Callable[..., WorkerProcess]
LINE_BYTES = 84


def load_offsets(worker: WorkerProcess, connector: str) -> Mapping[SourcePartition, Offset]:
    return OffsetFile(worker.offset_file).load(ConnectorName(connector))


def test_offset_file_contains_position_in_connects_format(pipe: Pipe) -> None:
    pipe.write(100)
    pipe.worker.wait_until("all lines were transferred", pipe.is_through_exactly)
    expected = {SourcePartition.of({"filename": str(pipe.source_file)}): {"position": 100 * LINE_BYTES}}
    pipe.worker.wait_until(
        "the offset was stored", lambda: load_offsets(pipe.worker, pipe.source) == expected
    )
    assert pipe.worker.offset_file.read_bytes().startswith(b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap")


@pytest.mark.ci
def test_worker_without_stored_configs_keeps_offsets(
    make_worker: MakeWorker, tmp_path: Path, kafka: Broker
) -> None:
    worker = make_worker(properties={"kraal.standalone.remember.configs": "false"})
    pipe = Pipe(worker, tmp_path)
    create_topic(kafka.bootstrap, pipe.topic)
    pipe.write(10)
    partition = SourcePartition.of({"filename": str(pipe.source_file)})
    OffsetFile(worker.offset_file).store(
        {ConnectorName(pipe.source): {partition: {"position": 9 * LINE_BYTES}}}
    )
    worker.start()
    pipe.create()
    assert worker.end() == 0
    assert not (tmp_path / "offsets.kraal" / "config").exists()
    worker.start()
    assert worker.get("/connectors").body == []
    pipe.create()
    worker.wait_until("the last line was transferred", lambda: pipe.sink_size() > 0)
    assert [line[:10] for line in pipe.sink_lines()] == [b"0000000009"]
    worker.wait_until(
        "the new offset was stored",
        lambda: load_offsets(worker, pipe.source) == {partition: {"position": 10 * LINE_BYTES}},
    )
    assert worker.end() == 0


def read_log_records(worker: WorkerProcess) -> list[tuple[str | None, bytes | None]]:
    """Return the records in the config log of a stopped worker."""
    log = FileLog(Path(f"{worker.offset_file}.kraal") / "config", "config")
    try:
        return [(record.key, record.value) for record in log.read(0, 1000)]
    finally:
        log.close()


def test_connector_files_define_config_and_state(make_worker: MakeWorker, tmp_path: Path) -> None:
    """The test requires no Spark, and does not wait for the start of Spark."""
    config = {"name": "s", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}
    json_file, properties_file = tmp_path / "s.json", tmp_path / "k.properties"
    json_file.write_text(json.dumps({"name": "s", "config": config, "initial_state": "STOPPED"}))
    properties_file.write_text("name=k\nconnector.class=FileStreamSink\nfile=g\ntopics=t\n")
    worker = make_worker(connectors=(json_file, properties_file))

    def run(state: str, topic: str) -> list[tuple[str | None, bytes | None]]:
        worker.start()
        worker.wait_until("startup was complete", lambda: worker.get("/health").body["status"] == "healthy")
        assert sorted(worker.get("/connectors").body) == ["k", "s"]
        worker.wait_until(f"s was {state}", lambda: worker.states("s")[:1] == [state])
        assert worker.get("/connectors/s/config").body["topic"] == topic
        worker.wait_until("k had a task", lambda: len(worker.get("/connectors/k/tasks").body) == 1)
        if state == "STOPPED" and topic == "u":
            assert worker.put("/connectors/s/resume").status == 202
        assert worker.end() == 0
        return read_log_records(worker)

    first_records = run("STOPPED", "t")
    assert run("STOPPED", "t") == first_records, "unchanged files must add no records"
    json_file.write_text(
        json.dumps({"name": "s", "config": {**config, "topic": "u"}, "initial_state": "RUNNING"})
    )
    changed_records = run("STOPPED", "u")
    assert changed_records[: len(first_records)] == first_records
    new_keys = [key for key, _ in changed_records[len(first_records) :]]
    assert "connector-s" in new_keys
    assert [key for key in new_keys if key is None or key.removesuffix("-0").endswith("-k")] == []
    json_file.write_text(
        json.dumps({"name": "s", "config": {**config, "topic": "u"}, "initial_state": "PAUSED"})
    )
    run("RUNNING", "u")
