"""Tests for the verifiable connectors on real Spark and a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from kraal.connectors.verifiable.source import MAX_RECORDS, MAX_WORKER_RECORDS
from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone, Opened, Stopped
from kraal.proof.result import Verdict
from tests.fakes.spark.stage import TaskHarness
from tests.fakes.spark.tasks import SCHEMALESS_JSON, prove_source, run_sink
from tests.fakes.workers.examples import example

NUMBER_CONVERTER = "org.apache.kafka.connect.converters.{}Converter"


def read_printed_lines(capfd: pytest.CaptureFixture[str]) -> list[Any]:
    """Return the lines printed since the last call."""
    return [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{")]


def list_seqnos(lines: Sequence[Any], kind: str) -> list[Any]:
    return [line["seqno"] for line in lines if kind in line]


def run_source(
    harness: TaskHarness, config: dict[str, str], offset: int | None, min_records: int
) -> tuple[int, list[BatchDone]]:
    """Run a source until it has written `min_records` records. Return the last stored seqno and the batches."""
    offsets = {} if offset is None else {SourcePartition.of({"id": 1}): {"seqno": offset}}
    name = f"verifiable-{uuid.uuid4().hex[:8]}"
    observer = harness.open(name, "VerifiableSource", {**config, "id": "1"}, offsets)
    observer.expect(Opened)
    batches: list[BatchDone] = []
    while sum(done.records for done in batches) < min_records:
        observer.run.next()
        batches.append(observer.expect(BatchDone))
    observer.run.stop()
    assert observer.expect(Stopped).clean
    ((_, stored_offset),) = batches[-1].offsets.items()
    assert isinstance(stored_offset["seqno"], int)
    return stored_offset["seqno"], batches


def test_source_prints_records_and_resumes_after_restart(
    harness: TaskHarness, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = harness.topic()
    config = example("verifiable-source", {"topic": topic, "throughput": "2000"})
    last_seqno, _ = run_source(harness, config, None, 30)
    first_lines = read_printed_lines(capfd)
    new_last_seqno, _ = run_source(harness, config, last_seqno, 30)
    lines = first_lines + read_printed_lines(capfd)
    created_seqnos = [line["seqno"] for line in lines if "committed" not in line]
    assert created_seqnos == list(range(new_last_seqno + 1))
    committed_seqnos = list_seqnos(lines, "committed")
    assert committed_seqnos == sorted(set(committed_seqnos))
    assert set(committed_seqnos) <= set(created_seqnos)
    messages = harness.messages(topic, new_last_seqno + 1)
    assert [(json.loads(message.key()), json.loads(message.value())) for message in messages] == [
        (1, number) for number in range(new_last_seqno + 1)
    ]
    offsets = {SourcePartition.of({"id": 1}): {"seqno": new_last_seqno}}
    result = prove_source(harness, "VerifiableSource", config, offsets, [{"id": "1"}])
    assert (result.verdict, result.expected_count) == (Verdict.PROVED, new_last_seqno + 1)
    assert read_printed_lines(capfd) == []


def test_large_batch_reaches_the_sink(harness: TaskHarness, capfd: pytest.CaptureFixture[str]) -> None:
    topic, name = harness.topic(), f"sink-{uuid.uuid4().hex[:8]}"
    config = example("verifiable-source", {"topic": topic, "throughput": "-1"})
    converters = {
        "key.converter": NUMBER_CONVERTER.format("Integer"),
        "value.converter": NUMBER_CONVERTER.format("Long"),
    }
    last_seqno, batches = run_source(harness, {**config, **converters}, None, MAX_WORKER_RECORDS + 1)
    assert (last_seqno, [done.records for done in batches]) == (MAX_RECORDS - 1, [MAX_RECORDS])
    assert list_seqnos(read_printed_lines(capfd), "task") == list(range(MAX_RECORDS))
    sink = {**example("verifiable-sink", {"topics": topic}), **converters, "id": "3"}
    run_sink(harness, sink, MAX_RECORDS, name=name, connector="VerifiableSink")
    lines = read_printed_lines(capfd)
    puts = [line for line in lines if "flushed" not in line]
    assert [line["seqno"] for line in puts] == list(range(MAX_RECORDS))
    assert list_seqnos(lines, "flushed") == list(range(MAX_RECORDS))
    assert puts[7] == {
        "task": 1, "seqno": 7, "offset": 7, "time_ms": puts[7]["time_ms"], "name": name, "topic": topic, "sinkTask": 3,
    }  # fmt: skip
    assert list(puts[7]) == ["task", "seqno", "offset", "time_ms", "name", "topic", "sinkTask"]


def test_sink_prints_complete_and_foreign_records(
    harness: TaskHarness, capfd: pytest.CaptureFixture[str]
) -> None:
    topic, name = harness.topic(), f"sink-{uuid.uuid4().hex[:8]}"
    source = {"topic": topic, "key.converter": NUMBER_CONVERTER.format("Integer"), **SCHEMALESS_JSON}
    last_seqno, _ = run_source(
        harness, {**source, "throughput": "100", "complete.record.data": "true"}, None, 1
    )
    read_printed_lines(capfd)
    harness.produce(topic, ['"text"', "null", '{"a":[1]}'])
    sink_config = {key: value for key, value in source.items() if key != "topic"} | {
        "topics": topic,
        "id": "0",
    }
    run_sink(harness, sink_config, last_seqno + 4, name=name, connector="VerifiableSink")
    lines = [line for line in read_printed_lines(capfd) if "flushed" in line]
    assert set(lines[0]["seqno"]) == {"name", "task", "topic", "time_ms", "seqno"}
    assert [(line["task"], line["seqno"]) for line in lines[last_seqno + 1 :]] == [
        (None, "text"),
        (None, None),
        (None, {"a": [1]}),
    ]
