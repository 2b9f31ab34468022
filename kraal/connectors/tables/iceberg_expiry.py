"""Removes the snapshots of an Iceberg table that have expired, with their files.

pyiceberg removes snapshots from the metadata only, and chooses them by age alone. Here, a snapshot of a branch expires
when a later one has replaced it for `history.expire.max-snapshot-age-ms`, except for the latest
`history.expire.min-snapshots-to-keep` snapshots. Branches may have values of their own. Tagged snapshots do not expire.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraal.connectors.tables.table import Conflict

log = logging.getLogger(__name__)

_MAX_AGE: Final = "history.expire.max-snapshot-age-ms"
_MAX_AGE_MS: Final = 432_000_000
"""The default in Iceberg: five days."""
_MIN_SNAPSHOTS: Final = "history.expire.min-snapshots-to-keep"
_MAY_DELETE: Final = "gc.enabled"
"""Iceberg's property that is false if other tables may have the same files."""
_BRANCH: Final = "branch"


@dataclass(frozen=True, slots=True)
class Expired:
    """Snapshots that have expired, and what remains without them."""

    ids: frozenset[int]
    files: frozenset[str]
    """The files that only these snapshots have, unless other tables may have them."""
    heads: Mapping[str, int]
    """The snapshots of all branches and tags when the files were listed."""


def find_expired(table: Any) -> Expired:
    """Find the snapshots that have expired now, and their files. Raises the errors of pyiceberg and the storage."""
    metadata = table.metadata
    snapshots = choose_expired(metadata, time.time_ns() // 1_000_000)
    ids, files = frozenset(snapshot.snapshot_id for snapshot in snapshots), set[str]()
    if snapshots and may_delete(table):
        files = list_files(snapshots, table.io) - list_files(_choose_compared(metadata, snapshots), table.io)
        statistics = [*metadata.statistics, *metadata.partition_statistics]
        files.update(file.statistics_path for file in statistics if file.snapshot_id in ids)
    return Expired(ids, frozenset(files), {name: ref.snapshot_id for name, ref in metadata.refs.items()})


def expire_snapshots(table: Any, expired: Expired) -> None:
    """Remove expired snapshots from the metadata.

    Commits may have been added since the files of the snapshots were listed, because a commit keeps or removes files
    of its parent, and adds new ones. Raises Conflict if another maintenance has removed a snapshot, or if a branch or
    a tag was changed in another way; CommitFailedException if the table has changed since it was loaded.
    """
    from pyiceberg.table.update import AssertRefSnapshotId  # noqa: PLC0415 - heavy
    from pyiceberg.table.update.snapshot import ExpireSnapshots  # noqa: PLC0415 - heavy

    from kraal.connectors.tables.iceberg_snapshots import TableTransaction  # noqa: PLC0415 - as above

    metadata = table.metadata
    existing = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    referenced = {ref.snapshot_id for ref in metadata.refs.values()}
    if (
        not expired.ids <= existing
        or expired.ids & referenced
        or not _has_only_new_commits(metadata, expired.heads)
    ):
        raise Conflict(f"{table.name()}: the snapshots, branches or tags have changed")
    update = ExpireSnapshots(TableTransaction(table, autocommit=True))
    # Without requirements, a branch that was moved to one of the snapshots meanwhile would be removed with it.
    update._requirements += tuple(  # noqa: SLF001 - pyiceberg requires nothing
        AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": ref.snapshot_id})
        for name, ref in metadata.refs.items()
    )
    update.by_ids(sorted(expired.ids))
    try:
        update.commit()
    except ValueError as exc:  # another maintenance has removed a snapshot since the table was loaded
        raise Conflict(f"{table.name()}: the snapshots cannot be removed: {exc}") from exc


def _has_only_new_commits(metadata: Any, heads: Mapping[str, int]) -> bool:
    """Return whether each branch and tag of `heads` still has its snapshot, or later ones."""
    return all(
        name in metadata.refs
        and any(each.snapshot_id == head for each in _list_ancestors(metadata, metadata.refs[name]))
        for name, head in heads.items()
    )


def choose_expired(metadata: Any, now_ms: int) -> list[Any]:
    """Return the snapshots that have expired at a time. Pure."""
    properties = metadata.properties
    max_age_ms = int(properties.get(_MAX_AGE, _MAX_AGE_MS))
    retained = {ref.snapshot_id for ref in metadata.refs.values()}
    for ref in _list_branches(metadata):
        replaced_ms = now_ms
        minimum = ref.min_snapshots_to_keep or int(properties.get(_MIN_SNAPSHOTS, 1))
        first_ms = now_ms - (ref.max_snapshot_age_ms or max_age_ms)
        for number, snapshot in enumerate(_list_ancestors(metadata, ref)):
            if number < minimum or replaced_ms > first_ms:
                retained.add(snapshot.snapshot_id)
            replaced_ms = snapshot.timestamp_ms
    on_branches = _list_ids_of_branches(metadata)
    return [
        snapshot
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in retained
        and (snapshot.snapshot_id in on_branches or snapshot.timestamp_ms < now_ms - max_age_ms)
    ]


def _list_branches(metadata: Any) -> list[Any]:
    return [ref for ref in metadata.refs.values() if ref.snapshot_ref_type == _BRANCH]


def _list_ancestors(metadata: Any, ref: Any) -> Iterator[Any]:
    """Yield the snapshot of a branch, its parent, and so on."""
    snapshot_id = ref.snapshot_id
    while snapshot_id is not None and (snapshot := metadata.snapshot_by_id(snapshot_id)) is not None:
        yield snapshot
        snapshot_id = snapshot.parent_snapshot_id


def _list_ids_of_branches(metadata: Any) -> set[int]:
    return {
        snapshot.snapshot_id
        for ref in _list_branches(metadata)
        for snapshot in _list_ancestors(metadata, ref)
    }


def _choose_compared(metadata: Any, expired: Sequence[Any]) -> list[Any]:
    """Return the remaining snapshots that may have files of expired ones.

    Of consecutive remaining snapshots, the first one has all files of its ancestors that any of them has, because a
    commit keeps or removes files of its parent, and adds new ones. The last one is compared as well, in case files were
    added again. The files of a snapshot that belongs to no branch may have been added to any other one.
    """
    expired_ids = {snapshot.snapshot_id for snapshot in expired}
    remaining = {each.snapshot_id: each for each in metadata.snapshots if each.snapshot_id not in expired_ids}
    if not expired_ids <= _list_ids_of_branches(metadata):
        return list(remaining.values())
    heads = {ref.snapshot_id for ref in metadata.refs.values()}
    return [
        snapshot
        for snapshot_id, snapshot in remaining.items()
        if snapshot_id in heads or snapshot.parent_snapshot_id not in remaining
    ]


def list_files(snapshots: Iterable[Any], io: Any) -> set[str]:
    """Return the paths of the manifest lists, manifests, data files and delete files of snapshots."""
    manifest_lists = {snapshot.manifest_list: snapshot for snapshot in snapshots}
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in manifest_lists.values()
        for manifest in snapshot.manifests(io)
    }
    files = {
        entry.data_file.file_path
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(io)
    }
    return {*manifest_lists, *manifests, *files}


def may_delete(table: Any) -> bool:
    """Return whether no other table has files of this one, according to its property `gc.enabled`."""
    return str(table.properties.get(_MAY_DELETE, "true")).lower() != "false"


def delete_files(io: Any, paths: Iterable[str]) -> int:
    """Delete files; return the number of deleted ones."""
    deleted_count, errors = 0, list[str]()
    for path in sorted(paths):
        try:
            io.delete(path)
            deleted_count += 1
        except FileNotFoundError:
            continue
        except Exception as exc:  # noqa: BLE001 - the storage may raise anything, and the table is intact
            errors.append(f"{path}: {exc}")
    if errors:
        log.warning(
            "Failed to delete %d files, which no snapshot of the table has, such as %s",
            len(errors),
            errors[0],
        )
    return deleted_count
