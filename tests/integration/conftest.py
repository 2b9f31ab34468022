"""Fixtures: one engine with a warm Spark session for the whole suite, because PySpark has one per process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kraal.broker.broker import Broker
from kraal.engine.engine import SparkEngine
from tests.fakes.kafka.secured_kafka import SecuredKafka, secured_kafka
from tests.fakes.spark.stage import Stage, await_ready, make_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def engine(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """Return the suite's started engine."""
    result = make_engine(kafka.bootstrap, tmp_path_factory.mktemp("spark"), "postgresql")
    await_ready(result)
    yield result
    result.close(20)


@pytest.fixture
def stage(engine: SparkEngine, kafka: Broker) -> Stage:
    """Return the engine and the broker for running tasks."""
    return Stage(engine, kafka.bootstrap)


@pytest.fixture
def spark(engine: SparkEngine) -> SparkSession:
    """Return the engine's current session, as a test may have killed an earlier one."""
    await_ready(engine)
    return engine._session.spark().session


@pytest.fixture(scope="session")
def kafka_with_logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Return the suite's second broker, which requires logins; its user has no permissions until a test grants them."""
    with (
        pytest.MonkeyPatch.context() as patch,
        secured_kafka(tmp_path_factory.mktemp("secured"), patch) as result,
    ):
        patch.undo()
        yield result
