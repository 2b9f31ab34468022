"""The Java classes of `kraal/engine/java`: each compiles with the compiler that Spark ships, and loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kraal.engine import java
from kraal.engine.session.janino import loaded, new_instance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = sorted(Path(java.__path__[0]).glob("*.java"))


def test_java_sources_are_found() -> None:
    assert "JsonScan" in {path.stem for path in SOURCES}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_each_source_compiles_and_loads(spark: SparkSession, path: Path) -> None:
    assert loaded(spark.sparkContext, f"kraal.{path.stem}").getName() == f"kraal.{path.stem}"


class Guard:
    """The plugin of executors, asked as they ask it."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext
        self.plugin = new_instance(self._context, "kraal.ExecutorProducers")
        self._driver = self.plugin.driverPlugin()

    def ask(self, count: int, refusals: str = "", executor: str = "1") -> list[Any]:
        """Return the driver's answer to an executor."""
        question = self._context._gateway.new_array(self._context._jvm.java.lang.Object, 3)
        question[0], question[1], question[2] = count, executor, refusals
        return list(self._driver.receive(question))


@pytest.fixture
def guard(spark: SparkSession) -> Guard:
    return Guard(spark)


def test_executors_learn_of_each_producer_to_end_once(guard: Guard) -> None:
    guard.plugin.end("before the executor")
    (count,) = guard.ask(-1)
    guard.plugin.end("a")
    guard.plugin.end(None)
    assert guard.ask(count) == [count + 2, "a", None]
    assert guard.ask(count + 2) == [count + 2]


def test_an_executor_that_missed_more_than_is_kept_ends_all_producers(guard: Guard) -> None:
    (count,) = guard.ask(-1)
    for _ in range(1001):
        guard.plugin.end("a")
    assert guard.ask(count) == [count + 1001, None]


def test_the_driver_has_the_latest_refusals_of_each_executor(guard: Guard) -> None:
    guard.ask(-1, "1 first")
    guard.ask(-1, "2 second\n1 third", executor="2")
    assert sorted(guard.plugin.refusals().splitlines()) == ["1 first", "1 third", "2 second"]
    guard.ask(-1, "3 first")
    guard.ask(-1, executor="2")
    assert guard.plugin.refusals() == "3 first"
    guard.ask(-1)
    assert guard.plugin.refusals() == ""
