"""Tests for the maintenance of real tables of both formats."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from kraal.connectors.tables import iceberg
from kraal.connectors.tables.iceberg_expiry import list_files as list_snapshot_files
from kraal.connectors.tables.iceberg_maintenance import CompactedFiles, compact_files
from kraal.connectors.tables.layout import TableLayout, parse_partition_by
from kraal.connectors.tables.maintenance import Maintenance, maintain_table
from kraal.connectors.tables.table import Changes, Conflict
from tests.fakes.tables.records import row
from tests.unit.connectors.tables.conftest import Lake, list_files

TIMEOUT_S = 60.0


class FakeTable:
    """A table whose maintenance raises errors, then waits."""

    name = "t"

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.count, self.removals = 0, list[bool]()
        self.may_end = threading.Event()
        self.may_end.set()

    def maintain(self, *, removes_orphans: bool = False) -> str:
        """Raise the next error, or wait until it may end."""
        self.removals.append(removes_orphans)
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        assert self.may_end.wait(TIMEOUT_S)
        return "done"


def wait_for_end(maintenance: Maintenance) -> None:
    assert maintenance._thread is not None
    maintenance._thread.join(TIMEOUT_S)
    assert not maintenance._thread.is_alive()


def test_small_files_become_one_and_rows_and_offset_stay(lake: Lake) -> None:
    writer = lake.writer("append")
    for number in range(6):
        writer.write(row(number, "a"), start=number)
    assert len(list_files(lake)) == 6
    assert "compacted 6 files" in maintain_table(lake.open())
    assert len(list_files(lake)) == 1
    assert (lake.names(), lake.offset()) == (dict.fromkeys(range(6), "a"), 6)
    writer.write(row(6, "a"), start=6)
    assert (len(lake.names()), lake.offset()) == (7, 7)
    assert "compacted 0 files" in maintain_table(lake.open()) or lake.kind == "delta", "two files are few"


def interrupt_compaction(monkeypatch: pytest.MonkeyPatch, interrupt: Callable[[], object]) -> None:
    """Call a function between the write of compacted files and their commit."""

    def compact(table: Any) -> list[CompactedFiles]:
        results = compact_files(table)
        interrupt()
        return results

    monkeypatch.setattr(iceberg, "compact_files", compact)


def test_commit_during_a_compaction_does_not_repeat_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake("iceberg", tmp_path)
    writer = lake.writer("append")
    for number in range(6):
        writer.write(row(number, "a"), start=number)
    interrupt_compaction(monkeypatch, lambda: writer.write(row(6, "a"), start=6))
    assert "compacted 6 files" in maintain_table(lake.open())
    assert len(list_files(lake)) == 2
    assert (lake.names(), lake.offset()) == (dict.fromkeys(range(7), "a"), 7)


def test_compacted_files_of_changed_rows_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake("iceberg", tmp_path)
    writer = lake.writer(layout=TableLayout(properties={"history.expire.max-snapshot-age-ms": "0"}))
    for number in range(6):
        writer.write(row(number, "a"), start=number)
    interrupt_compaction(monkeypatch, lambda: writer.write(row(0, "b"), start=6))
    assert "compacted 0 files" in maintain_table(lake.open())
    assert (lake.names(), lake.offset()) == ({0: "b", **dict.fromkeys(range(1, 6), "a")}, 7)
    monkeypatch.undo()
    threading.Event().wait(0.01)  # versions have the age of at least a millisecond
    assert "compacted 6 files" in maintain_table(lake.open())
    assert list_unreferenced(lake) == set()


def count_manifests(lake: Lake) -> int:
    """Return the number of manifests of the current snapshot."""
    table = lake.open().load([]).handle
    return len(table.current_snapshot().manifests(table.io))


def test_manifests_of_replaced_files_are_omitted(tmp_path: Path) -> None:
    lake = Lake("iceberg", tmp_path)
    writer = lake.writer()
    for number in range(20):
        writer.write(row(0, f"version {number}"), start=number)
    assert count_manifests(lake) == 2, "one of the new file, one of the file that the commit has removed"
    assert lake.names() == {0: "version 19"}


def test_manifests_are_merged(tmp_path: Path) -> None:
    lake = Lake("iceberg", tmp_path)
    properties = {"commit.manifest.min-count-to-merge": "8"}
    writer = lake.writer(layout=TableLayout(partition_by=parse_partition_by("id"), properties=properties))
    for number in range(20):
        writer.write(row(number, "a"), start=2 * number)
        assert count_manifests(lake) < 10
        if number % 5 == 4:
            writer.write(row(number - 2, "b"), start=2 * number + 1)
    changed = (2, 7, 12, 17)
    assert lake.names() == {number: "b" if number in changed else "a" for number in range(20)}
    table = lake.open().load([]).handle
    entries = [
        entry
        for manifest in table.current_snapshot().manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    snapshots = {snapshot.snapshot_id: snapshot.sequence_number for snapshot in table.snapshots()}
    assert len(entries) == 20
    assert all(entry.sequence_number == snapshots[entry.snapshot_id] for entry in entries)


def test_partitions_are_compacted_separately(lake: Lake) -> None:
    writer = lake.writer("append", layout=TableLayout(partition_by=parse_partition_by("name")))
    for number in range(5):
        writer.write(row(number, "a"), row(10 + number, "b"), start=2 * number)
    assert "compacted 10 files" in maintain_table(lake.open())
    assert sum("name=a" in path for path in list_files(lake)) == 1
    assert len(list_files(lake)) == 2
    assert len(lake.names()) == 10


def test_old_versions_are_removed(lake: Lake) -> None:
    property_name = {
        "iceberg": ("history.expire.max-snapshot-age-ms", "0"),
        "delta": ("delta.deletedFileRetentionDuration", "interval 0 seconds"),
    }[lake.kind]
    writer = lake.writer(layout=TableLayout(properties=dict([property_name])))
    for number in range(5):
        writer.write(row(number, "a"), start=number)
    threading.Event().wait(0.01)  # versions have the age of at least a millisecond
    result = maintain_table(lake.open())
    if lake.kind == "iceberg":
        assert len(lake.open().load([]).handle.snapshots()) == 1
        assert "expired 5 snapshots" in result
        assert list_unreferenced(lake) == set()
    else:
        assert "deleted 5 files" in result
        assert len(list((lake.path / "orders").glob("*.parquet"))) == 1
    assert (len(lake.names()), lake.offset()) == (5, 5)


def test_removed_files_that_are_in_no_checkpoint_are_deleted(tmp_path: Path) -> None:
    lake = Lake("delta", tmp_path)
    properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    writer = lake.writer(layout=TableLayout(properties=properties))
    for number in range(5):
        writer.write(row(0, f"version {number}"), start=number)
    threading.Event().wait(0.01)  # versions have the age of at least a millisecond
    lake.open().load([]).handle.create_checkpoint()
    maintain_table(lake.open())
    assert len(list((lake.path / "orders").glob("*.parquet"))) == 1
    assert lake.names() == {0: "version 4"}


def test_files_of_a_table_below_another_one_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake, other = Lake("delta", tmp_path), Lake("delta", tmp_path / "orders")
    layout = TableLayout(properties={"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    for number in range(2):
        lake.writer(layout=layout).write(row(0, f"version {number}"), start=number)
        other.writer(layout=layout).write(row(0, f"other {number}"), start=number)
    threading.Event().wait(0.01)  # versions have the age of at least a millisecond
    maintain_table(lake.open())
    assert "may belong to another table" in caplog.text
    assert len(list((lake.path / "orders").glob("*.parquet"))) == 1
    assert (lake.names(), other.names()) == ({0: "version 1"}, {0: "other 1"})


def list_unreferenced(lake: Lake) -> set[str]:
    """Return the files in the warehouse that no snapshot of the Iceberg table has, without metadata files."""
    table = lake.open().load([]).handle
    stored = {path.as_uri() for path in (lake.path / "warehouse").glob("**/*.*")}
    return {
        path
        for path in stored - list_snapshot_files(table.snapshots(), table.io)
        if "metadata.json" not in path
    }


def test_files_of_remaining_snapshots_stay(tmp_path: Path) -> None:
    lake = Lake("iceberg", tmp_path)
    writer = lake.writer(layout=TableLayout(properties={"history.expire.max-snapshot-age-ms": "0"}))
    writer.write(row(0, "a"))
    table = lake.open().load([]).handle
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "first").commit()
    for number in range(1, 6):
        writer.write(row(number, "a"), row(0, f"version {number}"), start=2 * number)
    threading.Event().wait(0.01)  # versions have the age of at least a millisecond
    maintain_table(lake.open())
    table = lake.open().load([]).handle
    assert len(table.snapshots()) == 2
    assert list_unreferenced(lake) == set()
    assert table.scan(snapshot_id=table.refs()["first"].snapshot_id).to_arrow().num_rows == 1
    assert lake.names()[0] == "version 5"


def test_files_that_other_tables_may_have_stay(tmp_path: Path) -> None:
    lake = Lake("iceberg", tmp_path)
    properties = {"history.expire.max-snapshot-age-ms": "0", "gc.enabled": "false"}
    writer = lake.writer(layout=TableLayout(properties=properties))
    for number in range(5):
        writer.write(row(number, "a"), start=number)
    threading.Event().wait(0.01)  # versions have the age of at least a millisecond
    assert "expired 5 snapshots, deleted 0 files" in maintain_table(lake.open())
    assert len([path for path in list_unreferenced(lake) if path.endswith(".parquet")]) == 5


def test_commit_that_reads_a_deleted_file_is_a_conflict(tmp_path: Path) -> None:
    lake = Lake("iceberg", tmp_path)
    writer = lake.writer(layout=TableLayout(properties={"history.expire.max-snapshot-age-ms": "0"}))
    writer.write(row(0, "a"))
    table = lake.open()
    state = table.load([])
    writer.write(row(0, "b"), start=1)
    threading.Event().wait(0.01)  # versions have the age of at least a millisecond
    assert "deleted" in maintain_table(lake.open())
    assert state.schema is not None
    changes = Changes(rows=pa.table({"id": [0], "name": ["c"]}, state.schema), key=("id",))
    with pytest.raises(Conflict, match="orders"):
        table.commit(state, state.schema, changes, {}, lambda: None)
    assert lake.names() == {0: "b"}


def test_missing_file_of_the_latest_version_is_an_error(tmp_path: Path) -> None:
    lake = Lake("iceberg", tmp_path)
    writer = lake.writer()
    writer.write(row(0, "a"))
    for path in (lake.path / "warehouse").glob("**/*.parquet"):
        path.unlink()
    with pytest.raises(FileNotFoundError):
        writer.write(row(0, "b"), start=1)


def test_file_that_cannot_be_deleted_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake("iceberg", tmp_path)
    writer = lake.writer(layout=TableLayout(properties={"history.expire.max-snapshot-age-ms": "0"}))
    for number in range(5):
        writer.write(row(number, "a"), start=number)
    threading.Event().wait(0.01)  # versions have the age of at least a millisecond
    monkeypatch.setattr(PyArrowFileIO, "delete", lambda *_: raise_error(OSError("no access")))
    assert "deleted 0 files" in maintain_table(lake.open())
    assert re.search(r"Failed to delete 1\d files, .* such as file:.*: no access", caplog.text)
    assert (len(lake.names()), lake.offset()) == (5, 5)


def raise_error(error: Exception) -> None:
    raise error


def test_hundreds_of_small_commits_leave_few_files(tmp_path: Path) -> None:
    lake = Lake("iceberg", tmp_path)
    properties = {
        "history.expire.max-snapshot-age-ms": "0",
        "write.metadata.previous-versions-max": "5",
    }
    writer = lake.writer("append", layout=TableLayout(properties=properties))
    for number in range(120):
        writer.write(row(number, "a"), start=number)
        if number % 20 == 19:
            threading.Event().wait(0.01)  # versions have the age of at least a millisecond
            maintain_table(lake.open())
    assert len(list((lake.path / "warehouse").glob("**/*.*"))) < 60
    assert (len(lake.names()), lake.offset()) == (120, 120)


def test_table_that_does_not_exist_is_not_created(lake: Lake) -> None:
    assert maintain_table(lake.open())
    assert lake.open().load([]).handle is None


def test_commits_and_maintenance_do_not_lose_rows(lake: Lake) -> None:
    is_done, errors = threading.Event(), list[BaseException]()

    def maintain() -> None:
        while not is_done.is_set():
            try:
                maintain_table(lake.open())
            except Conflict:
                continue
            except Exception as exc:  # noqa: BLE001 - reported by the main thread
                errors.append(exc)
                return

    def pause(delay_s: float) -> None:
        is_done.wait(delay_s)

    lake.writer("append").write(row(0, "a"))
    thread = threading.Thread(target=maintain)
    thread.start()
    writer = lake.writer("append")
    writer.writer._sleep = pause
    for number in range(1, 13):
        writer.write(row(number, "a"), start=number)
    is_done.set()
    thread.join(TIMEOUT_S)
    assert errors == []
    assert (sorted(lake.names()), lake.offset()) == (list(range(13)), 13)


def test_conflict_is_retried_a_few_times() -> None:
    table: Any = FakeTable(Conflict(), Conflict())
    assert maintain_table(table) == "done"
    with pytest.raises(Conflict):
        maintain_table(FakeTable(*(Conflict() for _ in range(9))))  # type: ignore[arg-type]


def test_maintenance_starts_after_the_interval_and_not_twice() -> None:
    now_s = 100.0
    table: Any = FakeTable()
    table.may_end.clear()
    maintenance = Maintenance(60.0, lambda _: nullcontext(table), lambda: now_s)
    maintenance.start_if_due(lambda: ["t"])
    assert table.count == 0
    now_s += 60
    maintenance.start_if_due(lambda: ["t"])
    now_s += 60
    maintenance.start_if_due(lambda: pytest.fail("the last run has not finished"))
    table.may_end.set()
    wait_for_end(maintenance)
    assert table.count == 1
    maintenance.start_if_due(lambda: ())
    assert table.count == 1, "no table is maintained by this task"
    for pause_s in (60, 86_400):
        now_s += pause_s
        maintenance.start_if_due(lambda: ["t"])
        wait_for_end(maintenance)
    assert table.removals == [True, False, True], "unused files are removed once a day"
    maintenance.stop()


def test_interval_of_zero_disables_maintenance() -> None:
    maintenance = Maintenance(0.0, lambda _: pytest.fail("opened"), lambda: 1e9)
    maintenance.start_if_due(lambda: pytest.fail("listed"))
    maintenance.stop()


def test_failed_maintenance_is_logged_and_other_tables_follow(caplog: pytest.LogCaptureFixture) -> None:
    tables: dict[str, Any] = {"a": FakeTable(OSError("disk full")), "b": FakeTable()}
    now_s = 0.0
    maintenance = Maintenance(1.0, lambda name: nullcontext(tables[name]), lambda: now_s)
    now_s = 2.0
    with caplog.at_level(logging.INFO, "kraal.connectors.tables.maintenance"):
        maintenance.start_if_due(lambda: ["a", "b"])
        wait_for_end(maintenance)
    assert "a: Maintenance has failed and is repeated later: disk full" in caplog.text
    assert tables["b"].count == 1
