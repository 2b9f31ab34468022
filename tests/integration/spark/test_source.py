"""Tests for sources on real Spark. Mirrors WorkerSourceTaskTest and ConnectWorkerIntegrationTest."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kraal.core.offsets import SourcePartition
from kraal.engine import task_run as run_module
from kraal.engine.api import BatchDone, Failed, Held, Opened, Stopped
from kraal.engine.engine import JOB_THREADS
from kraal.plugins.api import RetriableError, SourceBatch
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import Opening, Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION = SourcePartition.of({"list": "a"})


def new_name() -> str:
    return f"source-{uuid.uuid4().hex[:8]}"


def make_batch(topic: str | None, start: int, count: int) -> SourceBatch:
    values = [f"v{number}" for number in range(start, start + count)]
    return SourceBatch(
        offsets={PARTITION: {"position": start + count}}, table=pa.table({"value": values}), topic=topic
    )


def open_run(stage: Stage, task: str) -> Opening:
    opening = stage.open(task)
    opening.expect(Opened)
    return opening


def stop_run(opening: Opening) -> None:
    opening.run.stop()
    assert opening.expect(Stopped).clean


def test_small_batches_are_written_in_order_with_their_offsets(stage: Stage) -> None:
    task, topic = new_name(), stage.topic()
    opening = open_run(stage, task)
    for start in range(0, 60, 20):
        plugins.BATCHES[task].append(make_batch(topic, start, 20))
        opening.run.next()
        batch_done = opening.expect(BatchDone)
        assert batch_done.offsets == {PARTITION: {"position": start + 20}}
        assert batch_done.records == 20
        assert set(batch_done.topics) == {topic}
    assert stage.values(topic, 60) == [f"v{number}" for number in range(60)]
    stop_run(opening)
    assert plugins.STOPPED[task].is_set()


def test_range_that_spark_reads_is_written_in_order_and_counted(stage: Stage) -> None:
    def read(spark: SparkSession) -> DataFrame:
        return spark.range(0, 20_000, 1, 1).selectExpr(
            "cast(id as string) as value", "cast(id % 7 as string) as key"
        )

    task, topic = new_name(), stage.topic()
    opening = open_run(stage, task)
    plugins.BATCHES[task].append(plugins.read_batch(read, 20_000, topic))
    opening.run.next()
    batch_done = opening.expect(BatchDone)
    assert batch_done.records == 20_000
    assert set(batch_done.topics) == {topic}
    messages = stage.messages(topic, 20_000)
    assert [int(message.value()) for message in messages] == list(range(20_000))
    assert messages[8].key() == b"1"
    stop_run(opening)


def test_uncancellable_jobs_do_not_block_the_next_task(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "ABANDON_TIMEOUT_S", 0.2)
    release, entered = threading.Event(), threading.Semaphore(0)

    def hang(spark: SparkSession) -> DataFrame:
        entered.release()
        release.wait()
        return spark.range(1).selectExpr("cast(id as string) as value")

    topic = stage.topic()
    blocked = [new_name() for _ in range(JOB_THREADS)]
    openings = [open_run(stage, task) for task in blocked]
    try:
        for task, opening in zip(blocked, openings, strict=True):
            plugins.BATCHES[task].append(plugins.read_batch(hang, 1, topic))
            opening.run.next()
        for _ in blocked:
            assert entered.acquire(timeout=60)
        for opening in openings:
            opening.run.cancel()
            assert not opening.expect(Stopped).clean
        jobs = stage.engine.pools()[0]
        assert sorted(call.owner for call in jobs.stuck) == sorted(f"{task}-0" for task in blocked)
        assert not jobs.is_exhausted
        next_task = new_name()
        opening = open_run(stage, next_task)
        plugins.BATCHES[next_task].append(make_batch(topic, 0, 5))
        opening.run.next()
        assert opening.expect(BatchDone).records == 5
        stop_run(opening)
    finally:
        release.set()
    for task in blocked:
        assert plugins.STOPPED[task].wait(60), "the plugin must be stopped after the call"
    assert stage.values(topic, 5) == [f"v{number}" for number in range(5)], "late jobs must not write records"


def test_pending_small_batches_of_many_tasks_share_a_job(stage: Stage) -> None:
    tasks, topic = [new_name() for _ in range(12)], stage.topic()
    openings = [open_run(stage, task) for task in tasks]
    before = stage.engine.coalescer.jobs
    for task, opening in zip(tasks, openings, strict=True):
        plugins.BATCHES[task].append(make_batch(topic, 0, 5))
        opening.run.next()
    assert all(opening.expect(BatchDone).records == 5 for opening in openings)
    assert stage.engine.coalescer.jobs - before < len(tasks)
    assert len(stage.values(topic, 60)) == 60
    for opening in openings:
        stop_run(opening)


def test_bad_batch_in_a_shared_job_fails_alone(stage: Stage) -> None:
    good, bad, topic = [new_name() for _ in range(6)], new_name(), stage.topic()
    openings = {task: open_run(stage, task) for task in [*good, bad]}
    for task, opening in openings.items():
        plugins.BATCHES[task].append(make_batch("not a topic!" if task == bad else topic, 0, 5))
        opening.run.next()
    failed = openings[bad].expect(Failed)
    first_line = failed.trace.splitlines()[0]
    assert first_line.startswith("org.apache.kafka.common.errors.InvalidTopicException: ")
    assert "not a topic!" in first_line
    assert not failed.engine_lost
    assert all(openings[task].expect(BatchDone).records == 5 for task in good)
    for task in good:
        stop_run(openings[task])


def test_plugin_start_failure_has_its_own_message(stage: Stage) -> None:
    opening = stage.open(new_name(), config={"start.error": "no such thing"})
    assert opening.expect(Failed).trace.startswith("ValueError: no such thing\n")


def test_retriable_error_is_retried_and_system_exit_fails_only_the_task(stage: Stage) -> None:
    task, topic = new_name(), stage.topic()
    opening = open_run(stage, task)
    plugins.BATCHES[task].extend([RetriableError("later"), make_batch(topic, 0, 1)])
    opening.run.next()
    assert opening.expect(BatchDone).records == 1
    plugins.BATCHES[task].append(SystemExit(3))
    opening.run.next()
    assert opening.expect(Failed).trace.startswith("SystemExit: 3")


def test_hold_withdraws_a_request_and_next_resumes(stage: Stage) -> None:
    task, topic = new_name(), stage.topic()
    opening = open_run(stage, task)
    opening.run.next()
    opening.run.hold()
    opening.expect(Held)
    plugins.BATCHES[task].append(make_batch(topic, 0, 1))
    opening.run.next()
    assert opening.expect(BatchDone).records == 1
    stop_run(opening)


def test_source_without_a_lease_writes_no_records(stage: Stage) -> None:
    task, topic, lease = new_name(), stage.topic(), threading.Event()
    opening = stage.open(task, lease=lease.is_set)
    opening.expect(Opened)
    plugins.BATCHES[task].append(make_batch(topic, 0, 1))
    opening.run.next()
    threading.Event().wait(0.7)
    assert stage.messages(topic, 1, 0.5) == []
    lease.set()
    assert opening.expect(BatchDone).records == 1
    stop_run(opening)


def test_cancel_ends_a_running_job(stage: Stage) -> None:
    started = threading.Event()

    def read(spark: SparkSession) -> DataFrame:
        started.set()
        slow = "cast(java_method('java.lang.Thread', 'sleep', id * 0 + 60000L) as string) as value"
        return spark.range(0, 100, 1, 1).selectExpr(slow)

    task, topic = new_name(), stage.topic()
    opening = open_run(stage, task)
    plugins.BATCHES[task].append(plugins.read_batch(read, 1, topic))
    opening.run.next()
    assert started.wait(120)
    opening.run.cancel()
    assert not opening.expect(Stopped, 10).clean


def test_second_run_of_a_task_starts_after_the_first_has_ended(stage: Stage) -> None:
    task, topic = new_name(), stage.topic()
    first_opening = open_run(stage, task)
    first_opening.run.next()
    second_opening = stage.open(task)
    assert not first_opening.expect(Stopped).clean
    second_opening.expect(Opened)
    plugins.BATCHES[task].append(make_batch(topic, 0, 3))
    second_opening.run.next()
    assert second_opening.expect(BatchDone).records == 3
    assert stage.values(topic, 3) == ["v0", "v1", "v2"]
    stop_run(second_opening)


def test_batch_polled_after_a_hold_waits_for_the_next_request(stage: Stage) -> None:
    task, topic = new_name(), stage.topic()
    opening = open_run(stage, task)
    opening.run.next()
    opening.run.hold()
    opening.expect(Held)
    plugins.BATCHES[task].append(make_batch(topic, 0, 1))
    witness = new_name()  # its three batches take longer than any poll that was scheduled before the hold
    other_opening = open_run(stage, witness)
    for start in range(3):
        plugins.BATCHES[witness].append(make_batch(stage.topic(), start, 1))
        other_opening.run.next()
        other_opening.expect(BatchDone)
    assert opening.events.empty()
    opening.run.next()
    assert opening.expect(BatchDone).records == 1
    stop_run(other_opening)
    stop_run(opening)
