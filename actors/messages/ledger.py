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
    entry: BatchEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """The totals of a connector."""

    tasks: Mapping[TaskId, TaskTotals]
    partitions: Mapping[SourcePartition, PartitionTotals]
    problem: str | None = None
    """Why the totals of other workers may be missing; None if they are complete."""


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
