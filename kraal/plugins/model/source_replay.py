"""The capability of a source connector whose records can be read again, so that their delivery can be proved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kraal.core.offsets import Offset, SourcePartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReplay:
    """How to read all records of a source again.

    The runtime starts second instances of the connector's tasks without stored offsets. It calls `poll` of each task
    until it returns None, and may do so again later. The batches are processed and compared with the topics, but not
    written, and no offsets are stored. These tasks must not change anything outside of the process. A batch with a
    table must contain all data that was available when it was polled.
    """

    offset_key: Callable[[Offset], Any]
    """Returns the sort key of an offset. Within a source partition, later offsets have greater keys."""
    keeps_records: bool
    """Whether the source keeps its records unchanged. If not, repeated and unexpected records are not searched."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings that replace those of the task configs, such as those that disable effects outside of the process."""

    def is_after(
        self, offsets: Mapping[SourcePartition, Offset | None], others: Mapping[SourcePartition, Offset]
    ) -> bool:
        """Return whether no partition has an offset before the other one; None is before all other offsets."""
        return all(
            partition not in others
            or (offset is not None and self.offset_key(offset) >= self.offset_key(others[partition]))
            for partition, offset in offsets.items()
        )
