"""Tests that the container image supports every format of SparkSource and SparkSink and keeps what Spark documents."""

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
from tests.tools.image.worker import STRING, copy_files, make_writable_directory, write_properties

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first test builds the image

TIMEOUT_S: Final = 240.0
READ_TIMEOUT_S: Final = 30.0
CHECK_TIMEOUT_S: Final = 1500.0
COUNT: Final = 200
BUCKET: Final = "image"
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
ROWS: Final = [{"id": number, "name": f"n{number}"} for number in range(COUNT)]
SCHEMA: Final = {"spark.schema": "id BIGINT, name STRING"}
SOURCE: Final = {
    "connector.class": "SparkSource",
    "spark.poll.interval.ms": "200",
    "jdbc.poll.interval.ms": "200",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
SINK: Final = {
    "connector.class": "SparkSink",
    "consumer.override.auto.offset.reset": "earliest",
}
MIN_EXAMPLES: Final = 500
"""Minimum number of documented examples; Spark 4.2 has a few more."""


@dataclass(frozen=True)
class Scene:
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
        """Return the JSON values of a topic."""
        records = read_topic(self.kafka.bootstrap, topic, timeout_s=READ_TIMEOUT_S)
        return [json.loads(record.value or b"null") for record in records]

    def wait(self, name: str, done: Callable[[], bool]) -> None:
        """Wait until a connector runs and a condition holds. Raises ScriptFailed if the connector fails."""
        wait_until(
            f"{name} had processed its records",
            lambda: self.rest.is_running(name) and done(),
            timeout_s=TIMEOUT_S,
        )

    def round_trip(self, name: str, sink: Mapping[str, str], source: Mapping[str, str]) -> list[Any]:
        """Write `ROWS` with one connector; return the rows that another connector reads, in the order of `id`."""
        sink_name, source_name = f"{name}-there", f"{name}-back"
        self.produce(sink_name, ROWS)
        create_topic(self.kafka.bootstrap, source_name)
        self.rest.create(sink_name, {**SINK, "topics": sink_name, **sink})
        self.wait(sink_name, lambda: sum(self.rest.metrics(SENT.format(sink_name))) == COUNT)
        self.rest.create(source_name, {**SOURCE, "topic": source_name, **source})
        self.wait(source_name, lambda: len(self.values(source_name)) >= COUNT)
        for connector in (sink_name, source_name):
            self.rest.delete(connector)
        return sorted(self.values(source_name), key=lambda value: int(value["id"]))


SENT: Final = 'kafka_connect_sink_task_metrics_sink_record_send_total{{connector="{}",task="0"}}'


@pytest.fixture(scope="module")
def image() -> str:
    """Return the name of the image."""
    return build_image()


@pytest.fixture(scope="module")
def scene(image: str, kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Run a worker of the image, an S3 server and PostgreSQL."""
    home, port = tmp_path_factory.mktemp("image"), free_port()
    data = make_writable_directory(home / "data")
    with (
        s3_server(home) as store,
        postgresql() as database,
        container(image, home) as plain,
        closing(Rest(port)) as rest,
    ):
        store.make_bucket(BUCKET)
        jars = copy_files([*ensure("s3a"), *ensure("postgresql")], home / "jars")
        python = copy_files([Path(inspect.getfile(data_sources))], home / "python")
        settings = {**store.worker, "spark.jars": ",".join(f"/jars/{jar.name}" for jar in jars.iterdir())}
        mounts = {data: "/data", jars: "/jars", python: "/python"}
        etc = write_properties(home / "etc", kafka, port, settings)
        config = {**plain.config, "Env": [*plain.config["Env"], "PYTHONPATH=/python"]}
        with replace(plain, config=config).run_entry_point({**mounts, etc: "/etc/kraal"}):
            wait_until("the worker is healthy", rest.is_healthy, timeout_s=TIMEOUT_S)
            yield Scene(rest, kafka, data, store, database)


@pytest.mark.parametrize(
    ("spark_format", "codec"),
    [("json", "gzip"), ("csv", "bzip2"), ("parquet", "zstd"), ("orc", "zlib"), ("orc", "zstd")],
)
def test_files_of_each_format_are_written_and_read(scene: Scene, spark_format: str, codec: str) -> None:
    name = f"{spark_format}-{codec}"
    files = {"spark.format": spark_format, "path": f"/data/{name}", "spark.option.compression": codec}
    reading = files if spark_format in {"parquet", "orc"} else {**files, **SCHEMA}
    assert scene.round_trip(name, {**files, **SCHEMA}, reading) == ROWS


def test_text_files_are_written_and_read(scene: Scene) -> None:
    files = {"spark.format": "text", "path": "/data/text", "spark.option.compression": "gzip"}
    assert scene.round_trip("text", files, {**files, "value.converter": STRING}) == ROWS


def test_objects_are_written_and_read(scene: Scene) -> None:
    objects = {"spark.format": "parquet", "path": f"s3a://{BUCKET}/rows"}
    assert scene.round_trip("objects", {**objects, **SCHEMA}, objects) == ROWS
    assert scene.store.names(BUCKET, "rows/") != []


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_postgresql_tables_are_written_and_read(scene: Scene, guarantee: str) -> None:
    table = f"rows_{guarantee}"
    scene.database.ask(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT)")
    common = {"spark.format": "jdbc", **scene.database.options}
    sink = {**common, **SCHEMA, "jdbc.table": table, "delivery.guarantee": guarantee}
    source = {**common, "jdbc.tables": table, "jdbc.incrementing.column": "id"}
    assert scene.round_trip(guarantee.replace("_", "-"), sink, source) == ROWS


def test_python_data_sources_write_and_read(scene: Scene) -> None:
    limit, folder = scene.data / "limit", make_writable_directory(scene.data / "folder")
    limit.write_text(str(COUNT), encoding="ascii")
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
    rows = scene.round_trip("python", sink, source)
    assert [{"id": value["id"], "name": value["name"]} for value in rows] == ROWS
    lines = [line for file in folder.iterdir() for line in file.read_text("utf-8").splitlines()]
    assert sorted(lines) == sorted(str((row["id"], row["name"])) for row in ROWS)


def test_stream_commits_to_its_checkpoint(scene: Scene) -> None:
    topic = "ticks"
    create_topic(scene.kafka.bootstrap, topic)
    stream = {
        "spark.format": "rate-micro-batch",
        "spark.option.rowsPerBatch": "50",
        "spark.option.numPartitions": "1",
        "checkpoint.location": "/data/ticks",
    }
    scene.rest.create(topic, {**SOURCE, "topic": topic, **stream})
    scene.wait(topic, lambda: len(scene.values(topic)) >= COUNT)
    assert [value["value"] for value in scene.values(topic)[:COUNT]] == list(range(COUNT))
    scene.rest.delete(topic)
    assert any((scene.data / "ticks" / "commits").iterdir())


def test_image_contains_every_documented_spark_feature(image: str, tmp_path: Path) -> None:
    check = copy_files([Path(inspect.getfile(spark_check))], tmp_path / "check")
    home = tmp_path / "container"
    home.mkdir()
    mounts = {check: "/check", make_writable_directory(tmp_path / "data"): "/data"}
    with container(image, home) as check_container:
        result = subprocess.run(
            check_container.command(["python3", "/check/spark_check.py", "/data"], mounts, entry=False),
            env=environment(), capture_output=True, text=True, check=False, timeout=CHECK_TIMEOUT_S,
        )  # fmt: skip
    assert result.returncode == 0, result.stderr[-5000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert (report["missing"], report["failed"]) == ([], [])
    assert report["examples"] > MIN_EXAMPLES


def test_extension_modules_can_be_imported(image: str, tmp_path: Path) -> None:
    """The modules load shared libraries, some of which were stripped of their symbols."""
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
