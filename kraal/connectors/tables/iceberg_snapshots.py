"""Transactions and snapshots of Iceberg tables whose cost hardly grows with the number of commits. Loads pyiceberg."""

from __future__ import annotations

from typing import Any, Final

from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles
from typing_extensions import override

_DEFAULT_TARGET_BYTES: Final = 8 * 1024 * 1024
_DEFAULT_MIN_COUNT: Final = 100


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
    commit would grow with the number of earlier commits. Like Iceberg's library in Java, this class omits such
    manifests, and merges the others as `commit.manifest-merge.enabled` and related properties of the table require.
    """

    def __init__(self, transaction: Any, properties: dict[str, str]) -> None:
        """Create a snapshot with these properties on the main branch; commit it by leaving the context."""
        is_first = transaction.table_metadata.current_snapshot() is None
        super().__init__(
            operation=Operation.APPEND if is_first else Operation.OVERWRITE,
            transaction=transaction,
            io=transaction._table.io,  # noqa: SLF001 - as UpdateSnapshot does
            snapshot_properties=properties,
        )

    @override
    def _process_manifests(self, manifests: list[Any]) -> list[Any]:
        metadata = self._transaction.table_metadata
        mergeable, others = list[Any](), list[Any]()
        for manifest in filter(self._is_needed, manifests):
            is_data = manifest.content == ManifestContent.DATA
            is_current = manifest.partition_spec_id == metadata.default_spec_id
            (mergeable if is_data and is_current else others).append(manifest)
        minimum = int(metadata.properties.get("commit.manifest.min-count-to-merge", _DEFAULT_MIN_COUNT))
        size = int(metadata.properties.get("commit.manifest.target-size-bytes", _DEFAULT_TARGET_BYTES))
        is_enabled = str(metadata.properties.get("commit.manifest-merge.enabled", "true")).lower() != "false"
        merger = _ManifestMergeManager(
            target_size_bytes=size,
            min_count_to_merge=minimum,
            merge_enabled=is_enabled and len(mergeable) >= minimum,
            snapshot_producer=self,
        )
        return [*merger.merge_manifests(mergeable), *others]

    def _is_needed(self, manifest: Any) -> bool:
        """Return whether a manifest lists files of the table, or files that this snapshot has removed."""
        is_new = manifest.added_snapshot_id == self._snapshot_id
        return bool(is_new or manifest.has_added_files() or manifest.has_existing_files())
