"""Components of a worker that tasks require and that are down, such as Spark or the JVM of Java plugins. Pure.

The group is down if the worker has waited for an assignment longer than the stall timeout. The statuses of connectors
and tasks may then be RUNNING although no worker runs them, because the worker cannot write other statuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kraal.metrics.registry import MetricsRegistry

GROUP: Final = "group"
GROUP_REASON: Final = "the rebalance of the group has not completed, or its coordinator does not respond"
NOT_JOINED_REASON: Final = (
    "this worker has not joined the group yet, because Spark is starting or the group's coordinator does not "
    "respond"
)


@dataclass(frozen=True, slots=True)
class DownPart:
    """A component that is down."""

    name: str
    """`spark`, `lane`, `group`, `plugins-jvm`, or `plugins-jvm:CONNECTOR`."""
    since_s: float
    """Start of the outage, in monotonic seconds."""
    why: str


def find_group_outage(metrics: MetricsRegistry) -> Sequence[DownPart]:
    """Return the group if the worker has waited for an assignment longer than the stall timeout."""
    group, timeout_s = metrics.group, metrics.stall_timeout_s
    if group is None or group.waiting_since_s is None:
        return ()
    is_overdue = 0 < timeout_s < metrics.time.now() - group.waiting_since_s
    reason = GROUP_REASON if group.has_begun else NOT_JOINED_REASON
    return (DownPart(GROUP, group.waiting_since_s, reason),) if is_overdue else ()
