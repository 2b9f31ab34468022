"""Verifiable connectors and a stream with a checkpoint on a Spark cluster lose no numbers when the worker is killed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable

import pytest

from kraal.broker.records import read_topic
from tests.fakes.workers.examples import example
from tests.integration.spark_cluster.place import Place, end_of

pytestmark = pytest.mark.slow  # a minute

TASKS = 2
MORE = 200
"""The number of records before and after the kill."""


def numbers(place: Place) -> dict[int, list[int]]:
    """Return the numbers of each source task, in the order of the topic."""
    found: dict[int, list[int]] = defaultdict(list)
    for record in read_topic(place.broker.bootstrap, "numbers", timeout_s=30.0):
        found[json.loads(record.key or b"")].append(json.loads(record.value or b""))
    return found


def ticks(place: Place) -> list[int]:
    return [json.loads(value)["value"] for value in place.values("ticks")]


def seen(log: str) -> set[tuple[int, int]]:
    """Return the task and number of each record that the sink has printed."""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith('{"task"')]
    return {(line["task"], line["seqno"]) for line in lines if "sinkTask" in line}


def test_numbers_are_complete_after_the_worker_is_killed(place: Place) -> None:
    worker = place.worker("counters")
    worker.start()
    worker.create("numbers", example("verifiable-source", {"tasks.max": str(TASKS)}))
    worker.create("numbers-seen", example("verifiable-sink", {}))
    checkpoint = {"checkpoint.location": str(place.shared("ticks")), "spark.option.rowsPerSecond": "20"}
    worker.create("ticks", example("spark-source-rate", checkpoint))
    printed = ""

    def more(topic: str) -> Callable[[], bool]:
        wanted = end_of(place.broker.bootstrap, topic) + MORE
        return lambda: end_of(place.broker.bootstrap, topic) >= wanted

    for _ in range(2):
        for topic in ("numbers", "ticks"):
            worker.wait_until(f"{topic} had {MORE} more", more(topic), timeout_s=120)
        worker.kill()
        printed += worker.log_text()
        worker.start()
    for topic in ("numbers", "ticks"):
        worker.wait_until(f"{topic} had {MORE} more", more(topic), timeout_s=120)
    for name in ("numbers", "ticks"):
        assert worker.put(f"/connectors/{name}/stop").status == 204
    worker.wait_for_states("numbers", ["STOPPED"])
    worker.wait_for_states("ticks", ["STOPPED"])
    written = numbers(place)
    for task in range(TASKS):
        assert sorted(set(written[task])) == list(range(max(written[task]) + 1))
    assert sorted(set(ticks(place))) == list(range(max(ticks(place)) + 1))
    wanted = {(task, number) for task, all_of_it in written.items() for number in all_of_it}
    worker.wait_until("the sink printed all records", lambda: wanted <= seen(printed + worker.log_text()))
    for name in ("numbers", "numbers-seen", "ticks"):
        assert worker.traces(name) == []
    assert worker.end() == 0
