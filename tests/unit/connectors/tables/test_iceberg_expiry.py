"""Tests for the choice of the snapshots of an Iceberg table that have expired, and for their removal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException

from kraal.connectors.tables import iceberg
from kraal.connectors.tables.iceberg_expiry import Expired, choose_expired, expire_snapshots, find_expired
from kraal.connectors.tables.layout import TableLayout
from kraal.connectors.tables.maintenance import maintain_table
from kraal.connectors.tables.table import Conflict
from tests.fakes.tables.records import row
from tests.unit.connectors.tables.conftest import Lake

AGE_MS = 100


def make_ref(snapshot: int, kind: str = "branch", **values: int) -> Any:
    values = {"min_snapshots_to_keep": 0, "max_snapshot_age_ms": 0, **values}
    return SimpleNamespace(snapshot_id=snapshot, snapshot_ref_type=kind, **values)


def expire(
    snapshots: Mapping[int, tuple[int | None, int]],
    refs: Mapping[str, Any],
    now_ms: int,
    **properties: str,
) -> list[int]:
    """Return the ids of expired snapshots; `snapshots` contains the parent and the time of each."""
    items = {
        number: SimpleNamespace(snapshot_id=number, parent_snapshot_id=parent, timestamp_ms=time_ms)
        for number, (parent, time_ms) in snapshots.items()
    }
    names = {"age": "history.expire.max-snapshot-age-ms", "minimum": "history.expire.min-snapshots-to-keep"}
    metadata = SimpleNamespace(
        properties={names[name]: value for name, value in {"age": str(AGE_MS), **properties}.items()},
        snapshots=list(items.values()),
        snapshot_by_id=items.get,
        refs=refs,
    )
    return [snapshot.snapshot_id for snapshot in choose_expired(metadata, now_ms)]


CHAIN = {1: (None, 0), 2: (1, 10), 3: (2, 500), 4: (3, 550)}


@pytest.mark.parametrize(
    ("now_ms", "expected"),
    [(560, [1]), (599, [1]), (600, [1, 2]), (649, [1, 2]), (650, [1, 2, 3]), (10_000, [1, 2, 3])],
)
def test_snapshot_expires_after_it_was_replaced(now_ms: int, expected: list[int]) -> None:
    assert expire(CHAIN, {"main": make_ref(4)}, now_ms) == expected


def test_latest_snapshots_are_kept() -> None:
    assert expire(CHAIN, {"main": make_ref(4)}, 10_000, minimum="3") == [1]
    assert expire(CHAIN, {"main": make_ref(4, min_snapshots_to_keep=2)}, 10_000, minimum="4") == [1, 2]


def test_branch_may_keep_its_snapshots_longer() -> None:
    refs = {"main": make_ref(4), "audit": make_ref(3, max_snapshot_age_ms=1000)}
    assert expire(CHAIN, refs, 1400) == [1]
    assert expire(CHAIN, refs, 1600) == [1, 2]


def test_tagged_snapshot_is_kept() -> None:
    assert expire(CHAIN, {"main": make_ref(4), "first": make_ref(1, "tag")}, 10_000) == [2, 3]


def test_snapshot_of_no_branch_expires_by_its_own_age() -> None:
    snapshots = {**CHAIN, 5: (3, 560)}
    refs = {"main": make_ref(4)}
    assert 5 not in expire(snapshots, refs, 660)
    assert 5 in expire(snapshots, refs, 661)


def make_lake(path: Path, **properties: str) -> Lake:
    """Return a table with three snapshots, of which two have expired."""
    lake = Lake("iceberg", path)
    layout = TableLayout(properties={"history.expire.max-snapshot-age-ms": "0", **properties})
    writer = lake.writer(layout=layout)
    for number in range(3):
        writer.write(row(0, f"version {number}"), start=number)
    threading.Event().wait(0.01)  # versions have the age of at least a millisecond
    return lake


def load(lake: Lake) -> Any:
    """Return the library's table."""
    return lake.open().load([]).handle


def list_paths(lake: Lake) -> set[Path]:
    """Return the files of all snapshots, not those of the metadata."""
    return {path for path in (lake.path / "warehouse").glob("**/*.*") if path.suffix != ".json"}


def interrupt_expiry(monkeypatch: pytest.MonkeyPatch, interrupt: Callable[[], object]) -> None:
    """Call a function once between the search for expired snapshots and their removal."""
    interruptions = [interrupt]

    def find(table: Any) -> Expired:
        expired = find_expired(table)
        if interruptions:
            interruptions.pop()()
        return expired

    monkeypatch.setattr(iceberg, "find_expired", find)


def test_commit_during_an_expiry_does_not_repeat_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake(tmp_path)
    interrupt_expiry(monkeypatch, lambda: lake.writer().write(row(0, "version 3"), start=3))
    assert "expired 2 snapshots, deleted 7 files" in lake.open().maintain()
    assert lake.names() == {0: "version 3"}
    assert len(load(lake).snapshots()) == 2


def test_branch_that_was_moved_meanwhile_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(tmp_path)
    files = list_paths(lake)

    def roll_back() -> None:
        table = load(lake)
        table.manage_snapshots().rollback_to_snapshot(table.snapshots()[-2].snapshot_id).commit()

    interrupt_expiry(monkeypatch, roll_back)
    with pytest.raises(Conflict, match="have changed"):
        lake.open().maintain()
    assert list_paths(lake) >= files
    assert lake.names() == {0: "version 1"}


def test_expired_snapshot_that_was_tagged_meanwhile_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake(tmp_path)
    files = list_paths(lake)
    first = load(lake).snapshots()[0].snapshot_id
    interrupt_expiry(monkeypatch, lambda: load(lake).manage_snapshots().create_tag(first, "first").commit())
    with pytest.raises(Conflict, match="have changed"):
        lake.open().maintain()
    assert list_paths(lake) >= files
    assert load(lake).scan(snapshot_id=first).to_arrow().num_rows == 1


@pytest.mark.parametrize("may_delete", ["true", "false"])
def test_snapshots_that_another_maintenance_has_removed_are_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may_delete: str
) -> None:
    lake = make_lake(tmp_path, **{"gc.enabled": may_delete})
    other = lake.open()
    interrupt_expiry(monkeypatch, lambda: expire_snapshots(load(lake), find_expired(load(lake))))
    with pytest.raises(Conflict, match="have changed"):
        other.maintain()
    assert lake.names() == {0: "version 2"}
    assert "expired 0 snapshots" in maintain_table(other)


def test_commit_between_load_and_removal_is_a_conflict(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    table = load(lake)
    expired = find_expired(table)
    lake.writer().write(row(0, "version 3"), start=3)
    with pytest.raises(CommitFailedException, match="main"):
        expire_snapshots(table, expired)
    assert len(load(lake).snapshots()) == 4
