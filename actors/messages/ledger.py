"""Messages to the ledger keeper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.runtime.mailbox import Ask, Tell

if TYPE_CHECKING:
    from kraal.core.ids import ConnectorName, TaskId
    from kraal.core.offsets import SourcePartition
    from kraal.ledger.counts import BatchEntry
    from kraal.ledger.totals import PartitionTotals, TaskTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch(Tell):
    """Add a batch whose offsets are stored to the totals of its task and partitions."""

    task: TaskId
    run: int
    """Number of the run, unique in this process."""
    config_offset: int
    """Offset of the task's configs in the config log."""
    entry: BatchEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTotals(Tell):
    """Delete the totals of connectors that were deleted."""

    connectors: Mapping[ConnectorName, int]
    """The offset of each deletion in the config log. Tasks with later configs belong to a new connector."""
    is_leader: bool
    """Whether this worker deletes the records of all workers from the ledger's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainTotals(Tell):
    """Delete the totals of all connectors that the config log does not contain."""

    connectors: frozenset[ConnectorName]
    """The connectors before `config_offset`."""
    config_offset: int
    is_leader: bool
    """See `DeleteTotals`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """The totals of a connector."""

    tasks: Mapping[TaskId, TaskTotals]
    partitions: Mapping[SourcePartition, PartitionTotals]
    problem: str | None = None
    """Why totals may be missing: the log cannot be read or written; None if it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLedger(Ask[LedgerView]):
    """Return the totals of a connector, including those of batches that are not written yet."""

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class FlushLedger(Tell):
    """Write all totals that have changed."""


@dataclass(frozen=True, slots=True)
class CloseLedger(Ask[None]):
    """Write all totals that have changed, before the worker stops."""
