"""Tests of SparkSource with stream-only formats on real Spark and a real broker: no record is lost."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Failed, Held, Opened, Stopped
from kraal.engine.engine import SparkEngine
from tests.fakes.spark.stage import Opening, Stage, await_ready
from tests.fakes.spark.tasks import Source, source
from tests.fakes.workers.examples import example


def make_source(stage: Stage, folder: Path, **more: str) -> Source:
    """Return the example source with its own checkpoint."""
    changes = {"checkpoint.location": str(folder / "checkpoint"), "spark.option.rowsPerSecond": "20"}
    return source(stage, {**example("spark-source-rate", changes), **more})


def record_offsets(rate_source: Source, done: BatchDone) -> int:
    rate_source.offsets |= done.offsets
    rate_source.read += done.records
    return done.records


def write_records(rate_source: Source, opening: Opening, records: int) -> None:
    """Poll for batches until this number of records is written."""
    while records > 0:
        opening.run.next()
        records -= record_offsets(rate_source, opening.expect(BatchDone))


def poll_and_end(rate_source: Source, opening: Opening, kind: type[Held | Stopped]) -> None:
    """Poll for a batch, and pause or stop without waiting for it."""
    opening.run.next()
    (opening.run.hold if kind is Held else opening.run.stop)()
    while True:
        event = opening.events.get(timeout=60)
        if isinstance(event, BatchDone):
            record_offsets(rate_source, event)
            continue
        assert isinstance(event, kind), event
        return


def read_numbers(rate_source: Source) -> list[int]:
    return sorted(value["value"] for value in rate_source.values())


def test_pauses_stops_and_restarts_neither_skip_nor_repeat_records(stage: Stage, tmp_path: Path) -> None:
    rate_source = make_source(stage, tmp_path)
    opening = rate_source.open()
    write_records(rate_source, opening, 30)
    poll_and_end(rate_source, opening, Held)
    before = rate_source.read
    threading.Event().wait(1.5)  # the source creates more records
    write_records(rate_source, opening, 20)
    poll_and_end(rate_source, opening, Stopped)
    assert rate_source.read > before
    opening = rate_source.open()
    write_records(rate_source, opening, 20)
    opening.run.stop()  # the last batch is stored, but not committed in the checkpoint
    assert opening.expect(Stopped).clean
    opening = rate_source.open()
    write_records(rate_source, opening, 20)
    opening.run.stop()
    assert opening.expect(Stopped).clean
    assert read_numbers(rate_source) == list(range(rate_source.read))
    ((partition, offset),) = rate_source.offsets.items()
    checkpoint = str(tmp_path / "checkpoint")
    assert partition == SourcePartition.of({"format": "rate", "checkpoint": checkpoint})
    assert sorted(offset) == ["batch", "query"]


def test_batches_pass_key_topic_transforms_and_schemas(stage: Stage, tmp_path: Path) -> None:
    config = {
        "spark.format": "rate-micro-batch",
        "spark.option.rowsPerBatch": "5",
        "spark.option.numPartitions": "1",
        "checkpoint.location": str(tmp_path / "checkpoint"),
        "key.columns": "value",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "transforms": "up",
        "transforms.up.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.up.field": "in",
    }
    rate_source = source(stage, config)
    opening = rate_source.open()
    write_records(rate_source, opening, 10)
    opening.run.stop()
    opening.expect(Stopped)
    messages = stage.messages(rate_source.topic, rate_source.read)
    assert [json.loads(message.key())["payload"] for message in messages] == list(range(rate_source.read))
    assert list(json.loads(messages[0].value())) == ["in"]
    assert list(json.loads(messages[0].value())["in"]) == ["timestamp"]


def send_command(port: int, *lines: str) -> bytes:
    """Send lines to a local port like py4j; return the first response, or empty bytes."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall("".join(f"{line}\n" for line in lines).encode())
        try:
            return connection.recv(1000)
        except ConnectionResetError:
            return b""


def test_callback_port_rejects_calls_without_its_token(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import SparkContext  # noqa: PLC0415 - after the session has started

    rate_source = make_source(stage, tmp_path)
    opening = rate_source.open()
    write_records(rate_source, opening, 1)
    gateway: Any = SparkContext._gateway
    port = gateway._callback_server.port
    functions, calls = dict(gateway.gateway_property.pool.dict), []
    assert functions
    for function in functions.values():
        monkeypatch.setattr(function, "call", lambda *args: calls.append(args), raising=False)
    for name in functions:
        call = ("c", name, "call", "n", "i99", "e")
        assert send_command(port, *call) == b""
        assert send_command(port, "A", "guessed", "e", *call) == b"!xn\n"
        assert send_command(port, "A", "", "e", *call) == b"!xn\n"
    assert calls == []
    monkeypatch.undo()
    write_records(rate_source, opening, 20)
    opening.run.stop()
    assert opening.expect(Stopped).clean
    assert read_numbers(rate_source) == list(range(rate_source.read))


def test_trace_starts_with_the_cause_of_the_query_failure(stage: Stage, tmp_path: Path) -> None:
    assert (
        "no-such-stream"
        in make_source(stage, tmp_path, **{"spark.format": "no-such-stream"}).fail().split("\n")[0]
    )
    rate_source = make_source(stage, tmp_path)
    opening = rate_source.open()
    write_records(rate_source, opening, 20)
    opening.run.stop()
    opening.expect(Stopped)
    for path in (tmp_path / "checkpoint" / "offsets").iterdir():
        path.write_text("broken")
    trace = rate_source.fail()
    assert "MALFORMED_LOG_FILE" in trace.split("\n")[0]
    assert "BatchNotWritten" not in trace


def test_checkpoint_on_another_machine_is_reported(stage: Stage, tmp_path: Path) -> None:
    rate_source = make_source(stage, tmp_path)
    opening = rate_source.open()
    write_records(rate_source, opening, 20)
    opening.run.stop()
    opening.expect(Stopped)
    (tmp_path / "checkpoint").rename(tmp_path / "elsewhere")
    assert rate_source.fail().startswith(
        f"CheckpointLost: checkpoint.location={tmp_path}/checkpoint does not contain batch"
    )


@pytest.mark.slow
def test_killed_jvm_loses_no_record(stage: Stage, engine: SparkEngine, tmp_path: Path) -> None:
    rate_source = make_source(stage, tmp_path)
    for _ in range(2):
        opening = rate_source.open()
        write_records(rate_source, opening, 30)
        opening.run.next()
        session = engine._session.current
        assert session is not None
        session.process.kill()
        failed: object = opening.events.get(timeout=60)
        while isinstance(failed, BatchDone):
            record_offsets(rate_source, failed)
            failed = opening.events.get(timeout=60)
        assert isinstance(failed, Failed)
        assert failed.engine_lost
        await_ready(engine)
    opening = rate_source.open()
    write_records(rate_source, opening, 30)
    opening.run.stop()
    opening.expect(Stopped)
    values = read_numbers(rate_source)
    assert sorted(set(values)) == list(range(values[-1] + 1))
    assert isinstance(opening.seen[0], Opened)
