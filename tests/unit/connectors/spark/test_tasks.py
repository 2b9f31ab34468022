"""Tests for SparkSource without Spark: the distribution of work, polling, and the conditions for new rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraal.connectors.jdbc.drivers import add_driver
from kraal.connectors.jdbc.source import Columns, Mark
from kraal.connectors.spark.files import FileReader, read_ranges
from kraal.connectors.spark.python_source import load_data_source_class
from kraal.connectors.spark.source import SHARE, SparkSourceConnector, SparkSourceTask
from kraal.connectors.spark.source_config import SPARK_SOURCE
from kraal.core.offsets import SourcePartition
from kraal.plugins.api import TaskContext

CONTEXT: Any = SimpleNamespace()


def list_shares(config: Mapping[str, str], max_tasks: int) -> list[str]:
    connector = SparkSourceConnector()
    connector.start(config, CONTEXT)
    return [task_config[SHARE] for task_config in connector.task_configs(max_tasks)]


def test_task_configs_distribute_files_and_tables(tmp_path: Path) -> None:
    file_config = {"spark.format": "text", "path": str(tmp_path), "topic": "t"}
    assert list_shares(file_config, 3) == ["0/3", "1/3", "2/3"]
    table_config = {"spark.format": "jdbc", "jdbc.tables": "a,b", "jdbc.mode": "bulk", "topic": "t"}
    assert list_shares(table_config, 3) == ["0/2", "1/2"]
    python_config = {
        "spark.format": "python",
        "spark.python.datasource": "tests.fakes.spark.data_sources:SixNumbers",
        "topic": "t",
    }
    assert list_shares(python_config, 3) == ["0/1"]
    stream_config = {"spark.format": "rate", "checkpoint.location": str(tmp_path), "topic": "t"}
    assert list_shares(stream_config, 3) == ["0/1"]


def make_reader(folder: Path, share: tuple[int, int] = (0, 1), batch_bytes: int = 1_000_000) -> FileReader:
    config = {"spark.format": "text", "path": str(folder), "topic": "t", "file.batch.bytes": str(batch_bytes)}
    return FileReader(SPARK_SOURCE.parse(config), {}, share, {})


def test_each_file_belongs_to_one_task(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}.txt").write_text("x\n")
    shares = [[path for path, _ in make_reader(tmp_path, (n, 3))._list_files()] for n in range(3)]
    assert all(shares)
    assert sorted(chain(*shares)) == sorted(str(path) for path in tmp_path.iterdir())


def test_batches_end_at_lines_and_at_unsplittable_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("12345\n12345\n12345")
    (tmp_path / "b.txt").write_text("1\n")
    (tmp_path / "c.txt.gz").write_bytes(b"packed")
    (tmp_path / "d.txt").write_text("")
    files = make_reader(tmp_path, batch_bytes=13)
    batches = []
    files._pending_files = files._list_files()
    while files._pending_files:
        files.next_position = files._select_batch()
        batches.append([(Path(piece.path).name, piece.start, piece.end) for piece in files.next_position])
        files.advance()
    assert batches == [[("a.txt", 0, 12)], [("a.txt", 12, 17), ("b.txt", 0, 2)], [("c.txt.gz", 0, 6)]]
    assert not files._list_files()


def test_shortened_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n")
    files = make_reader(tmp_path)
    files._offsets_by_path[str(tmp_path / "a.txt")] = (9, False)
    files._pending_files = files._list_files()
    with pytest.raises(
        ValueError, match=r"a\.txt became shorter: it has 4 bytes, but 9 bytes were already read"
    ):
        files._select_batch()


def test_unchanged_directory_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = make_reader(tmp_path)
    assert files.may_have_more()
    files._list_files()
    assert files.may_have_more()  # a file may have been added within the resolution of the modification time
    monkeypatch.setattr(time, "time", lambda: tmp_path.stat().st_mtime + 3600)
    files._list_files()
    assert not files.may_have_more()
    (tmp_path / "new.txt").write_text("x\n")
    assert files.may_have_more()


def test_task_polls_immediately_after_a_batch_and_otherwise_at_intervals(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    task = SparkSourceTask()
    config = {
        "spark.format": "text",
        "path": str(tmp_path),
        "topic": "t",
        "spark.poll.interval.ms": "3600000",
    }
    view: Any = SimpleNamespace(scratch="", spark_is_local=True, bootstrap_servers="")
    task.start(config, {}, TaskContext(connector="c", task=0, worker=view, connector_config=config))
    batch = task.poll()
    assert batch is not None
    assert batch.discover is not None
    assert task.poll() is None  # the interval has not elapsed
    files: Any = task._reader
    files._pending_files = files._list_files()
    files.next_position = files._select_batch()
    assert task.poll() is not None
    assert task.poll() is None
    task.stop()


def test_read_ranges_returns_lines_of_ranges(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"h\r\n1\r\r\n2")
    spans = [(str(path), 0, 8), (str(path), 3, 5)]
    rows = list(read_ranges(spans, True, iter(())))  # noqa: FBT003 - bound by position
    values = [batch.column(0).to_pylist() for batch in rows]
    assert [value for value in chain(*values) if value] == ["1", "2", "1"]


def test_read_ranges_skips_header_and_returns_unterminated_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"head\n1\n2")
    (first, last) = read_ranges([(str(path), 0, 8)], True, iter(()))  # noqa: FBT003 - as above
    assert [first.to_pylist(), last.to_pylist()] == [[{"value": "1"}], [{"value": "2"}]]


TIME_AND_ID, TIME_ONLY, ID_ONLY = Columns("ID", "AT"), Columns(None, "AT"), Columns("ID", None)


def test_columns_build_conditions_for_marks() -> None:
    old_mark, new_mark = Mark(3, "2026-01-01 00:00:00"), Mark(9, "2026-01-02 00:00:00.5")
    assert (ID_ONLY.after(Mark()), ID_ONLY.after(old_mark), ID_ONLY.until(new_mark)) == (
        None,
        "ID > 3",
        "ID <= 9",
    )
    assert TIME_ONLY.after(old_mark) == "AT > {ts '2026-01-01 00:00:00'}"
    assert TIME_ONLY.until(new_mark) == "AT <= {ts '2026-01-02 00:00:00.5'}"
    assert (
        TIME_AND_ID.after(old_mark)
        == "(AT > {ts '2026-01-01 00:00:00'} OR (AT = {ts '2026-01-01 00:00:00'} AND ID > 3))"
    )
    assert TIME_AND_ID.until(new_mark) == (
        "(AT < {ts '2026-01-02 00:00:00.5'} OR (AT = {ts '2026-01-02 00:00:00.5'} AND ID <= 9))"
    )
    assert TIME_AND_ID.after(Mark()) is None


@pytest.mark.parametrize(
    "offset", [{"incrementing": "1 OR 1=1"}, {"timestamp": "x'"}, {"incrementing": True}]
)
def test_invalid_offset_cannot_inject_sql(offset: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="of the stored offset is"):
        Mark.of(offset)


def test_text_column_cannot_inject_sql() -> None:
    with pytest.raises(
        ValueError, match=r"the column of jdbc.timestamp.column contains \"2026' OR '1'='1\", not a time"
    ):
        TIME_ONLY.until(Mark(None, "2026' OR '1'='1"))


def test_columns_are_quoted_for_the_database() -> None:
    columns = Columns('"The ID"', "[At]")
    assert columns.get_sort_columns() == ["At", "The ID"]
    assert columns.quote_for("mysql").until(Mark(1, "2026-01-01 00:00:00")) == (
        "(`At` < {ts '2026-01-01 00:00:00'} OR (`At` = {ts '2026-01-01 00:00:00'} AND `The ID` <= 1))"
    )


def test_mariadb_requires_ansi_quotes() -> None:
    with pytest.raises(
        ValueError,
        match=r'MariaDB reads "name" as a string literal. Add sessionVariables=sql_mode=ANSI_QUOTES',
    ):
        add_driver({"url": "jdbc:mariadb://h/d"})
    ansi_options = {"url": "jdbc:mariadb://h/d?sessionVariables=sql_mode=ANSI_QUOTES"}
    assert add_driver(ansi_options) == {**ansi_options, "driver": "org.mariadb.jdbc.Driver"}


def test_add_driver_selects_driver_by_url() -> None:
    assert add_driver({"url": "jdbc:postgresql://h/d"})["driver"] == "org.postgresql.Driver"
    assert add_driver({"url": "jdbc:h2:mem:x", "Driver": "my.Own"}) == {
        "url": "jdbc:h2:mem:x",
        "Driver": "my.Own",
    }
    assert add_driver({"url": "jdbc:derby:memory:x"}) == {"url": "jdbc:derby:memory:x"}
    with pytest.raises(
        ValueError, match=r"spark\.format=jdbc requires spark\.option\.url to start with jdbc:"
    ):
        add_driver({"user": "x"})


def test_load_data_source_class_rejects_other_classes() -> None:
    assert load_data_source_class("tests.fakes.spark.data_sources:SixNumbers").name() == "SixNumbers"
    with pytest.raises(ValueError, match="os:system is not a Python Data Source"):
        load_data_source_class("os:system")
    with pytest.raises(ValueError, match=r"no\.such:Thing cannot be imported"):
        load_data_source_class("no.such:Thing")


def test_alter_offsets_requires_a_path() -> None:
    connector = SparkSourceConnector()
    config = {"spark.format": "csv"}
    assert connector.alter_offsets(config, {SourcePartition.of({"path": "/a"}): {"position": 0}})
    with pytest.raises(ValueError, match="should contain the key 'path'"):
        connector.alter_offsets(config, {SourcePartition.of({"file": "/a"}): {"position": 0}})
