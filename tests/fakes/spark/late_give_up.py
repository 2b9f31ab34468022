"""A batch that is given up between two looks at it, as a lost lease does on a thread of its own."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from kraal.engine.kafka_io.coalescing import PendingBatch


class LateGiveUp(PendingBatch):
    """A batch whose `given_up` is False when it is read for the first time, and True from then on."""

    reads = 0

    @override
    def __getattribute__(self, name: str) -> Any:
        if name != "given_up":
            return super().__getattribute__(name)
        self.reads += 1
        return self.reads > 1
