"""Tests that files of failed commits are removed from an Iceberg table, and no others."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kraal.connectors.tables.iceberg_expiry import list_files
from kraal.connectors.tables.iceberg_orphans import MIN_AGE, remove_orphans
from kraal.connectors.tables.layout import TableLayout
from tests.fakes.tables.records import row
from tests.unit.connectors.tables.conftest import Lake

LATER = datetime.now(UTC) + MIN_AGE + timedelta(hours=1)
"""A time at which the files that the tests create are old enough."""


class Orphans:
    """A table with three commits, and the files that a commit which failed has left."""

    def __init__(self, path: Path, **properties: str) -> None:
        self.lake = Lake("iceberg", path)
        writer = self.lake.writer("append", layout=TableLayout(properties=properties))
        for number in range(3):
            writer.write(row(number, "a"), start=number)
        self.location = Path(self.load().location().removeprefix("file://"))
        self.used = self.list()
        self.files = {self.location / name for name in ("data/left.parquet", "metadata/left.avro")}
        for file in self.files:
            file.write_bytes(b"unused")
        metadata = self.location / "metadata" / "9-left.metadata.json"
        shutil.copy(self.load().metadata_location.removeprefix("file://"), metadata)
        self.files.add(metadata)

    def load(self) -> Any:
        return self.lake.open().load([]).handle

    def list(self) -> set[Path]:
        return {file for file in self.location.rglob("*") if file.is_file()}

    def remove(self, now: datetime | None = None) -> int:
        return remove_orphans(self.load(), self.load, now)


def test_old_files_of_no_version_are_deleted(tmp_path: Path) -> None:
    orphans = Orphans(tmp_path)
    other_file = orphans.location / "data" / "notes.txt"
    other_file.touch()
    assert orphans.remove(LATER) == 3
    assert orphans.list() == {*orphans.used, other_file}
    assert orphans.lake.names() == dict.fromkeys(range(3), "a")
    assert orphans.remove(LATER) == 0


def test_young_files_are_kept(tmp_path: Path) -> None:
    orphans = Orphans(tmp_path)
    assert orphans.remove() == 0
    assert orphans.files <= orphans.list()


def test_files_are_kept_if_other_tables_may_have_them(tmp_path: Path) -> None:
    orphans = Orphans(tmp_path, **{"gc.enabled": "false"})
    assert orphans.remove(LATER) == 0
    assert orphans.files <= orphans.list()


def test_files_committed_after_the_first_look_are_kept(tmp_path: Path) -> None:
    orphans = Orphans(tmp_path)
    table = orphans.load()
    orphans.lake.writer("append").write(row(3, "a"), start=3)
    assert remove_orphans(table, orphans.load, LATER) == 3
    assert orphans.lake.names() == dict.fromkeys(range(4), "a")


def test_files_of_a_renamed_table_are_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    orphans = Orphans(tmp_path)
    namespace, name = orphans.lake.open().name.split(".")
    catalog = orphans.lake.open_catalog()
    catalog.rename_table((namespace, name), (namespace, "former"))
    orphans.lake.writer("append").write(row(7, "b"))  # a new table at the same location
    table = orphans.load()
    used = {file.removeprefix("file://") for file in list_files(table.snapshots(), table.io)}
    for file in orphans.list() - set(map(Path, used)):
        if file.suffix != ".json":  # the metadata of the other table are young
            os.utime(file, (0, 0))
    assert Path(orphans.load().location().removeprefix("file://")) == orphans.location
    assert orphans.remove() == 0
    assert "belongs to another table" in caplog.text
    assert catalog.load_table((namespace, "former")).scan().to_arrow().num_rows == 3


def test_files_are_kept_if_the_table_has_another_location(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphans = Orphans(tmp_path)
    table = orphans.load()
    monkeypatch.setattr(table, "metadata_location", "file:///elsewhere/1.metadata.json")
    assert remove_orphans(table, orphans.load, LATER) == 0
    assert remove_orphans(table, lambda: None, LATER) == 0
    assert "the location of the table has no metadata" in caplog.text
