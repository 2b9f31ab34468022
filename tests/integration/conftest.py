"""Fixtures: one engine with a warm Spark session for the whole suite, because PySpark allows one per process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kraal.broker.broker import Broker
from kraal.engine.engine import SparkEngine
from tests.fakes.kafka.secured_kafka import SecuredKafka, secured_kafka
from tests.fakes.spark.stage import TaskHarness, await_ready, make_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def engine(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """Yield the suite's engine, whose Spark session has started."""
    result = make_engine(kafka.bootstrap, tmp_path_factory.mktemp("spark"), "postgresql", "mysql")
    await_ready(result)
    yield result
    result.close(20)


@pytest.fixture
def harness(engine: SparkEngine, kafka: Broker) -> TaskHarness:
    """Return a harness that runs tasks on the suite's engine and broker."""
    return TaskHarness(engine, kafka.bootstrap)


@pytest.fixture
def spark(engine: SparkEngine) -> SparkSession:
    """Return the engine's Spark session, after waiting for a restart if an earlier test killed Spark."""
    await_ready(engine)
    return engine._session.spark().session


@pytest.fixture(scope="session")
def kafka_with_logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Run a second broker that requires logins. Its user has no permissions until a test grants them."""
    with (
        pytest.MonkeyPatch.context() as patch,
        secured_kafka(tmp_path_factory.mktemp("secured"), patch) as result,
    ):
        patch.undo()
        yield result
