"""One engine, and so one warm Spark, for the whole suite: PySpark keeps one session per process."""

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
    """Return the suite's engine, up and warm."""
    made = make_engine(kafka.bootstrap, tmp_path_factory.mktemp("spark"), "postgresql")
    await_ready(made)
    yield made
    made.close(20)


@pytest.fixture
def stage(engine: SparkEngine, kafka: Broker) -> Stage:
    """Return the engine and the broker to play tasks on."""
    return Stage(engine, kafka.bootstrap)


@pytest.fixture
def spark(engine: SparkEngine) -> SparkSession:
    """Return the engine's session of this moment: a test may have killed an older one."""
    await_ready(engine)
    return engine._session.spark().session


@pytest.fixture(scope="session")
def kafka_with_logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Return the suite's second broker, which asks for logins; its user may do nothing until a test allows it."""
    with (
        pytest.MonkeyPatch.context() as patch,
        secured_kafka(tmp_path_factory.mktemp("secured"), patch) as made,
    ):
        patch.undo()
        yield made
