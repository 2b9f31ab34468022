"""Targets of sinks that are slow, or do not answer for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from scripts.chaos_run.kinds.groups import committed
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.pipes import MAX_POLL_S
from scripts.chaos_run.schedule import HeavyStep

SLEEP_S: Final = MAX_POLL_S + 2.0
"""How long each write takes: the group takes a member that is silent for so long for dead."""
HANGS_S: Final = 10.0
"""How long the next batch may take to come."""


def slow(scene: Scene, step: HeavyStep) -> Undo | None:
    """Have each batch of a sink take longer than its `max.poll.interval.ms`; batches must be committed nevertheless."""
    del step
    orders, pipe = scene.slow.orders, scene.slow
    bootstrap = scene.members.broker.bootstrap
    before, seen = committed(bootstrap, pipe), len(orders.written())
    orders.sleep(SLEEP_S)

    def undo() -> None:
        try:
            after, written = committed(bootstrap, pipe), orders.written()[seen:]
        finally:
            orders.release()
        if after == before and (again := repeated(written)):
            scene.broke(f"a slow sink wrote the same batch again and again, and committed nothing: {again}")

    return undo


def hang(scene: Scene, step: HeavyStep) -> Undo | None:
    """Have a sink's next batch hang."""
    del step
    orders = scene.slow.orders
    orders.hang()
    if scene.until(lambda: bool(orders.hanging()), HANGS_S):
        return orders.release
    orders.release()
    return None


def repeated(written: Sequence[str]) -> str:
    """Name the batches that were written more than once, by where they start; empty when none was. Pure."""
    starts = Counter(line.rpartition(" ")[0] for line in written)
    return ", ".join(f"{start} {count} times" for start, count in sorted(starts.items()) if count > 1)
