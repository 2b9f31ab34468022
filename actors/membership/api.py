"""Interface of the herder to its group, implemented by `SingleNode` and `ClusterMembership`."""

from __future__ import annotations

from typing import Protocol


class Membership(Protocol):
    """Group operations that the herder needs; in a cluster, an actor executes them.

    Thread-safe; no method blocks.
    """

    def begin(self) -> None:
        """Deliver the assignment as soon as it is valid; called when the herder is live, possibly after a restart."""

    def on_work_changed(self) -> None:
        """Report that the published connectors or tasks changed and that removed instances have stopped."""

    def on_config_read(self, offset: int) -> None:
        """Report that the published snapshot covers the config log up to `offset`, which an assignment may require."""

    def on_stopped(self, number: int) -> None:
        """Report that all work revoked by `WorkRevoked` message `number` has stopped, with its statuses written."""

    def on_alive(self, number: int) -> None:
        """Report that the herder has received the `HerderTick` with this number."""
