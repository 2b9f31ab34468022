"""Tests for the targets of sinks, written and read with real Spark: rows that were written equal the expected rows."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from typing_extensions import override

from kraal.connectors.file.sink import FileStreamSinkConnector, FileStreamSinkTask
from kraal.connectors.spark.sink import SparkSinkConnector
from kraal.engine.proof.frames import find_differences, hash_rows, tally
from kraal.plugins.api import (
    EXPECTED_POSITION,
    Connector,
    NotComparable,
    ReadableTarget,
    SinkBatch,
    SinkTask,
    TaskContext,
    TopicPartition,
)
from kraal.proof.differences import Differences, Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION = TopicPartition("t", 0)
COUNT = 600
TEXTS = (
    "plain",
    "",
    'quotes "and" commas, here',
    "two\nlines",
    "ends with\n",
    "\r",
    "a\r\nb",
    "ü€",
    "\\ back",
)
"""Texts that formats quote or split; each is written several times."""

STRUCT = """named_struct('n', id, 's', element_at(array({texts}), cast(id % {count} + 1 as int)),
    'f', if(id % 5 = 0, null, id / 4), 'd', cast(id as decimal(20, 3)), 't', timestamp_micros(id * 1000001),
    'b', id % 2 = 0)"""


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def make_frame(spark: SparkSession, value: str) -> DataFrame:
    """Return the records of a batch; `value` is an SQL expression of `id`, the offset."""
    texts = ", ".join(map(quote, TEXTS))
    expression = value.replace("{texts}", texts).replace("{count}", str(len(TEXTS)))
    return (
        spark.range(0, COUNT, 1, 1)
        .selectExpr(
            "'t' as topic",
            "0 as partition",
            "id as offset",
            "timestamp_millis(1700000000000 + id) as timestamp",
            "cast(null as array<struct<key:string,value:binary>>) as headers",
            "concat('k', id) as key",
            f"{expression} as value",
        )
        .coalesce(1)
    )


TEXT = "element_at(array({texts}), cast(id % {count} + 1 as int))"
JSON_TEXT = "concat('{\"n\":', id, ',\"s\":\"', id % 7, '\"}')"


class Target:
    """A target of a connector: writes batches with the sink's task, and compares it with the expected rows."""

    def __init__(
        self, connector: type[Connector], config: Mapping[str, str], frame: DataFrame, scratch: Path
    ) -> None:
        view: Any = SimpleNamespace(scratch=str(scratch), spark_is_local=True, bootstrap_servers="")
        self.frame, self.spark = frame, frame.sparkSession
        target = connector.open_target(config, view)
        assert isinstance(target, ReadableTarget)
        self.target = target
        task = connector.task_class()
        assert isinstance(task, SinkTask)
        task.start(config, TaskContext(connector="c", task=0, worker=view, connector_config=config))
        batch = self.batch()
        task.write(batch)
        task.stop()

    def batch(self) -> SinkBatch:
        values = None if self.frame.schema["value"].dataType.typeName() == "struct" else self.target.values
        return SinkBatch(frame=self.frame, ranges={PARTITION: (0, COUNT)}, values=values)

    def expected(self) -> DataFrame:
        batch = self.batch()
        return self.target.expected_rows(batch.frame, batch.values)

    def stored(self) -> DataFrame | None:
        ranges = {PARTITION: (0, COUNT)}
        narrowed = self.target.narrow(self.spark, ranges)
        assert narrowed in (None, ranges)
        schema = self.expected().drop(*EXPECTED_POSITION).schema
        return self.target.stored_rows(self.spark, schema, {} if narrowed is None else {PARTITION: 0})

    def is_proved(self) -> bool:
        stored = self.stored()
        assert stored is not None
        return tally(hash_rows(self.expected())) == tally(hash_rows(stored))

    def differences(self) -> Differences:
        stored = self.stored()
        return find_differences(
            hash_rows(self.expected()), None if stored is None else hash_rows(stored), {PARTITION: COUNT}
        )


MakeTarget = Callable[..., Target]


@pytest.fixture
def make_target(spark: SparkSession, tmp_path: Path) -> MakeTarget:
    def make(spark_format: str, value: str, **config: str) -> Target:
        settings = {"spark.format": spark_format, "name": "c"}
        if spark_format == "jdbc":
            settings |= {"spark.option.url": f"jdbc:derby:memory:{uuid.uuid4().hex};create=true"}
            settings |= {"jdbc.table": "GOT"}
        else:
            settings["path"] = str(tmp_path / "out [1]")
        settings |= {key.replace("__", "."): text for key, text in config.items()}
        return Target(SparkSinkConnector, settings, make_frame(spark, value), tmp_path)

    return make


METADATA = {"metadata__columns": "topic,partition,offset,timestamp,key"}


@pytest.mark.ci
@pytest.mark.parametrize("spark_format", ["json", "csv", "parquet", "orc", "jdbc"])
@pytest.mark.parametrize("config", [{}, METADATA], ids=["values", "with metadata"])
@pytest.mark.one_a_day("config")
def test_rows_with_a_schema_are_proved(
    make_target: MakeTarget, spark_format: str, config: Mapping[str, str]
) -> None:
    assert make_target(spark_format, STRUCT, **config).is_proved()


@pytest.mark.ci
@pytest.mark.parametrize("spark_format", ["json", "csv", "text", "parquet", "orc", "jdbc"])
def test_texts_are_proved(make_target: MakeTarget, spark_format: str) -> None:
    assert make_target(spark_format, TEXT).is_proved()


@pytest.mark.ci
@pytest.mark.parametrize("spark_format", ["json", "csv", "text", "parquet", "jdbc"])
def test_schemaless_values_are_proved(make_target: MakeTarget, spark_format: str) -> None:
    value = JSON_TEXT if spark_format == "json" else f"parse_json({JSON_TEXT})"
    assert make_target(spark_format, value).is_proved()
    assert make_target(spark_format, JSON_TEXT, spark__schema="s STRING").is_proved()


@pytest.mark.parametrize(
    "config",
    [
        {"spark__option__header": "true"},
        {"spark__option__compression": "gzip"},
        {"spark__option__sep": ";", "spark__option__nullValue": "NULL"},
    ],
    ids=str,
)
def test_csv_options_are_proved(make_target: MakeTarget, config: Mapping[str, str]) -> None:
    assert make_target(
        "csv", STRUCT.replace("{texts}", "'a', 'b'").replace("{count}", "2"), **config
    ).is_proved()


@pytest.mark.parametrize("seed", range(5))
def test_missing_repeated_and_changed_lines_of_files_are_located(make_target: MakeTarget, seed: int) -> None:
    target = make_target("json", "named_struct('n', id)")
    stored = target.stored()
    assert stored is not None
    (path,) = (Path(unquote(urlsplit(name).path)) for name in stored.inputFiles())
    lines = path.read_bytes().splitlines(keepends=True)
    offset = random.Random(seed).randrange(COUNT)  # noqa: S311 - not for security
    span = Span(group=PARTITION, first=offset, last=offset)

    path.write_bytes(b"".join(lines[:offset] + lines[offset + 1 :]))
    assert not target.is_proved()
    assert target.differences() == Differences(missing_count=1, missing=(span,))
    path.write_bytes(b"".join([*lines, lines[offset]]))
    assert target.differences() == Differences(repeated_count=1, repeated=(span,))
    lines[offset] = b'{"n":-1}\n'
    path.write_bytes(b"".join(lines))
    assert target.differences() == Differences(missing_count=1, missing=(span,), unexpected_count=1)
    path.unlink()
    assert target.stored() is None
    everything = Span(group=PARTITION, first=0, last=COUNT - 1)
    assert target.differences() == Differences(missing_count=COUNT, missing=(everything,))


def test_swapped_null_is_a_difference(make_target: MakeTarget) -> None:
    target = make_target("parquet", "named_struct('a', if(id = 3, null, 1), 'b', if(id = 3, 1, null))")
    swapped = target.expected().selectExpr("b as a", "a as b")
    assert tally(hash_rows(target.expected())) != tally(hash_rows(swapped))


def test_lines_of_file_sink_are_proved_and_located(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    frame = make_frame(spark, f"if(id % 10 = 9, null, concat(id, ' ', {TEXT}))")
    target = Target(FileStreamSinkConnector, {"file": str(path)}, frame, tmp_path)
    assert target.is_proved()
    content = path.read_bytes()
    path.write_bytes(content + b"a line that is being writ")
    assert target.is_proved(), "the last line is incomplete"
    path.write_bytes(content.replace(b"\n100 ", b"\nchanged"))
    span = Span(group=PARTITION, first=100, last=100)
    differences = target.differences()
    assert (differences.missing, differences.unexpected_count) == ((span,), 1)
    path.write_bytes(b"no line end")
    assert target.stored() is None


def make_faulty_sink(fault: str, number: int) -> type[FileStreamSinkConnector]:
    """Return a sink that loses, repeats or changes the line with a number, without an error."""

    class FaultyTask(FileStreamSinkTask):
        @override
        def write(self, batch: SinkBatch) -> None:
            frame, record = batch.frame, batch.frame.where(f"offset = {number}")
            faulty = {
                "lost": frame.where(f"offset != {number}"),
                "repeated": frame.unionByName(record),
                "changed": frame.selectExpr(
                    "* except (value)", f"if(offset = {number}, 'changed', value) value"
                ),
            }[fault]
            # Without the true numbers: the sink compares them with what Spark wrote.
            super().write(replace(batch, frame=faulty, ranges={PARTITION: (0, COUNT + 1)}, records=None))

    return type("FaultySink", (FileStreamSinkConnector,), {"task_class": FaultyTask})


@pytest.mark.parametrize("seed", range(50))
def test_records_that_a_faulty_sink_loses_repeats_or_changes_are_located(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    numbers = random.Random(seed)  # noqa: S311 - not for security
    fault, number = numbers.choice(["lost", "repeated", "changed"]), numbers.randrange(COUNT)
    frame = make_frame(spark, "concat('line ', id)")
    target = Target(make_faulty_sink(fault, number), {"file": str(tmp_path / "out.txt")}, frame, tmp_path)
    assert not target.is_proved()
    span = Span(group=PARTITION, first=number, last=number)
    assert (
        target.differences()
        == {
            "lost": Differences(missing_count=1, missing=(span,)),
            "repeated": Differences(repeated_count=1, repeated=(span,)),
            "changed": Differences(missing_count=1, missing=(span,), unexpected_count=1),
        }[fault]
    )


def test_standard_output_is_unreadable() -> None:
    view: Any = SimpleNamespace(scratch="", spark_is_local=True, bootstrap_servers="")
    with pytest.raises(NotComparable, match="standard output"):
        FileStreamSinkConnector.open_target({}, view)


def test_records_of_deleted_segments_are_omitted(spark: SparkSession, tmp_path: Path) -> None:
    """The topic begins at 150, inside the first file; only the second file can be compared."""
    folder = tmp_path / "out"
    config = {"spark.format": "json", "path": str(folder), "name": "c"}
    frame = make_frame(spark, "named_struct('n', id)")
    target = Target(SparkSinkConnector, config, frame.where("offset < 300"), tmp_path)
    names = [path.name for path in folder.glob("t+*")]
    assert len(names) == 1
    (folder / names[0]).rename(folder / names[0].replace("599", "299"))
    ranges = {PARTITION: (150, COUNT)}
    assert target.target.narrow(spark, ranges) == {PARTITION: (300, COUNT)}
    assert target.target.stored_rows(spark, None, {PARTITION: 300}) is None
