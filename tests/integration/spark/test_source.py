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
from tests.fakes.spark.stage import RunObserver, TaskHarness

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


def open_run(harness: TaskHarness, task: str) -> RunObserver:
    observer = harness.open(task)
    observer.expect(Opened)
    return observer


def stop_run(observer: RunObserver) -> None:
    observer.run.stop()
    assert observer.expect(Stopped).clean


def test_small_batches_are_written_in_order_with_their_offsets(harness: TaskHarness) -> None:
    task, topic = new_name(), harness.topic()
    observer = open_run(harness, task)
    for start in range(0, 60, 20):
        plugins.BATCHES[task].append(make_batch(topic, start, 20))
        observer.run.next()
        batch_done = observer.expect(BatchDone)
        assert batch_done.offsets == {PARTITION: {"position": start + 20}}
        assert batch_done.records == 20
        assert set(batch_done.topics) == {topic}
    assert harness.values(topic, 60) == [f"v{number}" for number in range(60)]
    stop_run(observer)
    assert plugins.STOPPED[task].is_set()


def test_range_that_spark_reads_is_written_in_order_and_counted(harness: TaskHarness) -> None:
    def read(spark: SparkSession) -> DataFrame:
        return spark.range(0, 20_000, 1, 1).selectExpr(
            "cast(id as string) as value", "cast(id % 7 as string) as key"
        )

    task, topic = new_name(), harness.topic()
    observer = open_run(harness, task)
    plugins.BATCHES[task].append(plugins.read_batch(read, 20_000, topic))
    observer.run.next()
    batch_done = observer.expect(BatchDone)
    assert batch_done.records == 20_000
    assert set(batch_done.topics) == {topic}
    messages = harness.messages(topic, 20_000)
    assert [int(message.value()) for message in messages] == list(range(20_000))
    assert messages[8].key() == b"1"
    stop_run(observer)


def test_uncancellable_jobs_do_not_block_the_next_task(
    harness: TaskHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "ABANDON_TIMEOUT_S", 0.2)
    release, entered = threading.Event(), threading.Semaphore(0)

    def hang(spark: SparkSession) -> DataFrame:
        entered.release()
        release.wait()
        return spark.range(1).selectExpr("cast(id as string) as value")

    topic = harness.topic()
    blocked_tasks = [new_name() for _ in range(JOB_THREADS)]
    observers = [open_run(harness, task) for task in blocked_tasks]
    try:
        for task, observer in zip(blocked_tasks, observers, strict=True):
            plugins.BATCHES[task].append(plugins.read_batch(hang, 1, topic))
            observer.run.next()
        for _ in blocked_tasks:
            assert entered.acquire(timeout=60)
        for observer in observers:
            observer.run.cancel()
            assert not observer.expect(Stopped).clean
        jobs = harness.engine.pools()[0]
        assert sorted(call.owner for call in jobs.stuck) == sorted(f"{task}-0" for task in blocked_tasks)
        assert not jobs.is_exhausted
        next_task = new_name()
        observer = open_run(harness, next_task)
        plugins.BATCHES[next_task].append(make_batch(topic, 0, 5))
        observer.run.next()
        assert observer.expect(BatchDone).records == 5
        stop_run(observer)
    finally:
        release.set()
    for task in blocked_tasks:
        assert plugins.STOPPED[task].wait(60), "the plugin must be stopped after the call"
    assert harness.values(topic, 5) == [f"v{number}" for number in range(5)], (
        "late jobs must not write records"
    )


def test_pending_small_batches_of_many_tasks_share_jobs(harness: TaskHarness) -> None:
    tasks, topic = [new_name() for _ in range(12)], harness.topic()
    observers = [open_run(harness, task) for task in tasks]
    jobs_before = harness.engine.coalescer.jobs
    for task, observer in zip(tasks, observers, strict=True):
        plugins.BATCHES[task].append(make_batch(topic, 0, 5))
        observer.run.next()
    assert all(observer.expect(BatchDone).records == 5 for observer in observers)
    assert harness.engine.coalescer.jobs - jobs_before < len(tasks)
    assert len(harness.values(topic, 60)) == 60
    for observer in observers:
        stop_run(observer)


def test_bad_batch_in_a_shared_job_fails_alone(harness: TaskHarness) -> None:
    good_tasks, bad_task, topic = [new_name() for _ in range(6)], new_name(), harness.topic()
    observers = {task: open_run(harness, task) for task in [*good_tasks, bad_task]}
    for task, observer in observers.items():
        plugins.BATCHES[task].append(make_batch("not a topic!" if task == bad_task else topic, 0, 5))
        observer.run.next()
    failure = observers[bad_task].expect(Failed)
    first_line = failure.trace.splitlines()[0]
    assert first_line.startswith("org.apache.kafka.common.errors.InvalidTopicException: ")
    assert "not a topic!" in first_line
    assert not failure.engine_lost
    assert all(observers[task].expect(BatchDone).records == 5 for task in good_tasks)
    for task in good_tasks:
        stop_run(observers[task])


def test_start_failure_has_the_message_of_the_plugin(harness: TaskHarness) -> None:
    observer = harness.open(new_name(), config={"start.error": "no such thing"})
    assert observer.expect(Failed).trace.startswith("ValueError: no such thing\n")


def test_retriable_error_is_retried_and_system_exit_fails_only_the_task(harness: TaskHarness) -> None:
    task, topic = new_name(), harness.topic()
    observer = open_run(harness, task)
    plugins.BATCHES[task].extend([RetriableError("later"), make_batch(topic, 0, 1)])
    observer.run.next()
    assert observer.expect(BatchDone).records == 1
    plugins.BATCHES[task].append(SystemExit(3))
    observer.run.next()
    assert observer.expect(Failed).trace.startswith("SystemExit: 3")


def test_hold_withdraws_a_request_and_next_resumes(harness: TaskHarness) -> None:
    task, topic = new_name(), harness.topic()
    observer = open_run(harness, task)
    observer.run.next()
    observer.run.hold()
    observer.expect(Held)
    plugins.BATCHES[task].append(make_batch(topic, 0, 1))
    observer.run.next()
    assert observer.expect(BatchDone).records == 1
    stop_run(observer)


def test_source_without_a_lease_writes_no_records(harness: TaskHarness) -> None:
    task, topic, lease = new_name(), harness.topic(), threading.Event()
    observer = harness.open(task, lease=lease.is_set)
    observer.expect(Opened)
    plugins.BATCHES[task].append(make_batch(topic, 0, 1))
    observer.run.next()
    threading.Event().wait(0.7)
    assert harness.messages(topic, 1, 0.5) == []
    lease.set()
    assert observer.expect(BatchDone).records == 1
    stop_run(observer)


def test_cancel_ends_a_running_job(harness: TaskHarness) -> None:
    started = threading.Event()

    def read(spark: SparkSession) -> DataFrame:
        started.set()
        sleep_expression = (
            "cast(java_method('java.lang.Thread', 'sleep', id * 0 + 60000L) as string) as value"
        )
        return spark.range(0, 100, 1, 1).selectExpr(sleep_expression)

    task, topic = new_name(), harness.topic()
    observer = open_run(harness, task)
    plugins.BATCHES[task].append(plugins.read_batch(read, 1, topic))
    observer.run.next()
    assert started.wait(120)
    observer.run.cancel()
    assert not observer.expect(Stopped, 10).clean


def test_second_run_of_a_task_starts_after_the_first_has_ended(harness: TaskHarness) -> None:
    task, topic = new_name(), harness.topic()
    first_observer = open_run(harness, task)
    first_observer.run.next()
    second_observer = harness.open(task)
    assert not first_observer.expect(Stopped).clean
    second_observer.expect(Opened)
    plugins.BATCHES[task].append(make_batch(topic, 0, 3))
    second_observer.run.next()
    assert second_observer.expect(BatchDone).records == 3
    assert harness.values(topic, 3) == ["v0", "v1", "v2"]
    stop_run(second_observer)


def test_batch_polled_after_a_hold_waits_for_the_next_request(harness: TaskHarness) -> None:
    task, topic = new_name(), harness.topic()
    observer = open_run(harness, task)
    observer.run.next()
    observer.run.hold()
    observer.expect(Held)
    plugins.BATCHES[task].append(make_batch(topic, 0, 1))
    other_task = new_name()  # its three batches take longer than any poll that was scheduled before the hold
    other_observer = open_run(harness, other_task)
    for start in range(3):
        plugins.BATCHES[other_task].append(make_batch(harness.topic(), start, 1))
        other_observer.run.next()
        other_observer.expect(BatchDone)
    assert observer.events.empty()
    observer.run.next()
    assert observer.expect(BatchDone).records == 1
    stop_run(other_observer)
    stop_run(observer)
