"""Metrics of this worker's group membership: rebalances and assigned work.

Source: DistributedHerder.HerderMetrics, WorkerCoordinatorMetrics (Kafka 4.4.0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kraal.metrics.windows import Sampled, Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetrics:
    """Metrics of a group membership. Times are monotonic seconds."""

    rebalance_ms: Sampled
    """Durations of completed rebalances."""
    completed_count: int = 0
    began_s: float | None = None
    """Start of the current rebalance."""
    ended_s: float | None = None
    """End of the last rebalance."""
    waiting_since_s: float | None = None
    """Time since which the worker waits for an assignment: its start, the start of the first rebalance that has not
    completed, or the loss of the coordinator."""
    connectors: int = 0
    tasks: int = 0
    """Number of tasks assigned to this worker."""

    @property
    def has_begun(self) -> bool:
        """Whether there was a rebalance."""
        return self.completed_count > 0 or self.began_s is not None

    def on_rebalance_began(self, now_s: float) -> GroupMetrics:
        """Record the start of a rebalance, which supersedes a rebalance in progress."""
        return replace(self.on_waiting(now_s), began_s=now_s)

    def on_waiting(self, now_s: float) -> GroupMetrics:
        """Record that the worker waits for an assignment. No-op if it already does."""
        return replace(self, waiting_since_s=now_s if self.waiting_since_s is None else self.waiting_since_s)

    def on_rebalance_ended(self, now_s: float) -> GroupMetrics:
        """Record the end of a rebalance, when the assignment can be applied. No-op without a rebalance."""
        if self.began_s is None:
            return self if self.waiting_since_s is None else replace(self, waiting_since_s=None)
        return replace(
            self,
            waiting_since_s=None,
            rebalance_ms=self.rebalance_ms.record((now_s - self.began_s) * 1000, now_s),
            completed_count=self.completed_count + 1,
            began_s=None,
            ended_s=now_s,
        )


def no_rebalance(windows: Windows, now_s: float) -> GroupMetrics:
    """Return the metrics of a member that has not joined yet."""
    return GroupMetrics(rebalance_ms=Sampled(windows), waiting_since_s=now_s)
