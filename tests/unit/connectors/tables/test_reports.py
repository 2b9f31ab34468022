"""Tests for the reports of table sinks, with real tables of both formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from kraal.connectors.tables.settings import ChangeSettings, WriterSettings
from kraal.connectors.tables.writer import Delivery, TableWriter
from kraal.plugins.api import TableReport, TableSchemaChange, TopicPartition
from tests.fakes.tables.records import TOPIC, Record, batch, field, row, struct, tombstone
from tests.unit.connectors.tables.conftest import PARTITION, Lake, Writer

OTHER = TopicPartition(TOPIC, 1)
WIDER = struct(field("id", "int32"), field("name"), field("note", "int32"))


class ReportingWriter(Writer):
    """A task's writer that keeps its reports."""

    def __init__(self, lake: Lake, mode: str = "upsert", **settings: Any) -> None:
        self.tables: list[TableReport] = []
        writer_settings = WriterSettings(ChangeSettings(mode=mode, **settings), "evolve")
        super().__init__(
            TableWriter(lake.open(), writer_settings, sleep=lambda _: None, report_table=self.tables.append)
        )

    @property
    def report(self) -> TableReport:
        return self.tables[-1]


def test_report_has_the_state_of_the_table_after_each_commit(lake: Lake) -> None:
    writer = ReportingWriter(lake)
    assert (writer.report.version, writer.report.format) == (None, lake.kind)
    writer.write(*(row(number, "a") for number in range(5)))
    writer.write(row(0, "b"), row(7, "b"), tombstone(1), start=5)
    report = writer.report
    assert (report.rows, report.columns) == (5, {"id": "int32", "name": "string"})
    assert report.offsets == {PARTITION: 8, OTHER: None, TopicPartition(TOPIC, 2): None}
    assert report.files == len(list_files(lake))
    assert report.size_bytes
    assert report.size_bytes > 0
    assert (report.totals.commits, report.totals.conflicts) == (2, 0)
    assert (report.totals.rows_added, report.totals.rows_updated, report.totals.rows_deleted) == (6, 1, 1)
    assert report.totals.files_added - report.totals.files_removed == report.files
    assert report.totals.commit_s > 0
    newest = report.commits[0]
    assert newest.offsets == {PARTITION: 8}
    assert (newest.rows_added, newest.rows_updated, newest.rows_deleted) == (1, 1, 1)
    assert newest.version == report.version
    assert report.commits[1].offsets == {PARTITION: 5}


def list_files(lake: Lake) -> Sequence[Any]:
    handle = lake.open().load([]).handle
    return handle.file_uris() if lake.kind == "delta" else [*handle.scan().plan_files()]


def test_appended_rows_are_counted(lake: Lake) -> None:
    writer = ReportingWriter(lake, "append")
    writer.write(row(1, "a"), row(1, "a"))
    writer.write(row(1, "a"), start=2)
    totals = writer.report.totals
    assert (totals.rows_added, totals.rows_updated, totals.rows_deleted) == (3, 0, 0)
    assert (totals.files_added, totals.files_removed, writer.report.rows) == (2, 0, 3)


def test_schema_changes_name_the_record_and_outlive_the_task(lake: Lake) -> None:
    writer = ReportingWriter(lake)
    writer.write(row(1, "a"))
    writer.write(row(2, "b"), row(3, "c", WIDER, note=7), start=1)
    assert writer.report.totals.schema_changes == 1
    version = writer.report.version
    writer.write(row(4, "d"), start=3)
    for report in (writer.report, ReportingWriter(lake).report):
        [change] = report.schema_changes
        assert change == TableSchemaChange(
            record=f"{TOPIC}-0@2",
            column="note",
            old_type=None,
            new_type="int32",
            version=str(version),
            time_ms=change.time_ms,
        )
        assert change.time_ms is not None
        assert [commit.version for commit in report.commits[:2]] != [version, version]
    assert ReportingWriter(lake).report.commits[0].offsets == {PARTITION: 4}


def test_marked_rows_are_updates(lake: Lake) -> None:
    writer = ReportingWriter(lake, marks_deletes=True)
    writer.write(row(1, "a"), row(2, "b"))
    writer.write(tombstone(1), tombstone(9), start=2)
    commit = writer.report.commits[0]
    assert (commit.rows_added, commit.rows_updated, commit.rows_deleted) == (0, 1, 0)
    assert writer.report.rows == 2


def test_compaction_changes_files_but_no_rows(lake: Lake) -> None:
    writer = ReportingWriter(lake, "append")
    for number in range(4):
        writer.write(row(number, "a"), start=number)
    lake.open().maintain()
    compaction = next(commit for commit in ReportingWriter(lake).report.commits if commit.files_removed)
    assert (compaction.files_added, compaction.files_removed) == (1, 4)
    assert (compaction.rows_added or 0, compaction.rows_deleted or 0) == (0, 0)
    writer.write(row(4, "a"), start=4)
    assert (writer.report.rows, writer.report.totals.rows_added) == (5, 5)


def test_commits_of_other_writers_have_no_offsets(lake: Lake) -> None:
    writer = ReportingWriter(lake, "append")
    writer.write(row(1, "a"))
    handle = lake.open().load([]).handle
    if lake.kind == "iceberg":
        handle.append(handle.scan().to_arrow())
    else:
        from deltalake import write_deltalake  # noqa: PLC0415 - heavy

        write_deltalake(handle, handle.to_pyarrow_table(), mode="append")
    writer.write(row(2, "b"), start=1)
    first, other, *_ = writer.report.commits
    assert (first.offsets, other.offsets, other.rows_added) == ({PARTITION: 2}, None, 1)
    assert (writer.report.rows, writer.report.totals.rows_added) == (3, 2)


def test_conflicts_are_counted(lake: Lake) -> None:
    first, second = ReportingWriter(lake, "append"), ReportingWriter(lake, "append")
    first.write(row(0, "x"))
    second.writer.read_offsets([OTHER])
    commits = 0

    def commit_other() -> None:
        nonlocal commits
        commits += 1
        if commits == 1:
            second.write(row(2, "b"), partition=1)

    first.write(row(1, "a"), start=1, check=commit_other)
    assert (first.report.totals.conflicts, first.report.totals.commits) == (1, 2)
    assert first.report.commits[0].offsets is not None
    assert first.report.commits[0].offsets[PARTITION] == 2
    assert second.report.offsets == {OTHER: 1}


def test_task_that_loses_a_partition_no_longer_reports_it(lake: Lake) -> None:
    writer = ReportingWriter(lake, "append")
    writer.write(row(1, "a"))
    writer.write(row(2, "b"), partition=1)
    assert (writer.report.offsets[PARTITION], writer.report.offsets[OTHER]) == (1, 1)
    writer.writer.read_offsets([OTHER])
    assert writer.report.offsets == {OTHER: 1}


def test_latest_timestamps_are_reported(lake: Lake) -> None:
    writer = ReportingWriter(lake, "append")
    records, ranges = batch([row(1, "a"), row(2, "b")])
    times = pa.array([1_700_000_001_000_000, 1_700_000_000_000_000], pa.timestamp("us", "UTC"))
    writer.writer.write(records.append_column("timestamp", times), ranges, Delivery(report=lambda *_: None))
    assert writer.report.timestamps_ms == {PARTITION: 1_700_000_001_000}


def test_metadata_that_cannot_be_read_do_not_fail_the_task(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = ReportingWriter(lake, "append")
    count = len(writer.tables)

    def fail(handle: object) -> TableReport:
        raise OSError(f"no access: {handle is None}")

    monkeypatch.setattr(writer.writer._table, "describe", fail)
    writer.write(row(1, "a"))
    assert lake.offset() == 1
    assert len(writer.tables) == count
    assert "Failed to read the metadata for reports: no access" in caplog.text


def test_delta_history_is_read_once(lake: Lake) -> None:
    if lake.kind == "iceberg":
        return  # the history is part of the metadata
    writer = ReportingWriter(lake, "append")
    for number in range(4):
        record: Record = row(number, "a")
        writer.write(record, start=number)
    versions = [commit.version for commit in writer.report.commits]
    assert versions == [commit.version for commit in ReportingWriter(lake).report.commits]
    assert versions[0] == writer.report.version


def test_report_has_no_commits_after_its_version(lake: Lake) -> None:
    table = lake.open()
    writer = ReportingWriter(lake, "append")
    writer.write(row(1, "a"))
    handle = table.load([PARTITION]).handle
    for number in range(1, 3):
        writer.write(row(1, "a"), start=number)
    report = table.describe(handle)
    assert (report.rows, report.commits[0].offsets) == (1, {PARTITION: 1})
    assert report.commits[0].version == report.version
    later_report = table.describe(table.load([PARTITION]).handle)
    assert [commit.offsets for commit in later_report.commits][:3] == [{PARTITION: end} for end in (3, 2, 1)]
