"""Tests that a table sink writes a few records without a Spark job, and in order with backlogs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from kraal.engine.api import BatchDone, Committed, Held, Opened, Stopped
from kraal.engine.sink.write_paths import WritePath
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import RunObserver, TaskHarness
from tests.fakes.spark.tasks import STRING_CONVERTER

STRING_CONVERTERS = {"key.converter": STRING_CONVERTER, "value.converter": STRING_CONVERTER}
RECORD_PATH_CONFIG = {"errors.tolerance": "all"}


def new_name() -> str:
    return f"sink-{uuid.uuid4().hex[:8]}"


def open_run(harness: TaskHarness, task: str, topic: str, config: Mapping[str, str]) -> RunObserver:
    observer = harness.open(task, "TableSink", {"topics": topic, **STRING_CONVERTERS, **config})
    observer.expect(Opened)
    observer.run.next()
    return observer


def commit_batch(observer: RunObserver) -> BatchDone:
    batch_done = observer.expect(BatchDone)
    observer.run.commit(batch_done.offsets)
    observer.expect(Committed)
    observer.run.next()
    return batch_done


def count_jobs(harness: TaskHarness) -> int:
    """Return the number of Spark jobs that have been submitted."""
    tracker = harness.engine._session.spark().session.sparkContext._jsc.sc().dagScheduler()
    return int(tracker.nextJobId())


@pytest.mark.parametrize("config", [{}, RECORD_PATH_CONFIG], ids=["plain", "record by record"])
def test_few_records_require_no_job_and_are_in_order_with_a_backlog(
    harness: TaskHarness, config: dict[str, str]
) -> None:
    task, topic = new_name(), harness.topic()
    observer = open_run(harness, task, topic, config)
    harness.produce(topic, ["first"])
    commit_batch(observer)
    jobs_before = count_jobs(harness)
    write_path = WritePath.TAIL_BY_RECORDS if config else WritePath.DIRECT
    for number in range(5):
        harness.produce(topic, [f"one {number}"])
        assert commit_batch(observer).write_path.startswith(write_path.value)
    assert count_jobs(harness) == jobs_before
    harness.produce(topic, [f"many {number}" for number in range(3000)])
    count = 0
    while count < 3000:
        count += commit_batch(observer).records
    assert count_jobs(harness) > jobs_before
    harness.produce(topic, ["last"])
    assert commit_batch(observer).write_path.startswith(write_path.value)
    observer.run.stop()
    assert observer.expect(Stopped).clean
    expected_values = ["first", *(f"one {n}" for n in range(5)), *(f"many {n}" for n in range(3000)), "last"]
    assert [value for *_, value in plugins.WRITTEN[task]] == expected_values


def test_pause_during_a_consumer_wait_loses_and_repeats_no_records(harness: TaskHarness) -> None:
    task, topic = new_name(), harness.topic()
    observer = open_run(harness, task, topic, {})
    for number in range(20):
        harness.produce(topic, [str(number)])
        if number % 3 == 2:
            observer.run.hold()
            event = observer.events.get(timeout=60)
            if isinstance(event, BatchDone):  # the batch was written before the run paused
                observer.expect(Held)
                observer.run.commit(event.offsets)
                observer.expect(Committed)
            else:
                assert isinstance(event, Held), event
            observer.run.next()
    while len(plugins.WRITTEN[task]) < 20:
        commit_batch(observer)
    observer.run.stop()
    assert observer.expect(Stopped).clean
    assert [value for *_, value in plugins.WRITTEN[task]] == [str(number) for number in range(20)]
