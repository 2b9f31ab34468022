"""Tests that the Java classes of `kraal/engine/java` compile with Janino, load, and work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kraal.engine import java
from kraal.engine.session.janino import load_class, new_instance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = sorted(Path(java.__path__[0]).glob("*.java"))


def test_java_sources_exist() -> None:
    assert "JsonScan" in {path.stem for path in SOURCES}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_each_java_source_compiles_and_loads(spark: SparkSession, path: Path) -> None:
    assert load_class(spark.sparkContext, f"kraal.{path.stem}").getName() == f"kraal.{path.stem}"


class DriverPlugin:
    """The driver side of the Spark plugin, with polls like those of executors."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext
        self.plugin = new_instance(self._context, "kraal.ExecutorProducers")
        self._driver = self.plugin.driverPlugin()

    def poll(self, count: int, refusals: str = "", executor: str = "1") -> list[Any]:
        """Return the driver's response to the poll of an executor."""
        request = self._context._gateway.new_array(self._context._jvm.java.lang.Object, 3)
        request[0], request[1], request[2] = count, executor, refusals
        return list(self._driver.receive(request))


@pytest.fixture
def driver(spark: SparkSession) -> DriverPlugin:
    return DriverPlugin(spark)


def test_executors_receive_each_close_request_once(driver: DriverPlugin) -> None:
    driver.plugin.end("before the executor")
    (count,) = driver.poll(-1)
    driver.plugin.end("a")
    driver.plugin.end(None)
    assert driver.poll(count) == [count + 2, "a", None]
    assert driver.poll(count + 2) == [count + 2]


def test_executor_that_missed_too_many_requests_closes_all_producers(driver: DriverPlugin) -> None:
    (count,) = driver.poll(-1)
    for _ in range(1001):
        driver.plugin.end("a")
    assert driver.poll(count) == [count + 1001, None]


def test_driver_stores_the_latest_refusals_of_each_executor(driver: DriverPlugin) -> None:
    driver.poll(-1, "1 first")
    driver.poll(-1, "2 second\n1 third", executor="2")
    assert sorted(driver.plugin.refusals().splitlines()) == ["1 first", "1 third", "2 second"]
    driver.poll(-1, "3 first")
    driver.poll(-1, executor="2")
    assert driver.plugin.refusals() == "3 first"
    driver.poll(-1)
    assert driver.plugin.refusals() == ""
