"""Messages to the ledger keeper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.runtime.mailbox import Ask, Tell
from actors.runtime.system import Begin

if TYPE_CHECKING:
    from kraal.core.ids import ConnectorName
    from kraal.core.offsets import SourcePartition
    from kraal.ledger.counts import BatchEntry
    from kraal.ledger.totals import Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch(Tell):
    """Add a batch whose offsets are stored to the totals of its partitions."""

    connector: ConnectorName
    run: int
    """Number of the run, unique in this process."""
    entries: Mapping[SourcePartition, BatchEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLedger(Ask[Mapping["SourcePartition", "Totals"]]):
    """Return the totals of a connector's partitions, including those of batches that are not written yet.

    Raises StoreError.
    """

    connector: ConnectorName


@dataclass(frozen=True, slots=True)
class FlushLedger(Tell):
    """Write all totals that have changed."""


LedgerMessage = Begin | RecordBatch | ShowLedger | FlushLedger
