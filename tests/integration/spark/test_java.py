"""The Java classes of `kraal/engine/java`: each compiles with the compiler that Spark ships, and loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kraal.engine import java
from kraal.engine.session.janino import loaded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = sorted(Path(java.__path__[0]).glob("*.java"))


def test_java_sources_are_found() -> None:
    assert "JsonScan" in {path.stem for path in SOURCES}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_each_source_compiles_and_loads(spark: SparkSession, path: Path) -> None:
    assert loaded(spark.sparkContext, f"kraal.{path.stem}").getName() == f"kraal.{path.stem}"


def test_executors_learn_of_each_producer_to_end_once(spark: SparkSession) -> None:
    guard: Any = loaded(spark.sparkContext, "kraal.ExecutorProducers")
    guard = guard.getDeclaredConstructor(None).newInstance(None)
    driver = guard.driverPlugin()
    guard.end("before the executor")
    (count,) = driver.receive(-1)
    guard.end("a")
    guard.end(None)
    assert list(driver.receive(count)) == [count + 2, "a", None]
    assert list(driver.receive(count + 2)) == [count + 2]


def test_an_executor_that_missed_more_than_is_kept_ends_all_producers(spark: SparkSession) -> None:
    guard: Any = loaded(spark.sparkContext, "kraal.ExecutorProducers")
    guard = guard.getDeclaredConstructor(None).newInstance(None)
    driver = guard.driverPlugin()
    (count,) = driver.receive(-1)
    for _ in range(1001):
        guard.end("a")
    assert list(driver.receive(count)) == [count + 1001, None]
