"""Tests that a task whose batch exceeds Spark's heap fails alone. Uses the suite's engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraal.broker.broker import Broker
from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone, EngineReady, EngineState, Failed, Opened
from kraal.engine.engine import SparkEngine
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import RunObserver, TaskHarness, await_ready

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_large_array(spark: SparkSession) -> DataFrame:
    """Return a DataFrame whose evaluation creates an array of 8 GB."""
    return spark.range(1).selectExpr("cast(size(sequence(1L, 1000000000L + id)) as string) as value")


def read_few_rows(spark: SparkSession) -> DataFrame:
    return spark.range(3).selectExpr("cast(id as string) as value")


def run_batch(harness: TaskHarness, name: str, read: object, topic: str) -> RunObserver:
    """Open a task and request a batch, as the task's actor does after Spark was lost."""
    plugins.BATCHES[name].clear()
    plugins.BATCHES[name].append(plugins.read_batch(read, 1, topic))  # type: ignore[arg-type]
    observer = harness.open(name)
    observer.run.next()
    return observer


@pytest.mark.slow
def test_task_that_exhausts_the_heap_remains_failed_and_others_continue(
    engine: SparkEngine, kafka: Broker
) -> None:
    await_ready(engine)
    harness, states = TaskHarness(engine, kafka.bootstrap), list[EngineState]()
    engine.listen(states.append)
    topic = harness.topic()
    try:
        for _ in range(3):
            greedy_observer = run_batch(harness, "greedy", read_large_array, topic)
            greedy_observer.expect(Opened)
            failure = greedy_observer.expect(Failed)
            assert failure.engine_lost
            assert failure.trace.startswith("Spark's JVM ended (its heap was exhausted: "), failure.trace
            modest_observer = run_batch(harness, "modest", read_few_rows, topic)
            modest_observer.expect(Opened)
            assert modest_observer.expect(BatchDone).records == 3
            modest_observer.run.cancel()
        last_failure = run_batch(harness, "greedy", read_large_array, topic).expect(Failed)
        assert not last_failure.engine_lost
        assert last_failure.trace.startswith(
            "HeapExhausted: 3 times in a row, Spark's JVM ran out of memory while "
        )
        assert sum(isinstance(state, EngineReady) for state in states) == 3
        assert sorted(harness.values(topic, 9)) == ["0", "0", "0", "1", "1", "1", "2", "2", "2"]
    finally:
        engine.abandon(TaskId(ConnectorName("greedy"), 0))
        await_ready(engine)
