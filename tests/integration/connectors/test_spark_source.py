"""Tests for SparkSource on real Spark and a real broker: files, Apache Derby tables and Python data sources."""

from __future__ import annotations

import gzip
import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kraal.core.offsets import SourcePartition
from kraal.engine.api import BatchDone
from tests.fakes.spark.stage import TaskHarness
from tests.fakes.spark.tasks import source
from tests.fakes.workers.examples import example

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS_CLASS = "tests.fakes.spark.data_sources:Numbers"


def make_lines(first: int, count: int) -> str:
    return "".join(f'{{"id":{n},"name":"n{n}"}}\n' for n in range(first, first + count))


def test_json_source_with_schema_resumes_after_restart(harness: TaskHarness, tmp_path: Path) -> None:
    (tmp_path / "a%20 b.json").write_text(make_lines(0, 2500) + "\n")
    (tmp_path / "_hidden.json").write_text("none")
    config = example("spark-source-json", {"path": str(tmp_path)})
    files = source(harness, {**config, "file.batch.bytes": "30000"})
    observer = files.open()
    observer.run.next()
    batch_done = observer.expect(BatchDone)  # a part of the file, up to a line end
    assert 0 < batch_done.records < 2500
    observer.run.stop()
    files.offsets |= batch_done.offsets
    files.record_count = batch_done.records
    files.run(2500 - files.record_count)
    (tmp_path / "b.json").write_text(make_lines(2500, 3).rstrip("\n"))
    with gzip.open(tmp_path / "c.json.gz", "wt") as gzip_file:
        gzip_file.write(make_lines(2503, 2))
    files.run(5)
    messages = harness.messages(files.topic, 2505)
    assert [json.loads(message.value())["payload"]["name"] for message in messages] == [
        f"n{n}" for n in range(2505)
    ]
    assert json.loads(messages[7].value()) == {
        "schema": {
            "type": "struct",
            "fields": [{"type": "string", "optional": True, "field": "name"}],
            "optional": False,
        },
        "payload": {"name": "n7"},
    }
    assert json.loads(messages[7].key()) == {"schema": {"type": "int64", "optional": False}, "payload": 7}
    path = str(tmp_path / "b.json")
    assert files.offsets[SourcePartition.of({"path": path})]["done"] is True


def test_parquet_files_provide_the_schema(harness: TaskHarness, spark: SparkSession, tmp_path: Path) -> None:
    columns = [
        "cast(id as int) i",
        "cast(id as decimal(9,2)) d",
        "date'2026-01-02' day",
        "timestamp'2026-01-02 03:04:05.678Z' at",
        "timestamp_ntz'2026-01-02 03:04:05.678' wall",
        "array(id) many",
        "map('k', id) pairs",
        "named_struct('x', id) one",
        "cast(id as float) f",
        "cast(null as boolean) no",
        "X'ff' raw",
        "'t' || id as topic",
    ]
    folder = tmp_path / "data"
    spark.range(0, 3, 1, 1).selectExpr(*columns).write.parquet(str(folder))
    config = {"value.converter.schemas.enable": "true", "value.converter.decimal.format": "NUMERIC"}
    files = source(
        harness, {"spark.format": "parquet", "path": f"{folder}/*.parquet", "value.column": "d", **config}
    )
    files.run(3)
    decimal = {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
    }
    assert files.values()[1] == {"schema": {**decimal, "parameters": {"scale": "2"}}, "payload": 1.0}
    files = source(harness, {"spark.format": "parquet", "path": f"{folder}/*.parquet", **config})
    files.run(3)
    payload = files.values()[2]["payload"]
    moment_ms = 1767323045678
    assert payload == {
        "i": 2, "d": 2.0, "day": 20455, "at": moment_ms, "wall": moment_ms, "many": [2], "pairs": {"k": 2},
        "one": {"x": 2}, "f": 2.0, "no": None, "raw": "/w==", "topic": "t2",
    }  # fmt: skip


def test_csv_text_and_schemaless_json_are_read(harness: TaskHarness, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('to,n,s\n{0},1,"a,b"\n\n{0},2,\n')
    files = source(harness, {})
    (tmp_path / "a.csv").write_text(f'to,n,s\n{files.topic},1,"a,b"\n\n{files.topic},2,\n')
    csv = {"spark.format": "csv", "path": f"{tmp_path}/*.csv", "spark.option.header": "true"}
    files.config = {**csv, "spark.schema": "to STRING, n INT, s STRING", "topic.column": "to"}
    files.run(2)
    assert files.values() == [{"n": 1, "s": "a,b"}, {"n": 2, "s": None}]
    (tmp_path / "b.txt").write_text('{"b":1,"a":[2]}\r\n7\r')
    text = source(harness, {"spark.format": "text", "path": f"{tmp_path}/*.txt", "value.converter": "Text"})
    text.run(2)
    assert [message.value() for message in harness.messages(text.topic, 2)] == [b'{"b":1,"a":[2]}', b"7"]
    schemaless = source(harness, {"spark.format": "json", "path": f"{tmp_path}/b.txt"})
    schemaless.run(2)
    assert schemaless.values() == [{"a": [2], "b": 1}, 7]


@pytest.mark.parametrize(
    ("spark_format", "data", "message"),
    [
        (
            "json",
            b'{"id": 1}\n{"id": "x"}\n',
            'bad.file cannot be read as json with spark.schema: {"id": "x"}',
        ),
        ("csv", b"1\nzwei\n", "bad.file cannot be read as csv with spark.schema: zwei"),
        ("parquet", b"PAR1 this is none", "bad.file"),
    ],
)
def test_invalid_file_is_named_in_the_error(
    harness: TaskHarness, tmp_path: Path, spark_format: str, data: bytes, message: str
) -> None:
    (tmp_path / "bad.file").write_bytes(data)
    files = source(harness, {"spark.format": spark_format, "path": str(tmp_path), "spark.schema": "id INT"})
    assert message in files.fail()


def test_database_tables_are_read_in_each_mode(harness: TaskHarness, spark: SparkSession) -> None:
    database = f"jdbc:derby:memory:{uuid.uuid4().hex}"
    jvm: Any = spark.sparkContext._jvm
    connection = jvm.java.sql.DriverManager.getConnection(f"{database};create=true")
    statement = connection.createStatement()

    def insert(table: str, first: int, count: int, at: str) -> None:
        for n in range(first, first + count):
            statement.execute(f"INSERT INTO {table} VALUES ({n}, 'n{n}', TIMESTAMP('{at}'))")  # noqa: S608

    for table in ("ONE", "TWO"):
        statement.execute(f"CREATE TABLE {table} (ID BIGINT NOT NULL, NAME VARCHAR(20), STAMP TIMESTAMP)")
        insert(table, 0, 3, "2026-01-02 03:04:05.123456")
    jdbc = {"spark.format": "jdbc", "spark.option.url": database, "jdbc.tables": "ONE"}
    changes = {"spark.option.url": database, "jdbc.tables": "ONE"}
    by_id = source(harness, example("spark-source-jdbc", changes))
    by_id.topic += "ONE"
    by_id.run(3)
    timestamp_config = {"jdbc.timestamp.column": "STAMP", "jdbc.tables": "TWO"}
    by_time = source(harness, {**jdbc, **timestamp_config, "jdbc.mode": "timestamp"})
    by_time.run(3)
    timestamp_and_id = {
        **timestamp_config,
        "jdbc.mode": "timestamp+incrementing",
        "jdbc.incrementing.column": "ID",
    }
    by_both = source(harness, {**jdbc, **timestamp_and_id})
    by_both.run(3)
    insert("ONE", 3, 2, "2020-01-02 03:04:05")
    insert("TWO", 3, 1, "2026-01-02 03:04:05.123456")
    insert("TWO", 4, 1, "2026-01-02 03:04:06")
    by_id.run(2)
    by_time.run(1)
    by_both.run(2)
    assert [row["ID"] for row in by_id.values()] == [0, 1, 2, 3, 4]
    assert [row["ID"] for row in by_time.values()] == [0, 1, 2, 4]
    assert by_both.values()[3:] == [
        {"ID": 3, "NAME": "n3", "STAMP": 1767323045123},
        {"ID": 4, "NAME": "n4", "STAMP": 1767323046000},
    ]
    assert by_both.offsets == {
        SourcePartition.of({"table": "TWO"}): {"incrementing": 4, "timestamp": "2026-01-02 03:04:06"}
    }
    bulk = source(harness, {**jdbc, "jdbc.mode": "bulk"})
    bulk.run(5)
    statement.execute("DROP TABLE TWO")
    assert "TWO" in by_both.fail()
    connection.close()


def write_limit(limit: Path, record_count: int) -> None:
    """Set the number of records that the reader returns, in an atomic step, because the reader may be reading it."""
    new_file = limit.with_name("limit.next")
    new_file.write_text(str(record_count))
    new_file.rename(limit)


def test_stream_reader_resumes_at_its_offset(harness: TaskHarness, tmp_path: Path) -> None:
    limit = tmp_path / "limit"
    write_limit(limit, 5)
    changes = {"spark.python.datasource": NUMBERS_CLASS, "spark.option.limit": str(limit)}
    numbers = source(harness, example("spark-source-python", changes))
    numbers.run(5)
    assert numbers.offsets == {SourcePartition.of({"datasource": NUMBERS_CLASS}): {"offset": '{"next": 5}'}}
    write_limit(limit, 8)
    observer = numbers.open()
    observer.run.next()
    batch_done = observer.expect(BatchDone)
    numbers.record_count += batch_done.records
    observer.run.next()  # the stored offset is committed on the next poll
    write_limit(limit, 9)
    assert observer.expect(BatchDone).records == 1
    numbers.record_count += 1
    observer.run.stop()
    assert json.loads(Path(f"{limit}.committed").read_text()) == {"next": 8}
    values = numbers.values()
    assert [value["n"] for value in values] == list(range(9))
    assert values[7]["parts"] == {"half": 3}


def test_simple_stream_reader_runs_in_the_worker(harness: TaskHarness) -> None:
    numbers = source(
        harness,
        {"spark.format": "python", "spark.python.datasource": "tests.fakes.spark.data_sources:SixNumbers"},
    )
    numbers.run(2)
    numbers.run(4)
    assert numbers.values() == [{"n": n} for n in range(6)]
