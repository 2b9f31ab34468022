"""Tests that no records are lost if Spark's JVM or the worker is killed or stopped during a large transfer.

A kill may duplicate only the batches in flight (docs/ARCHITECTURE.md, "Failures of components").
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition

from kraal.broker.broker import Broker
from kraal.connectors.file.source import BATCH_BYTES
from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.stores.offset_file import OffsetFile
from kraal.testing.process import WorkerProcess
from scripts.harness.proofs import count_differences, prove
from tests.fakes.spark.pipe import RUNNING, Pipe, create_topic

pytestmark = pytest.mark.ci

LINE_COUNT = 190_000
PADDING = "x" * 829
LINE_BYTES = 840
"""Length of a line. Lines are long, because batches are limited by bytes and the source must need two batches."""
SOURCE_BATCH_RECORDS = BATCH_BYTES // LINE_BYTES
SINK_BATCH_RECORDS = 60_000
GRACEFUL_S = 60.0
"""Shutdown timeout of tasks. SIGTERM must not interrupt a batch in flight, even on a busy machine."""


@pytest.fixture(scope="module")
def killable_worker(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """Define a worker that tests kill. Each test first starts a killed worker, with the files of the previous test."""
    properties = {
        "max.records.per.batch": str(SINK_BATCH_RECORDS),
        "task.shutdown.graceful.timeout.ms": f"{GRACEFUL_S * 1000:.0f}",
        # The time after which a sink's group removes a killed member; the default is 45 s, as in Java.
        "consumer.session.timeout.ms": "6000",
    }
    worker = WorkerProcess(tmp_path_factory.mktemp("mortal"), kafka.bootstrap, properties=properties)
    yield worker
    worker.close()


@pytest.fixture
def large_pipe(killable_worker: WorkerProcess, kafka: Broker, tmp_path: Path) -> Iterator[Pipe]:
    """Start a large transfer, which is in progress when the test begins."""
    if not killable_worker.alive:
        killable_worker.start()
    pipe = Pipe(killable_worker, tmp_path, padding=PADDING)
    create_topic(kafka.bootstrap, pipe.topic)
    pipe.write(LINE_COUNT)
    pipe.create()
    pipe.wait_until_first_output()
    yield pipe
    if killable_worker.alive:
        pipe.delete()
    pipe.source_file.unlink()
    pipe.sink_file.unlink(missing_ok=True)


def is_in_progress(pipe: Pipe) -> bool:
    return 0 < pipe.sink_size() < pipe.source_file.stat().st_size


def test_killed_jvm_is_reported_and_recovered(large_pipe: Pipe) -> None:
    worker = large_pipe.worker
    jvm = worker.jvm()
    assert jvm is not None
    jvm.kill()
    assert is_in_progress(large_pipe)
    for name in (large_pipe.source, large_pipe.sink):
        worker.wait_for_states(name, ["RUNNING", "FAILED"])
        assert worker.traces(name)[0].startswith("Spark's JVM ended (signal 9)")
    large_pipe.wait_until_running()
    large_pipe.wait_until_through()
    assert large_pipe.assert_at_least_once() <= SOURCE_BATCH_RECORDS + SINK_BATCH_RECORDS
    assert large_pipe.states() == [*RUNNING, *RUNNING]


def test_killed_worker_recovers_its_connectors_and_all_records(large_pipe: Pipe, kafka: Broker) -> None:
    worker = large_pipe.worker
    assert worker.jvm() is not None
    processes = worker.kill()
    assert is_in_progress(large_pipe)
    _, alive = psutil.wait_procs(processes, timeout=120)
    assert not alive, "processes of the killed worker must not write at the same time as the next worker"
    unstored_count = count_records(kafka, large_pipe.topic) - stored_position(large_pipe) // LINE_BYTES
    assert 0 <= unstored_count <= SOURCE_BATCH_RECORDS
    worker.start()
    assert {large_pipe.source, large_pipe.sink} <= set(worker.get("/connectors").body)
    large_pipe.wait_until_through()
    large_pipe.wait_until_running()
    duplicate_count = count_records(kafka, large_pipe.topic) - LINE_COUNT
    assert duplicate_count == unstored_count
    sink_duplicate_count = large_pipe.assert_at_least_once()
    assert sink_duplicate_count <= duplicate_count + SINK_BATCH_RECORDS
    assert count_differences(prove(worker, large_pipe.source)) == [0, duplicate_count, 0]
    assert count_differences(prove(worker, large_pipe.sink)) == [0, sink_duplicate_count - duplicate_count, 0]


def count_records(kafka: Broker, topic: str) -> int:
    """Return the number of records in a topic."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "unused", "log_level": 2})
    try:
        bounds = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        assert bounds is not None
        return bounds[1]
    finally:
        consumer.close()


def stored_position(pipe: Pipe) -> int:
    """Return the source's position in Connect's offset file."""
    offsets = OffsetFile(pipe.worker.offset_file).load(ConnectorName(pipe.source))
    position = offsets.get(SourcePartition.of({"filename": str(pipe.source_file)}), {}).get("position", 0)
    assert isinstance(position, int)
    return position


def test_sigterm_stops_in_time_and_next_start_continues(large_pipe: Pipe) -> None:
    worker = large_pipe.worker
    assert worker.end(GRACEFUL_S + 15) == 0
    assert is_in_progress(large_pipe)
    assert worker.tree() == []
    worker.start()
    large_pipe.wait_until_through()
    large_pipe.wait_until_running()
    assert large_pipe.assert_at_least_once() == 0
    assert large_pipe.is_through_exactly()
