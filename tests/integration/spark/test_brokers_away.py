"""Tests that errors of Spark's Kafka clients are retriable if no broker is running."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraal.broker.broker import free_port
from kraal.engine.executor import run_job
from kraal.plugins.api import RetriableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT_TIMEOUTS = {
    "kafka.default.api.timeout.ms": "2000",
    "kafka.request.timeout.ms": "1000",
    "kafka.delivery.timeout.ms": "2000",
    "kafka.linger.ms": "0",
    "kafka.max.block.ms": "2000",
    "fetchOffset.numRetries": "1",
}


@pytest.fixture
def options_without_a_broker() -> dict[str, str]:
    """Return options of a client whose broker is not running."""
    return {**SHORT_TIMEOUTS, "kafka.bootstrap.servers": f"127.0.0.1:{free_port()}"}


def test_read_without_a_broker_is_retriable(
    spark: SparkSession, options_without_a_broker: dict[str, str]
) -> None:
    def read() -> None:
        frame = spark.read.format("kafka").options(**options_without_a_broker)
        ranges = {"assign": '{"t":[0]}', "startingOffsets": '{"t":{"0":0}}', "endingOffsets": '{"t":{"0":9}}'}
        frame.options(**ranges).load().write.format("noop").mode("append").save()

    outcome = run_job(read)
    assert isinstance(outcome, RetriableError), repr(outcome)
    assert str(outcome).startswith("org.apache.kafka.common.errors.TimeoutException")


def test_write_without_a_broker_is_retriable(
    spark: SparkSession, options_without_a_broker: dict[str, str]
) -> None:
    def write() -> None:
        frame = spark.createDataFrame([("v",)], "value string").coalesce(1)
        frame.write.format("kafka").options(**options_without_a_broker, topic="t").mode("append").save()

    outcome = run_job(write)
    assert isinstance(outcome, RetriableError), repr(outcome)
    assert str(outcome).startswith("org.apache.kafka.common.errors.TimeoutException")
