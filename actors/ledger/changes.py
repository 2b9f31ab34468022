"""Batches that are not part of the totals in the ledger's log yet, summed up by task and partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.ledger.counts import Range, RangeStart
from kraal.ledger.records import LedgerKey, LedgerTotals
from kraal.ledger.totals import NO_TOTALS, PartitionTotals, Span, TaskTotals, append_span

Partition = tuple[ConnectorName, SourcePartition]


@dataclass(slots=True)
class Changes:
    """The sums of batches."""

    tasks: dict[TaskId, TaskTotals] = field(default_factory=dict)
    spans: dict[Partition, list[Span]] = field(default_factory=dict)
    """The ranges of consecutive batches, in order."""

    def __bool__(self) -> bool:
        return bool(self.tasks or self.spans)

    def __contains__(self, key: LedgerKey) -> bool:
        return key in self.tasks if isinstance(key, TaskId) else key in self.spans

    def list_keys(self) -> list[LedgerKey]:
        """Return the tasks, then the partitions."""
        return [*self.tasks, *self.spans]

    def add_totals(self, task: TaskId, totals: TaskTotals) -> None:
        """Add the counts of a batch."""
        self.tasks[task] = self.tasks.get(task, NO_TOTALS) + totals

    def add_range(self, partition: Partition, covered: Range, *, is_hole: bool) -> None:
        """Add a range of a batch; `is_hole` is whether a range before it was left out, which is recorded elsewhere."""
        spans = self.spans.setdefault(partition, [])
        if spans and spans[-1].end == covered.start:
            spans[-1] = Span(spans[-1].start, covered.end, spans[-1].is_explained)
        else:
            is_explained = is_hole or covered.reason is RangeStart.SKIPPED
            spans.append(Span(covered.start, covered.end, is_explained))

    def add_to(self, totals: LedgerTotals | None, key: LedgerKey) -> LedgerTotals | None:
        """Return the totals of a task or partition with its changes; None if there are neither."""
        if isinstance(key, TaskId):
            changes = self.tasks.get(key)
            if changes is None or not isinstance(totals, TaskTotals):
                return changes or totals
            return totals + changes
        before = totals if isinstance(totals, PartitionTotals) else None
        return reduce(append_span, self.spans.get(key, ()), before)

    def remove(self, key: LedgerKey) -> None:
        """Remove the changes of a task or partition."""
        if isinstance(key, TaskId):
            self.tasks.pop(key, None)
        else:
            self.spans.pop(key, None)

    def move(self, key: LedgerKey, target: Changes) -> None:
        """Move the changes of a task or partition to `target`, which must have none."""
        if isinstance(key, TaskId):
            target.tasks[key] = self.tasks.pop(key)
        else:
            target.spans[key] = self.spans.pop(key)
