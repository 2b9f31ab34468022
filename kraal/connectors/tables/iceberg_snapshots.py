"""Transactions and snapshots of Iceberg tables whose cost hardly grows with the number of commits. Loads pyiceberg."""

from __future__ import annotations

from typing import Any, Final

from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Transaction
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles
from typing_extensions import override

_TARGET_BYTES: Final = 8 * 1024 * 1024
_MIN_MERGED: Final = 100
"""Iceberg's defaults of `commit.manifest.target-size-bytes` and `commit.manifest.min-count-to-merge`."""


class TableTransaction(Transaction):
    """A transaction that keeps the metadata with its changes.

    pyiceberg copies all snapshots in the metadata each time when a part of a commit reads the metadata.
    """

    _current: tuple[Any, int, Any] | None = None
    """The metadata of the table, the number of changes, and the metadata with these changes."""

    @property
    @override
    def table_metadata(self) -> Any:
        base, count = self._table.metadata, len(self._updates)
        if self._current is None or self._current[0] is not base or self._current[1] != count:
            self._current = (base, count, super().table_metadata)
        return self._current[2]


class ReplaceFiles(_OverwriteFiles):
    """Replaces data files, and keeps the number of manifests small.

    pyiceberg keeps all manifests, also those that only list files which an earlier snapshot has removed. The time of a
    commit would grow with the number of earlier commits. Iceberg's library in Java omits and merges them as well.
    """

    def __init__(self, transaction: Any, properties: dict[str, str]) -> None:
        """Create a snapshot with these properties on the main branch; commit it by leaving the context."""
        template = transaction.update_snapshot(snapshot_properties=properties).overwrite()
        super().__init__(
            operation=template._operation,  # noqa: SLF001 - so that the constructor of pyiceberg chooses it
            transaction=transaction,
            io=template._io,  # noqa: SLF001 - as above
            snapshot_properties=properties,
        )

    @override
    def _process_manifests(self, manifests: list[Any]) -> list[Any]:
        live = [manifest for manifest in manifests if self._is_needed(manifest)]
        data = [manifest for manifest in live if manifest.content == ManifestContent.DATA]
        merger = _ManifestMergeManager(
            target_size_bytes=_TARGET_BYTES,
            min_count_to_merge=_MIN_MERGED,
            merge_enabled=len(data) >= _MIN_MERGED,
            snapshot_producer=self,
        )
        return merger.merge_manifests(data) + [each for each in live if each not in data]

    def _is_needed(self, manifest: Any) -> bool:
        """Return whether a manifest lists files of this snapshot, or files that it has removed."""
        is_new = manifest.added_snapshot_id in {None, self._snapshot_id}
        return is_new or manifest.has_added_files() or manifest.has_existing_files()
