"""The latest rebalances of the group, as seen by one worker. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraal.cluster.assignment.leader import GroupPlan
from kraal.core.ids import Generation, Json

MAX_REBALANCES: Final = 10
"""Maximum number of recent rebalances that a worker stores."""
MAX_REASON_LENGTH: Final = 1_000
"""Maximum length of a reason, in characters; a reason may list all workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One rebalance in which this worker received an assignment."""

    generation: Generation
    completed_ms: int
    """Wall-clock time at which this worker received its assignment."""
    leader_url: str | None
    reason: str | None
    """Reason for the rebalance; None except on the leader."""
    delay_ms: int | None
    """Delay until the next rebalance; None except on the leader."""

    def to_json(self) -> dict[str, Json]:
        """Return the fields in REST order."""
        return {
            "generation": self.generation,
            "completed_ms": self.completed_ms,
            "leader": self.leader_url,
            "reason": self.reason,
            "delay_ms": self.delay_ms,
        }


def describe_rebalance(
    plan: GroupPlan | None, *, generation: Generation, leader_url: str | None, now_ms: int
) -> Rebalance:
    """Describe a completed rebalance; `plan` is set if this worker is the leader."""
    return Rebalance(
        generation=generation,
        completed_ms=now_ms,
        leader_url=leader_url,
        reason=None if plan is None else _truncate(plan.why),
        delay_ms=None if plan is None else plan.delay_ms,
    )


def with_latest(rebalances: tuple[Rebalance, ...], latest: Rebalance) -> tuple[Rebalance, ...]:
    """Return `rebalances` with `latest` first, limited to `MAX_REBALANCES`."""
    return (latest, *rebalances)[:MAX_REBALANCES]


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_REASON_LENGTH else f"{text[: MAX_REASON_LENGTH - 1]}…"
