"""Tests of the verifiable connectors on real Spark and a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from kraal.connectors.verifiable.source import MAX_RECORDS, MAX_WORKER_RECORDS
from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Opened, Stopped
from tests.fakes.spark.stage import Stage
from tests.fakes.spark.tasks import PLAIN, run_sink
from tests.fakes.workers.examples import example

NUMBER = "org.apache.kafka.connect.converters.{}Converter"


def read_printed(capfd: pytest.CaptureFixture[str]) -> list[Any]:
    """Return the lines printed since the last call."""
    return [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{")]


def list_seqnos(lines: Sequence[Any], kind: str) -> list[Any]:
    return [line["seqno"] for line in lines if kind in line]


def run_source(
    stage: Stage, config: dict[str, str], offset: int | None, at_least: int
) -> tuple[int, list[BatchDone]]:
    """Write at least this number of records; return the last stored sequence number and the batches."""
    offsets = {} if offset is None else {SourcePartition.of({"id": 1}): {"seqno": offset}}
    name = f"verifiable-{uuid.uuid4().hex[:8]}"
    opening = stage.open(name, "VerifiableSource", {**config, "id": "1"}, offsets)
    opening.expect(Opened)
    batches: list[BatchDone] = []
    while sum(done.records for done in batches) < at_least:
        opening.run.next()
        batches.append(opening.expect(BatchDone))
    opening.run.stop()
    assert opening.expect(Stopped).clean
    ((_, stored),) = batches[-1].offsets.items()
    assert isinstance(stored["seqno"], int)
    return stored["seqno"], batches


def test_source_prints_records_and_resumes_after_restart(
    stage: Stage, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = stage.topic()
    config = example("verifiable-source", {"topic": topic, "throughput": "2000"})
    last, _ = run_source(stage, config, None, 30)
    first_lines = read_printed(capfd)
    new_last, _ = run_source(stage, config, last, 30)
    lines = first_lines + read_printed(capfd)
    created = [line["seqno"] for line in lines if "committed" not in line]
    assert created == list(range(new_last + 1))
    committed = list_seqnos(lines, "committed")
    assert committed == sorted(set(committed))
    assert set(committed) <= set(created)
    messages = stage.messages(topic, new_last + 1)
    assert [(json.loads(message.key()), json.loads(message.value())) for message in messages] == [
        (1, number) for number in range(new_last + 1)
    ]


def test_large_batch_reaches_the_sink(stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    topic, name = stage.topic(), f"sink-{uuid.uuid4().hex[:8]}"
    config = example("verifiable-source", {"topic": topic, "throughput": "-1"})
    numbers = {"key.converter": NUMBER.format("Integer"), "value.converter": NUMBER.format("Long")}
    last, batches = run_source(stage, {**config, **numbers}, None, MAX_WORKER_RECORDS + 1)
    assert (last, [done.records for done in batches]) == (MAX_RECORDS - 1, [MAX_RECORDS])
    assert list_seqnos(read_printed(capfd), "task") == list(range(MAX_RECORDS))
    sink = {**example("verifiable-sink", {"topics": topic}), **numbers, "id": "3"}
    run_sink(stage, sink, MAX_RECORDS, name=name, connector="VerifiableSink")
    lines = read_printed(capfd)
    put = [line for line in lines if "flushed" not in line]
    assert [line["seqno"] for line in put] == list(range(MAX_RECORDS))
    assert list_seqnos(lines, "flushed") == list(range(MAX_RECORDS))
    assert put[7] == {
        "task": 1, "seqno": 7, "offset": 7, "time_ms": put[7]["time_ms"], "name": name, "topic": topic, "sinkTask": 3,
    }  # fmt: skip
    assert list(put[7]) == ["task", "seqno", "offset", "time_ms", "name", "topic", "sinkTask"]


def test_sink_prints_complete_and_foreign_records(stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    topic, name = stage.topic(), f"sink-{uuid.uuid4().hex[:8]}"
    source = {"topic": topic, "key.converter": NUMBER.format("Integer"), **PLAIN}
    last, _ = run_source(stage, {**source, "throughput": "100", "complete.record.data": "true"}, None, 1)
    read_printed(capfd)
    stage.produce(topic, ['"text"', "null", '{"a":[1]}'])
    plain = {key: value for key, value in source.items() if key != "topic"} | {"topics": topic, "id": "0"}
    run_sink(stage, plain, last + 4, name=name, connector="VerifiableSink")
    lines = [line for line in read_printed(capfd) if "flushed" in line]
    assert set(lines[0]["seqno"]) == {"name", "task", "topic", "time_ms", "seqno"}
    assert [(line["task"], line["seqno"]) for line in lines[last + 1 :]] == [
        (None, "text"),
        (None, None),
        (None, {"a": [1]}),
    ]
