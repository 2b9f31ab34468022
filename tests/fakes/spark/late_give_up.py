"""A batch that is cancelled between two reads of its state, as the thread that watches the lease may cancel it."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from kraal.engine.kafka_io.coalescing import PendingBatch


class LateCancelledBatch(PendingBatch):
    """A batch whose `is_cancelled` is False on the first read, and True afterwards."""

    reads = 0

    @override
    def __getattribute__(self, name: str) -> Any:
        if name != "is_cancelled":
            return super().__getattribute__(name)
        self.reads += 1
        return self.reads > 1
