"""The capability of a source connector whose records can be read again, so that their delivery can be proved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kraal.core.offsets import Offset, SourcePartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReplay:
    """How to read all records of a source again.

    The runtime starts second instances of the connector's tasks without stored offsets. Their records are processed and
    compared with the topics, but not written, and no offsets are stored. These tasks must not change anything outside
    of the process.

    With an `offset_key`, the runtime calls `poll` of each task until it returns None, and may do so again later. A
    batch with a table must contain all data that was available when it was polled. Without an `offset_key`, the runtime
    calls `SourceTask.read_range`.
    """

    offset_key: Callable[[Offset], Any] | None = None
    """Returns the sort key of an offset. Within a source partition, later offsets have greater keys."""
    keeps_records: bool
    """Whether the source keeps its records unchanged. If not, repeated and unexpected records are not searched."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings that replace those of the task configs, such as those that disable effects outside of the process."""

    def is_after(
        self, offsets: Mapping[SourcePartition, Offset | None], others: Mapping[SourcePartition, Offset]
    ) -> bool:
        """Return whether no partition has an offset before the other one; None is before all other offsets."""
        key = self.offset_key
        assert key is not None  # noqa: S101 - only tasks that are polled have offsets to compare
        return all(
            partition not in others or (offset is not None and key(offset) >= key(others[partition]))
            for partition, offset in offsets.items()
        )
