"""Tests that SparkSource loses no records of stream-only formats, on real Spark and a real broker."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraal.connectors.spark.stream_checkpoint import CheckpointLost
from kraal.core.offsets import SourcePartition, TopicPartition
from kraal.engine.api import BatchDone, Failed, Held, Opened, Stopped
from kraal.engine.engine import SparkEngine
from kraal.proof.differences import Differences, Span
from kraal.proof.result import Verdict
from tests.fakes.spark.stage import RunObserver, TaskHarness, await_ready
from tests.fakes.spark.tasks import Source, source
from tests.fakes.workers.examples import example


def make_source(harness: TaskHarness, folder: Path, **overrides: str) -> Source:
    """Return a source with the config of the example and a checkpoint in `folder`."""
    changes = {"checkpoint.location": str(folder / "checkpoint"), "spark.option.rowsPerSecond": "20"}
    return source(harness, {**example("spark-source-rate", changes), **overrides})


def record_offsets(rate_source: Source, done: BatchDone) -> int:
    rate_source.offsets |= done.offsets
    rate_source.record_count += done.records
    return done.records


def write_records(rate_source: Source, observer: RunObserver, records: int) -> None:
    """Poll for batches until `records` records are written."""
    while records > 0:
        observer.run.next()
        records -= record_offsets(rate_source, observer.expect(BatchDone))


def poll_and_end(rate_source: Source, observer: RunObserver, kind: type[Held | Stopped]) -> None:
    """Poll for a batch, request a pause or a stop at once, and wait until the task has paused or stopped."""
    observer.run.next()
    (observer.run.hold if kind is Held else observer.run.stop)()
    while True:
        event = observer.events.get(timeout=60)
        if isinstance(event, BatchDone):
            record_offsets(rate_source, event)
            continue
        assert isinstance(event, kind), event
        return


def read_numbers(rate_source: Source) -> list[int]:
    return sorted(value["value"] for value in rate_source.values())


def test_pauses_stops_and_restarts_neither_skip_nor_repeat_records(
    harness: TaskHarness, tmp_path: Path
) -> None:
    rate_source = make_source(harness, tmp_path)
    observer = rate_source.open()
    write_records(rate_source, observer, 30)
    poll_and_end(rate_source, observer, Held)
    count_before = rate_source.record_count
    threading.Event().wait(1.5)  # the source creates more records
    write_records(rate_source, observer, 20)
    poll_and_end(rate_source, observer, Stopped)
    assert rate_source.record_count > count_before
    observer = rate_source.open()
    write_records(rate_source, observer, 20)
    observer.run.stop()  # the last batch is stored, but not committed in the checkpoint
    assert observer.expect(Stopped).clean
    observer = rate_source.open()
    write_records(rate_source, observer, 20)
    observer.run.stop()
    assert observer.expect(Stopped).clean
    assert read_numbers(rate_source) == list(range(rate_source.record_count))
    ((partition, offset),) = rate_source.offsets.items()
    checkpoint = str(tmp_path / "checkpoint")
    assert partition == SourcePartition.of({"format": "rate", "checkpoint": checkpoint})
    assert sorted(offset) == ["batch", "query"]


def test_batches_pass_key_topic_transforms_and_schemas(harness: TaskHarness, tmp_path: Path) -> None:
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
    rate_source = source(harness, config)
    observer = rate_source.open()
    write_records(rate_source, observer, 10)
    observer.run.stop()
    observer.expect(Stopped)
    messages = harness.messages(rate_source.topic, rate_source.record_count)
    assert [json.loads(message.key())["payload"] for message in messages] == list(
        range(rate_source.record_count)
    )
    assert list(json.loads(messages[0].value())) == ["in"]
    assert list(json.loads(messages[0].value())["in"]) == ["timestamp"]


def test_stream_is_proved_while_its_query_runs(harness: TaskHarness, tmp_path: Path) -> None:
    rate_source = make_source(harness, tmp_path)
    observer = rate_source.open()
    write_records(rate_source, observer, 30)
    stored_offsets, count = dict(rate_source.offsets), rate_source.record_count
    write_records(rate_source, observer, 20)
    assert rate_source.prove().verdict is Verdict.PROVED
    topic = TopicPartition(rate_source.topic, 0)
    last_value = harness.messages(rate_source.topic, count)[-1].value().decode()
    harness.produce(rate_source.topic, [last_value, "nonsense"])
    result = rate_source.prove(stored_offsets)
    assert (result.expected_count, result.stored_count) == (count, rate_source.record_count + 2)
    assert result.differences == Differences(
        repeated_count=1,
        repeated=(Span(group=topic, first=rate_source.record_count, last=rate_source.record_count),),
        unexpected_count=1,
        unexpected=(
            Span(group=topic, first=rate_source.record_count + 1, last=rate_source.record_count + 1),
        ),
    ), "batches after the stored offset may be in the topic"
    write_records(rate_source, observer, 1)  # the proofs have not stopped the query
    observer.run.stop()
    assert observer.expect(Stopped).clean


def test_missing_records_of_a_stream_are_located(harness: TaskHarness, tmp_path: Path) -> None:
    rate_source = make_source(harness, tmp_path)
    observer = rate_source.open()
    write_records(rate_source, observer, 20)
    stored_offsets, count = dict(rate_source.offsets), rate_source.record_count
    observer.run.next()
    lost = observer.expect(BatchDone)
    observer.run.stop()
    assert observer.expect(Stopped).clean
    values = [message.value().decode() for message in harness.messages(rate_source.topic, count)][:count]
    copied = replace(rate_source, topic=harness.topic())
    copied.config = {**rate_source.config, "topic": copied.topic}
    harness.produce(copied.topic, values)
    differences = copied.prove({**stored_offsets, **lost.offsets}).differences
    spans = differences.missing_source_records
    assert differences.missing_count == lost.records == sum(span.last - span.first + 1 for span in spans)
    assert (differences.repeated_count, differences.unexpected_count) == (0, 0)
    (tmp_path / "checkpoint").rename(tmp_path / "moved")
    with pytest.raises(CheckpointLost, match="does not contain batch"):
        copied.prove()


def send_command(port: int, *lines: str) -> bytes:
    """Send lines to a local port as py4j does. Return the start of the response, or empty bytes if there is none."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall("".join(f"{line}\n" for line in lines).encode())
        try:
            return connection.recv(1000)
        except ConnectionResetError:
            return b""


def test_callback_port_rejects_calls_without_its_token(
    harness: TaskHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import SparkContext  # noqa: PLC0415 - after the session has started

    rate_source = make_source(harness, tmp_path)
    observer = rate_source.open()
    write_records(rate_source, observer, 1)
    gateway: Any = SparkContext._gateway
    port = gateway._callback_server.port
    functions, calls = dict(gateway.gateway_property.pool.dict), []
    assert functions
    for function in functions.values():
        monkeypatch.setattr(function, "call", lambda *args: calls.append(args), raising=False)
    for name in functions:
        command = ("c", name, "call", "n", "i99", "e")
        assert send_command(port, *command) == b""
        assert send_command(port, "A", "guessed", "e", *command) == b"!xn\n"
        assert send_command(port, "A", "", "e", *command) == b"!xn\n"
    assert calls == []
    monkeypatch.undo()
    write_records(rate_source, observer, 20)
    observer.run.stop()
    assert observer.expect(Stopped).clean
    assert read_numbers(rate_source) == list(range(rate_source.record_count))


def test_trace_starts_with_the_cause_of_the_query_failure(harness: TaskHarness, tmp_path: Path) -> None:
    assert (
        "no-such-stream"
        in make_source(harness, tmp_path, **{"spark.format": "no-such-stream"}).fail().split("\n")[0]
    )
    rate_source = make_source(harness, tmp_path)
    observer = rate_source.open()
    write_records(rate_source, observer, 20)
    observer.run.stop()
    observer.expect(Stopped)
    for path in (tmp_path / "checkpoint" / "offsets").iterdir():
        path.write_text("broken")
    trace = rate_source.fail()
    assert "MALFORMED_LOG_FILE" in trace.split("\n")[0]
    assert "BatchNotWritten" not in trace


def test_checkpoint_on_another_machine_is_reported(harness: TaskHarness, tmp_path: Path) -> None:
    rate_source = make_source(harness, tmp_path)
    observer = rate_source.open()
    write_records(rate_source, observer, 20)
    observer.run.stop()
    observer.expect(Stopped)
    (tmp_path / "checkpoint").rename(tmp_path / "elsewhere")
    assert rate_source.fail().startswith(
        f"CheckpointLost: checkpoint.location={tmp_path}/checkpoint does not contain batch"
    )


@pytest.mark.slow
def test_killed_jvm_loses_no_record(harness: TaskHarness, engine: SparkEngine, tmp_path: Path) -> None:
    rate_source = make_source(harness, tmp_path)
    for _ in range(2):
        observer = rate_source.open()
        write_records(rate_source, observer, 30)
        observer.run.next()
        session = engine._session.current
        assert session is not None
        session.process.kill()
        event: object = observer.events.get(timeout=60)
        while isinstance(event, BatchDone):
            record_offsets(rate_source, event)
            event = observer.events.get(timeout=60)
        assert isinstance(event, Failed)
        assert event.engine_lost
        await_ready(engine)
    observer = rate_source.open()
    write_records(rate_source, observer, 30)
    observer.run.stop()
    observer.expect(Stopped)
    values = read_numbers(rate_source)
    assert sorted(set(values)) == list(range(values[-1] + 1))
    assert isinstance(observer.received_events[0], Opened)
