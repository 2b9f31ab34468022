"""Tests that verifiable connectors and a checkpointed stream lose no records when the worker is killed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable

import pytest

from kraal.broker.records import read_topic
from tests.fakes.workers.examples import example
from tests.integration.spark_cluster.environment import SparkEnvironment, read_end_offset

pytestmark = pytest.mark.slow  # takes a minute

TASK_COUNT = 2
RECORDS_PER_STEP = 200
"""The number of records to wait for before and after each kill."""


def read_numbers(environment: SparkEnvironment) -> dict[int, list[int]]:
    """Return the numbers of each source task, in the order of the topic."""
    numbers_by_task: dict[int, list[int]] = defaultdict(list)
    for record in read_topic(environment.broker.bootstrap, "numbers", timeout_s=30.0):
        numbers_by_task[json.loads(record.key or b"")].append(json.loads(record.value or b""))
    return numbers_by_task


def read_ticks(environment: SparkEnvironment) -> list[int]:
    return [json.loads(value)["value"] for value in environment.values("ticks")]


def parse_printed_records(log: str) -> set[tuple[int, int]]:
    """Return the task and the number of each record that the sink has printed."""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith('{"task"')]
    return {(line["task"], line["seqno"]) for line in lines if "sinkTask" in line}


def test_numbers_are_complete_after_the_worker_is_killed(environment: SparkEnvironment) -> None:
    worker = environment.worker("counters")
    worker.start()
    worker.create("numbers", example("verifiable-source", {"tasks.max": str(TASK_COUNT)}))
    worker.create("numbers-seen", example("verifiable-sink", {}))
    checkpoint = {
        "checkpoint.location": str(environment.create_shared_folder("ticks")),
        "spark.option.rowsPerSecond": "20",
    }
    worker.create("ticks", example("spark-source-rate", checkpoint))
    log_text = ""

    def has_more_records(topic: str) -> Callable[[], bool]:
        expected = read_end_offset(environment.broker.bootstrap, topic) + RECORDS_PER_STEP
        return lambda: read_end_offset(environment.broker.bootstrap, topic) >= expected

    for _ in range(2):
        for topic in ("numbers", "ticks"):
            worker.wait_until(f"{topic} had {RECORDS_PER_STEP} more", has_more_records(topic), timeout_s=120)
        worker.kill()
        log_text += worker.log_text()
        worker.start()
    for topic in ("numbers", "ticks"):
        worker.wait_until(f"{topic} had {RECORDS_PER_STEP} more", has_more_records(topic), timeout_s=120)
    for name in ("numbers", "ticks"):
        assert worker.put(f"/connectors/{name}/stop").status == 204
    worker.wait_for_states("numbers", ["STOPPED"])
    worker.wait_for_states("ticks", ["STOPPED"])
    numbers_by_task = read_numbers(environment)
    for task in range(TASK_COUNT):
        assert sorted(set(numbers_by_task[task])) == list(range(max(numbers_by_task[task]) + 1))
    assert sorted(set(read_ticks(environment))) == list(range(max(read_ticks(environment)) + 1))
    expected = {(task, number) for task, task_numbers in numbers_by_task.items() for number in task_numbers}
    worker.wait_until(
        "the sink printed all records",
        lambda: expected <= parse_printed_records(log_text + worker.log_text()),
    )
    for name in ("numbers", "numbers-seen", "ticks"):
        assert worker.traces(name) == []
    assert worker.end() == 0
