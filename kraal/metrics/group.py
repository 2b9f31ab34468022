"""What this worker's membership knows: rebalances, and what the group gave us.

Source: DistributedHerder.HerderMetrics, WorkerCoordinatorMetrics (Kafka 4.3.0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kraal.metrics.windows import Sampled, Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNumbers:
    """One picture of a membership. Times are monotonic seconds."""

    rebalance_ms: Sampled
    """Of rebalances that were completed."""
    completed: int = 0
    began_s: float | None = None
    """Since when a rebalance is under way."""
    ended_s: float | None = None
    """When the last one was completed."""
    connectors: int = 0
    tasks: int = 0
    """How many of each the group gave this worker."""

    def rebalance_began(self, now_s: float) -> GroupNumbers:
        """A rebalance begins; one that was under way has come to nothing."""
        return replace(self, began_s=now_s)

    def rebalance_ended(self, now_s: float) -> GroupNumbers:
        """What the group says can be carried out. Of no effect when no rebalance was under way."""
        if self.began_s is None:
            return self
        return replace(
            self,
            rebalance_ms=self.rebalance_ms.record((now_s - self.began_s) * 1000, now_s),
            completed=self.completed + 1,
            began_s=None,
            ended_s=now_s,
        )


def no_rebalance(windows: Windows) -> GroupNumbers:
    """Return the numbers of a member that has not joined yet."""
    return GroupNumbers(rebalance_ms=Sampled(windows))
