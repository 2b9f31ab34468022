"""Tests for the choice of the snapshots of an Iceberg table that have expired, and for their removal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException

from kraal.connectors.tables.iceberg_expiry import choose_expired, expire_snapshots
from kraal.connectors.tables.layout import TableLayout
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


def test_branch_that_was_moved_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    lake = Lake("iceberg", tmp_path)
    writer = lake.writer(layout=TableLayout(properties={"history.expire.max-snapshot-age-ms": "0"}))
    for number in range(3):
        writer.write(row(number, "a"), start=number)
    table, other = (lake.open().load([]).handle for _ in range(2))
    other.manage_snapshots().rollback_to_snapshot(other.snapshots()[-2].snapshot_id).commit()
    files = {path for path in (lake.path / "warehouse").glob("**/*.*") if path.suffix != ".json"}
    with pytest.raises(CommitFailedException, match="main"):
        expire_snapshots(table)
    assert files <= set((lake.path / "warehouse").glob("**/*.*"))
    assert len(lake.names()) == 2


def test_snapshots_that_another_maintenance_has_removed_are_a_conflict(tmp_path: Path) -> None:
    lake = Lake("iceberg", tmp_path)
    writer = lake.writer(layout=TableLayout(properties={"history.expire.max-snapshot-age-ms": "0"}))
    for number in range(3):
        writer.write(row(number, "a"), start=number)
    tables = [lake.open().load([]).handle for _ in range(2)]
    assert len(expire_snapshots(tables[0])) > 0
    with pytest.raises(Conflict):
        expire_snapshots(tables[1])
    assert len(lake.names()) == 3
