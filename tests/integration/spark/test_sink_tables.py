"""Tests that a sink of tables writes few records without a Spark job, and in order with backlogs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from kraal.engine.api import BatchDone, Committed, Held, Opened, Stopped
from kraal.engine.sink.ways import Way
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import Opening, Stage
from tests.fakes.spark.tasks import STRING

TEXTS = {"key.converter": STRING, "value.converter": STRING}
BY_RECORDS = {"errors.tolerance": "all"}


def new_name() -> str:
    return f"sink-{uuid.uuid4().hex[:8]}"


def open_run(stage: Stage, task: str, topic: str, config: Mapping[str, str]) -> Opening:
    opening = stage.open(task, "TableSink", {"topics": topic, **TEXTS, **config})
    opening.expect(Opened)
    opening.run.next()
    return opening


def commit_batch(opening: Opening) -> BatchDone:
    batch_done = opening.expect(BatchDone)
    opening.run.commit(batch_done.offsets)
    opening.expect(Committed)
    opening.run.next()
    return batch_done


def count_jobs(stage: Stage) -> int:
    """Return the number of Spark jobs that have been submitted."""
    tracker = stage.engine._session.spark().session.sparkContext._jsc.sc().dagScheduler()
    return int(tracker.nextJobId())


@pytest.mark.parametrize("config", [{}, BY_RECORDS], ids=["plain", "record by record"])
def test_few_records_require_no_job_and_are_in_order_with_a_backlog(
    stage: Stage, config: dict[str, str]
) -> None:
    task, topic = new_name(), stage.topic()
    opening = open_run(stage, task, topic, config)
    stage.produce(topic, ["first"])
    commit_batch(opening)
    before = count_jobs(stage)
    way = Way.TAIL_BY_RECORDS if config else Way.DIRECT
    for number in range(5):
        stage.produce(topic, [f"one {number}"])
        assert commit_batch(opening).way.startswith(way.value)
    assert count_jobs(stage) == before
    stage.produce(topic, [f"many {number}" for number in range(3000)])
    count = 0
    while count < 3000:
        count += commit_batch(opening).records
    assert count_jobs(stage) > before
    stage.produce(topic, ["last"])
    assert commit_batch(opening).way.startswith(way.value)
    opening.run.stop()
    assert opening.expect(Stopped).clean
    texts = ["first", *(f"one {n}" for n in range(5)), *(f"many {n}" for n in range(3000)), "last"]
    assert [value for *_, value in plugins.WRITTEN[task]] == texts


def test_pause_during_a_consumer_wait_loses_and_repeats_no_records(stage: Stage) -> None:
    task, topic = new_name(), stage.topic()
    opening = open_run(stage, task, topic, {})
    for number in range(20):
        stage.produce(topic, [str(number)])
        if number % 3 == 2:
            opening.run.hold()
            event = opening.events.get(timeout=60)
            if isinstance(event, BatchDone):  # the batch was written before the run paused
                opening.expect(Held)
                opening.run.commit(event.offsets)
                opening.expect(Committed)
            else:
                assert isinstance(event, Held), event
            opening.run.next()
    while len(plugins.WRITTEN[task]) < 20:
        commit_batch(opening)
    opening.run.stop()
    assert opening.expect(Stopped).clean
    assert [value for *_, value in plugins.WRITTEN[task]] == [str(number) for number in range(20)]
