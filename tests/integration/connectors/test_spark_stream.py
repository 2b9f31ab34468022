"""SparkSource with formats that Spark has only as streams, on real Spark and a real broker: no number is lost."""

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


def ticks(stage: Stage, folder: Path, **more: str) -> Source:
    """Return the example, with a checkpoint of its own."""
    changes = {"checkpoint.location": str(folder / "checkpoint"), "spark.option.rowsPerSecond": "20"}
    return source(stage, {**example("spark-source-rate", changes), **more})


def note(made: Source, done: BatchDone) -> int:
    made.offsets |= done.offsets
    made.read += done.records
    return done.records


def go_on(made: Source, opening: Opening, records: int) -> None:
    """Ask for batches until the given number of further records were written."""
    while records > 0:
        opening.run.next()
        records -= note(made, opening.expect(BatchDone))


def ask_and_end(made: Source, opening: Opening, kind: type[Held | Stopped]) -> None:
    """Ask for a batch, and pause or stop before it may have come."""
    opening.run.next()
    (opening.run.hold if kind is Held else opening.run.stop)()
    while True:
        event = opening.events.get(timeout=60)
        if isinstance(event, BatchDone):
            note(made, event)
            continue
        assert isinstance(event, kind), event
        return


def numbers(made: Source) -> list[int]:
    return sorted(value["value"] for value in made.values())


def test_pauses_stops_and_restarts_neither_skip_nor_repeat_records(stage: Stage, tmp_path: Path) -> None:
    made = ticks(stage, tmp_path)
    opening = made.open()
    go_on(made, opening, 30)
    ask_and_end(made, opening, Held)
    before = made.read
    threading.Event().wait(1.5)  # numbers are made meanwhile
    go_on(made, opening, 20)
    ask_and_end(made, opening, Stopped)
    assert made.read > before
    opening = made.open()
    go_on(made, opening, 20)
    opening.run.stop()  # the last batch is stored, and Spark has not noted it yet
    assert opening.expect(Stopped).clean
    opening = made.open()
    go_on(made, opening, 20)
    opening.run.stop()
    assert opening.expect(Stopped).clean
    assert numbers(made) == list(range(made.read))
    ((partition, offset),) = made.offsets.items()
    checkpoint = str(tmp_path / "checkpoint")
    assert partition == SourcePartition.of({"format": "rate", "checkpoint": checkpoint})
    assert sorted(offset) == ["batch", "query"]


def test_batches_go_through_key_topic_transforms_and_schemas(stage: Stage, tmp_path: Path) -> None:
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
    made = source(stage, config)
    opening = made.open()
    go_on(made, opening, 10)
    opening.run.stop()
    opening.expect(Stopped)
    messages = stage.messages(made.topic, made.read)
    assert [json.loads(message.key())["payload"] for message in messages] == list(range(made.read))
    assert list(json.loads(messages[0].value())) == ["in"]
    assert list(json.loads(messages[0].value())["in"]) == ["timestamp"]


def answer_of(port: int, *lines: str) -> bytes:
    """Send lines to a port of this machine as py4j does; return the first answer, nothing where there is none."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall("".join(f"{line}\n" for line in lines).encode())
        try:
            return connection.recv(1000)
        except ConnectionResetError:
            return b""


def test_the_port_for_calls_from_the_jvm_refuses_calls_without_its_token(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import SparkContext  # noqa: PLC0415 - when the session is up

    made = ticks(stage, tmp_path)
    opening = made.open()
    go_on(made, opening, 1)
    gateway: Any = SparkContext._gateway
    port = gateway._callback_server.port
    functions, calls = dict(gateway.gateway_property.pool.dict), []
    assert functions
    for each in functions.values():
        monkeypatch.setattr(each, "call", lambda *given: calls.append(given), raising=False)
    for name in functions:
        call = ("c", name, "call", "n", "i99", "e")
        assert answer_of(port, *call) == b""
        assert answer_of(port, "A", "guessed", "e", *call) == b"!xn\n"
        assert answer_of(port, "A", "", "e", *call) == b"!xn\n"
    assert calls == []
    monkeypatch.undo()
    go_on(made, opening, 20)
    opening.run.stop()
    assert opening.expect(Stopped).clean
    assert numbers(made) == list(range(made.read))


def test_the_trace_starts_with_the_cause_that_ended_the_query(stage: Stage, tmp_path: Path) -> None:
    assert (
        "no-such-stream" in ticks(stage, tmp_path, **{"spark.format": "no-such-stream"}).fail().split("\n")[0]
    )
    made = ticks(stage, tmp_path)
    opening = made.open()
    go_on(made, opening, 20)
    opening.run.stop()
    opening.expect(Stopped)
    for each in (tmp_path / "checkpoint" / "offsets").iterdir():
        each.write_text("broken")
    trace = made.fail()
    assert "MALFORMED_LOG_FILE" in trace.split("\n")[0]
    assert "BatchNotWritten" not in trace


def test_a_checkpoint_on_another_machine_is_missed(stage: Stage, tmp_path: Path) -> None:
    made = ticks(stage, tmp_path)
    opening = made.open()
    go_on(made, opening, 20)
    opening.run.stop()
    opening.expect(Stopped)
    (tmp_path / "checkpoint").rename(tmp_path / "elsewhere")
    assert made.fail().startswith(
        f"CheckpointLost: checkpoint.location={tmp_path}/checkpoint does not have batch"
    )


@pytest.mark.slow
def test_a_killed_jvm_loses_no_number(stage: Stage, engine: SparkEngine, tmp_path: Path) -> None:
    made = ticks(stage, tmp_path)
    for _ in range(2):
        opening = made.open()
        go_on(made, opening, 30)
        opening.run.next()
        session = engine._session.current
        assert session is not None
        session.process.kill()
        failed: object = opening.events.get(timeout=60)
        while isinstance(failed, BatchDone):
            note(made, failed)
            failed = opening.events.get(timeout=60)
        assert isinstance(failed, Failed)
        assert failed.engine_lost
        await_ready(engine)
    opening = made.open()
    go_on(made, opening, 30)
    opening.run.stop()
    opening.expect(Stopped)
    found = numbers(made)
    assert sorted(set(found)) == list(range(found[-1] + 1))
    assert isinstance(opening.seen[0], Opened)
