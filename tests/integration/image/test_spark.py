"""Tests that the image supports every format of SparkSource and SparkSink, and every documented feature of Spark."""

from __future__ import annotations

import inspect
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from kraal.broker.broker import Broker, free_port
from kraal.broker.records import read_topic
from kraal.jars.jars import ensure
from scripts.harness.postgresql import PostgreSQL, postgresql
from scripts.harness.processes import wait_until
from scripts.harness.rest import Rest
from tests.fakes.servers.s3_server import S3Server, s3_server
from tests.fakes.spark import data_sources
from tests.fakes.spark.pipe import create_topic
from tests.tools.image import spark_check
from tests.tools.image.build import build_image, environment
from tests.tools.image.container import container
from tests.tools.image.worker import STRING_CONVERTER, copy_files, make_writable_directory, write_properties

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first test builds the image

TIMEOUT_S: Final = 240.0
READ_TIMEOUT_S: Final = 30.0
CHECK_TIMEOUT_S: Final = 1500.0
ROW_COUNT: Final = 200
BUCKET: Final = "image"
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
ROWS: Final = [{"id": number, "name": f"n{number}"} for number in range(ROW_COUNT)]
SCHEMA: Final = {"spark.schema": "id BIGINT, name STRING"}
SOURCE_CONFIG: Final = {
    "connector.class": "SparkSource",
    "spark.poll.interval.ms": "200",
    "jdbc.poll.interval.ms": "200",
    "value.converter": JSON_CONVERTER,
    "value.converter.schemas.enable": "false",
}
SINK_CONFIG: Final = {
    "connector.class": "SparkSink",
    "consumer.override.auto.offset.reset": "earliest",
}
MIN_EXAMPLES: Final = 500
"""Minimum number of examples in Spark's documentation. Spark 4.2 has a few more."""


@dataclass(frozen=True)
class ContainerWorker:
    """A worker in a container, and the services that its connectors use."""

    rest: Rest
    kafka: Broker
    data: Path
    """Mounted at /data in the container."""
    store: S3Server
    database: PostgreSQL

    def produce(self, topic: str, values: Sequence[object]) -> None:
        """Create a topic with JSON values."""
        create_topic(self.kafka.bootstrap, topic)
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap})
        for value in values:
            producer.produce(topic, json.dumps(value))
        assert producer.flush(READ_TIMEOUT_S) == 0

    def values(self, topic: str) -> list[Any]:
        """Return the decoded JSON values of a topic."""
        records = read_topic(self.kafka.bootstrap, topic, timeout_s=READ_TIMEOUT_S)
        return [json.loads(record.value or b"null") for record in records]

    def wait(self, name: str, is_done: Callable[[], bool]) -> None:
        """Wait until a connector runs and `is_done` returns true. Raises ScriptFailed if the connector fails."""
        wait_until(
            f"{name} had processed its records",
            lambda: self.rest.is_running(name) and is_done(),
            timeout_s=TIMEOUT_S,
        )

    def round_trip(self, name: str, sink: Mapping[str, str], source: Mapping[str, str]) -> list[Any]:
        """Write `ROWS` with a sink, and return the rows that a source reads, sorted by `id`."""
        sink_name, source_name = f"{name}-there", f"{name}-back"
        self.produce(sink_name, ROWS)
        create_topic(self.kafka.bootstrap, source_name)
        self.rest.create(sink_name, {**SINK_CONFIG, "topics": sink_name, **sink})
        self.wait(sink_name, lambda: sum(self.rest.metrics(SENT_METRIC.format(sink_name))) == ROW_COUNT)
        self.rest.create(source_name, {**SOURCE_CONFIG, "topic": source_name, **source})
        self.wait(source_name, lambda: len(self.values(source_name)) >= ROW_COUNT)
        for connector in (sink_name, source_name):
            self.rest.delete(connector)
        return sorted(self.values(source_name), key=lambda value: int(value["id"]))


SENT_METRIC: Final = 'kafka_connect_sink_task_metrics_sink_record_send_total{{connector="{}",task="0"}}'


@pytest.fixture(scope="module")
def image() -> str:
    """Build the image, and return its name."""
    return build_image()


@pytest.fixture(scope="module")
def container_worker(
    image: str, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ContainerWorker]:
    """Run a worker of the image, an S3 server and PostgreSQL."""
    home, port = tmp_path_factory.mktemp("image"), free_port()
    data = make_writable_directory(home / "data")
    with (
        s3_server(home) as store,
        postgresql() as database,
        container(image, home) as created_container,
        closing(Rest(port)) as rest,
    ):
        store.make_bucket(BUCKET)
        jars = copy_files([*ensure("s3a"), *ensure("postgresql")], home / "jars")
        python = copy_files([Path(inspect.getfile(data_sources))], home / "python")
        settings = {
            **store.worker_properties,
            "spark.jars": ",".join(f"/jars/{jar.name}" for jar in jars.iterdir()),
        }
        mounts = {data: "/data", jars: "/jars", python: "/python"}
        etc = write_properties(home / "etc", kafka, port, settings)
        config = {**created_container.config, "Env": [*created_container.config["Env"], "PYTHONPATH=/python"]}
        with replace(created_container, config=config).run_entry_point({**mounts, etc: "/etc/kraal"}):
            wait_until("the worker was healthy", rest.is_healthy, timeout_s=TIMEOUT_S)
            yield ContainerWorker(rest, kafka, data, store, database)


@pytest.mark.parametrize(
    ("spark_format", "codec"),
    [("json", "gzip"), ("csv", "bzip2"), ("parquet", "zstd"), ("orc", "zlib"), ("orc", "zstd")],
)
def test_files_of_each_format_are_written_and_read(
    container_worker: ContainerWorker, spark_format: str, codec: str
) -> None:
    name = f"{spark_format}-{codec}"
    files = {"spark.format": spark_format, "path": f"/data/{name}", "spark.option.compression": codec}
    source_config = files if spark_format in {"parquet", "orc"} else {**files, **SCHEMA}
    assert container_worker.round_trip(name, {**files, **SCHEMA}, source_config) == ROWS


def test_text_files_are_written_and_read(container_worker: ContainerWorker) -> None:
    files = {"spark.format": "text", "path": "/data/text", "spark.option.compression": "gzip"}
    assert container_worker.round_trip("text", files, {**files, "value.converter": STRING_CONVERTER}) == ROWS


def test_objects_are_written_and_read(container_worker: ContainerWorker) -> None:
    objects = {"spark.format": "parquet", "path": f"s3a://{BUCKET}/rows"}
    assert container_worker.round_trip("objects", {**objects, **SCHEMA}, objects) == ROWS
    assert container_worker.store.names(BUCKET, "rows/") != []


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_postgresql_tables_are_written_and_read(container_worker: ContainerWorker, guarantee: str) -> None:
    table = f"rows_{guarantee}"
    container_worker.database.ask(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT)")
    common = {"spark.format": "jdbc", **container_worker.database.options}
    sink = {**common, **SCHEMA, "jdbc.table": table, "delivery.guarantee": guarantee}
    source = {**common, "jdbc.tables": table, "jdbc.incrementing.column": "id"}
    assert container_worker.round_trip(guarantee.replace("_", "-"), sink, source) == ROWS


def test_python_data_sources_write_and_read(container_worker: ContainerWorker) -> None:
    limit, folder = container_worker.data / "limit", make_writable_directory(container_worker.data / "folder")
    limit.write_text(str(ROW_COUNT), encoding="ascii")
    sink = {
        **SCHEMA,
        "spark.format": "python",
        "spark.python.datasource": "data_sources:Folder",
        "spark.option.folder": "/data/folder",
    }
    source = {
        "spark.format": "python",
        "spark.python.datasource": "data_sources:Numbers",
        "spark.option.limit": "/data/limit",
        "transforms": "sql",
        "transforms.sql.type": "SQL",
        "transforms.sql.expressions": "n AS id, concat('n', CAST(n AS STRING)) AS name",
    }
    rows = container_worker.round_trip("python", sink, source)
    assert [{"id": value["id"], "name": value["name"]} for value in rows] == ROWS
    lines = [line for file in folder.iterdir() for line in file.read_text("utf-8").splitlines()]
    assert sorted(lines) == sorted(str((row["id"], row["name"])) for row in ROWS)


def test_stream_commits_to_its_checkpoint(container_worker: ContainerWorker) -> None:
    topic = "ticks"
    create_topic(container_worker.kafka.bootstrap, topic)
    stream = {
        "spark.format": "rate-micro-batch",
        "spark.option.rowsPerBatch": "50",
        "spark.option.numPartitions": "1",
        "checkpoint.location": "/data/ticks",
    }
    container_worker.rest.create(topic, {**SOURCE_CONFIG, "topic": topic, **stream})
    container_worker.wait(topic, lambda: len(container_worker.values(topic)) >= ROW_COUNT)
    assert [value["value"] for value in container_worker.values(topic)[:ROW_COUNT]] == list(range(ROW_COUNT))
    container_worker.rest.delete(topic)
    assert any((container_worker.data / "ticks" / "commits").iterdir())


def test_image_contains_every_documented_spark_feature(image: str, tmp_path: Path) -> None:
    check = copy_files([Path(inspect.getfile(spark_check))], tmp_path / "check")
    home = tmp_path / "container"
    home.mkdir()
    mounts = {check: "/check", make_writable_directory(tmp_path / "data"): "/data"}
    with container(image, home) as check_container:
        result = subprocess.run(
            check_container.command(["python3", "/check/spark_check.py", "/data"], mounts, uses_entry_point=False),
            env=environment(), capture_output=True, text=True, check=False, timeout=CHECK_TIMEOUT_S,
        )  # fmt: skip
    assert result.returncode == 0, result.stderr[-5000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert (report["missing"], report["failed"]) == ([], [])
    assert report["examples"] > MIN_EXAMPLES


def test_extension_modules_can_be_imported(image: str, tmp_path: Path) -> None:
    """Import modules that load shared libraries, some of which were stripped of their symbols."""
    names = (
        "pyarrow.parquet", "pyarrow.parquet.encryption", "pyarrow.orc", "pyarrow.csv", "pyarrow.json",
        "pyarrow.compute", "pyarrow.dataset", "pyarrow.feather", "pyarrow.fs", "pyarrow.acero", "pyarrow.substrait",
        "numpy.random", "numpy.linalg", "numpy.fft", "uvloop", "httptools", "regex", "rpds", "yaml.cyaml",
        "cryptography.x509", "confluent_kafka.schema_registry", "psutil", "pyspark.sql.functions",
        "pyspark.sql.streaming", "pyspark.sql.datasource", "pyspark.sql.avro.functions", "pyspark.pipelines.api",
    )  # fmt: skip
    with container(image, tmp_path) as image_container:
        result = image_container.run("python3", "-c", f"import {', '.join(names)}")
    assert result.returncode == 0, result.stderr
