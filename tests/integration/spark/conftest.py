from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraal.embedded.broker import Broker
from kraal.spark.engine import SparkEngine
from tests.fakes.spark_stage import Stage, await_ready, make_engine


@pytest.fixture(scope="session")
def engine(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    made = make_engine(kafka.bootstrap, tmp_path_factory.mktemp("spark"))
    await_ready(made)
    yield made
    made.close(20)


@pytest.fixture
def stage(engine: SparkEngine, kafka: Broker) -> Stage:
    return Stage(engine, kafka.bootstrap)
