"""Tests for Spark session settings of a single connector, with a real broker."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from kraal.engine.api import BatchDone, Committed, Failed, Opened, Stopped
from kraal.engine.session.own_session import clone_session, with_settings
from tests.fakes.spark.stage import RunObserver, TaskHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODEC_KEY = "spark.sql.parquet.compression.codec"
SPLIT_BYTES_KEY = "spark.sql.files.maxPartitionBytes"


def open_parquet_sink(harness: TaskHarness, topic: str, folder: Path, **settings: str) -> RunObserver:
    """Open a SparkSink that writes Parquet files to `folder`."""
    config = {
        "topics": topic,
        "spark.format": "parquet",
        "path": str(folder),
        "spark.schema": "n INT",
        "consumer.override.auto.offset.reset": "earliest",
        **settings,
    }
    observer = harness.open(f"own-{uuid.uuid4().hex[:8]}", "SparkSink", config)
    observer.expect(Opened)
    observer.run.next()
    return observer


@pytest.mark.parametrize("count", [3, 600], ids=["tail", "backlog"])
def test_session_settings_apply_to_one_connector(harness: TaskHarness, tmp_path: Path, count: int) -> None:
    topic = harness.topic()
    harness.produce(topic, [f'{{"n":{n}}}' for n in range(count)], 0)
    codecs = {}
    for codec in ("GZIP", "SNAPPY"):
        observer = open_parquet_sink(
            harness, topic, tmp_path / codec, **({CODEC_KEY: "gzip"} if codec == "GZIP" else {})
        )
        observer.run.commit(observer.expect(BatchDone).offsets)
        observer.expect(Committed)
        observer.run.stop()
        observer.expect(Stopped)
        (file,) = (tmp_path / codec).glob("*.parquet")
        codecs[codec] = pq.read_metadata(file).row_group(0).column(0).compression
    assert codecs == {"GZIP": "GZIP", "SNAPPY": "SNAPPY"}


def test_invalid_session_setting_fails_the_task_with_the_error_of_spark(
    harness: TaskHarness, tmp_path: Path
) -> None:
    topic = harness.topic()
    harness.produce(topic, ['{"n":1}'], 0)
    failure = open_parquet_sink(harness, topic, tmp_path, **{SPLIT_BYTES_KEY: "much"}).expect(Failed)
    assert SPLIT_BYTES_KEY in failure.trace.split("\n")[0]
    assert "much" in failure.trace.split("\n")[0]


def test_cloned_session_keeps_settings_without_changing_the_original(spark: SparkSession) -> None:
    configured_session = with_settings(spark, {SPLIT_BYTES_KEY: "1m", CODEC_KEY: "gzip"})
    clone = clone_session(configured_session)
    clone.conf.set(CODEC_KEY, "zstd")
    assert [session.conf.get(SPLIT_BYTES_KEY) for session in (configured_session, clone)] == ["1m", "1m"]
    assert [session.conf.get(CODEC_KEY) for session in (configured_session, clone)] == ["gzip", "zstd"]
    assert spark.conf.get(CODEC_KEY) == "snappy"
    assert spark.conf.get(SPLIT_BYTES_KEY) != "1m"
