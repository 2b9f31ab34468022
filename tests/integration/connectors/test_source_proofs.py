"""Tests for proofs of sources on real Spark: delivered records are proved, and differences are located."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kraal.core.offsets import SourcePartition, TopicPartition
from kraal.engine.proof.replay import MAX_LATER_BATCHES
from kraal.plugins.api import NotComparable
from kraal.proof.differences import Differences, SourceSpan, Span
from kraal.proof.result import Verdict
from tests.fakes.spark.stage import TaskHarness
from tests.fakes.spark.tasks import STRING_CONVERTER, Source, source

LINES = 1500
AS_TEXT = {"value.converter": STRING_CONVERTER}


def file_source(harness: TaskHarness, file: Path) -> Source:
    delivered = source(harness, {"file": str(file), **AS_TEXT})
    delivered.connector = "FileStreamSource"
    return delivered


def write_lines(file: Path, start: int, count: int) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(f"line {number}\n" for number in range(start, start + count))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    write_lines(file, 0, LINES)
    return file


def test_lines_of_a_file_are_proved_and_differences_located(harness: TaskHarness, file: Path) -> None:
    delivered = file_source(harness, file)
    delivered.run(LINES)
    partition = SourcePartition.of({"filename": str(file)})
    result = delivered.prove()
    assert (result.verdict, result.expected_count, result.stored_count) == (Verdict.PROVED, LINES, LINES)
    assert (result.is_partial, result.source_offsets) == (False, delivered.offsets)

    write_lines(file, LINES, 2)
    harness.produce(delivered.topic, ["line 7", "nonsense", f"line {LINES}"])
    topic = TopicPartition(delivered.topic, 0)
    later_offsets = {partition: {"position": file.stat().st_size}}
    assert delivered.prove(later_offsets).differences == Differences(
        missing_count=1,
        missing_source_records=(
            SourceSpan(partition=partition, after=None, first=LINES + 2, last=LINES + 2),
        ),
        repeated_count=1,
        repeated=(Span(group=topic, first=LINES, last=LINES),),
        unexpected_count=1,
        unexpected=(Span(group=topic, first=LINES + 1, last=LINES + 1),),
    )


def test_files_of_several_batches_are_proved(harness: TaskHarness, file: Path) -> None:
    large_count = 40_000
    write_lines(file, LINES, large_count)
    delivered = file_source(harness, file)
    delivered.run(LINES + large_count)
    write_lines(file, LINES + large_count, 3)
    delivered.run(3)
    result = delivered.prove()
    assert (result.verdict, result.expected_count) == (Verdict.PROVED, LINES + large_count + 3)
    harness.produce(delivered.topic, [f"line {LINES}"])
    result = delivered.prove()
    assert (result.verdict, result.differences.repeated_count) == (Verdict.DIFFERENT, 1)


def test_proof_without_a_stored_offset_of_a_batch_is_undecided(harness: TaskHarness, file: Path) -> None:
    delivered = file_source(harness, file)
    delivered.run(LINES)
    write_lines(file, LINES, 2)
    harness.produce(delivered.topic, [f"line {LINES}"])
    with pytest.raises(NotComparable, match="has records after its stored offset"):
        delivered.prove()


def test_deleted_file_makes_the_proof_of_several_tasks_partial(harness: TaskHarness, tmp_path: Path) -> None:
    for number in range(3):
        write_lines(tmp_path / f"part-{number}.txt", number * LINES, LINES)
    with gzip.open(tmp_path / "packed.txt.gz", "wt", encoding="utf-8") as packed:
        packed.writelines(f"packed {number}\n" for number in range(10))
    settings = {"spark.format": "text", "path": str(tmp_path), **AS_TEXT}
    delivered = source(harness, settings)
    delivered.run(3 * LINES + 10)
    shares = [{"kraal.share": "0/2"}, {"kraal.share": "1/2"}]
    result = delivered.prove(task_configs=shares)
    assert (result.verdict, result.expected_count) == (Verdict.PROVED, 3 * LINES + 10)
    assert not result.is_partial
    (tmp_path / "part-1.txt").unlink()
    result = delivered.prove(task_configs=shares)
    assert (result.verdict, result.is_partial, result.expected_count) == (
        Verdict.PROVED,
        True,
        2 * LINES + 10,
    )
    assert result.differences.unexpected_count == LINES


def test_source_that_grows_faster_than_it_is_read_is_compared_in_part(
    harness: TaskHarness, tmp_path: Path
) -> None:
    count = 200  # more than 1,024 bytes
    write_lines(tmp_path / "part-00.txt", 0, count)
    size = (tmp_path / "part-00.txt").stat().st_size  # of all files, so that each batch has one file
    settings = {"spark.format": "text", "path": str(tmp_path), "file.batch.bytes": str(size), **AS_TEXT}
    delivered = source(harness, settings)
    delivered.run(count)
    for number in range(1, 2 * MAX_LATER_BATCHES + 2):
        write_lines(tmp_path / f"part-{number:02}.txt", 0, count)
    harness.produce(delivered.topic, ["line 0"])
    result = delivered.prove()
    assert (result.verdict, result.is_partial, result.expected_count) == (Verdict.PROVED, True, count)


def test_ranges_of_a_python_data_source_are_proved(harness: TaskHarness) -> None:
    numbers = source(
        harness,
        {"spark.format": "python", "spark.python.datasource": "tests.fakes.spark.data_sources:SixNumbers"},
    )
    numbers.run(4)
    result = numbers.prove()
    assert (result.verdict, result.expected_count, result.stored_count) == (Verdict.PROVED, 4, 4)
    harness.produce(numbers.topic, ['{"n":4}', '{"n":1}', '{"n":7}'])
    topic = TopicPartition(numbers.topic, 0)
    assert numbers.prove().differences == Differences(
        repeated_count=1,
        repeated=(Span(group=topic, first=5, last=5),),
        unexpected_count=1,
        unexpected=(Span(group=topic, first=6, last=6),),
    ), "the batch after the stored offset may be in the topic"
    numbers.offsets = {partition: {"offset": '{"next": 6}'} for partition in numbers.offsets}
    (missing_span,) = numbers.prove().differences.missing_source_records
    assert (missing_span.first, missing_span.last) == (6, 6)


def test_python_data_source_without_stored_offsets_is_undecided(harness: TaskHarness) -> None:
    numbers = source(
        harness,
        {"spark.format": "python", "spark.python.datasource": "tests.fakes.spark.data_sources:SixNumbers"},
    )
    with pytest.raises(NotComparable, match="the connector has stored no offsets yet"):
        numbers.prove()


def test_source_that_cannot_be_read_again_is_not_proved(harness: TaskHarness, tmp_path: Path) -> None:
    settings = {"spark.format": "jdbc", "jdbc.mode": "bulk", "spark.option.url": "jdbc:derby:memory:x"}
    with pytest.raises(NotComparable, match="SparkSource with this config cannot read its records again"):
        Source(harness, settings, "unused").prove()
    with pytest.raises(NotComparable, match="has no tasks; start the connector first"):
        file_source(harness, tmp_path / "lines").prove(task_configs=())
