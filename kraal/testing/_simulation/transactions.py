"""In-memory source transactions: the latest claim of a task fences all earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kraal.core.errors import Fenced
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.stores.memory import MemoryOffsets


class FakeTransactions:
    """Implements `actors.exactly_once.claims.SourceTransactions` for all workers of a cluster."""

    def __init__(self, group_id: str, offsets: MemoryOffsets) -> None:
        self._group_id = group_id
        self._offsets = offsets
        self._producers: dict[str, FakeProducer] = {}
        self.claimed: list[TaskId] = []
        """All claims, in order."""
        self.on_claim: Callable[[TaskId], None] = lambda _: None
        """Called when a task is claimed. May raise StoreUnavailable or StoreError to reject the claim."""

    def claim(self, task: TaskId, config: Mapping[str, str], *, tracks: bool = False) -> FakeProducer:
        """Return a new producer of the task, which fences the earlier producers."""
        del config, tracks
        self.on_claim(task)
        self.claimed.append(task)
        producer = FakeProducer(self, task)
        self._producers[f"{self._group_id}-{task}"] = producer
        return producer

    def load(self, connector: ConnectorName, config: Mapping[str, str]) -> Mapping[SourcePartition, Offset]:
        """Return a connector's offsets."""
        del config
        return self._offsets.load(connector)

    def alter(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        offsets: Mapping[SourcePartition, Offset | None],
    ) -> None:
        """Write offsets through the producer of the connector's first task."""
        self.claim(TaskId(connector, 0), config).commit(offsets)

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Fence the current producers of these ids."""
        for transactional_id in transactional_ids:
            self._producers.pop(transactional_id, None)

    def commit(
        self, producer: FakeProducer, task: TaskId, offsets: Mapping[SourcePartition, Offset | None]
    ) -> None:
        """Store a task's offsets. Raises Fenced unless `producer` is the latest producer of the task."""
        if self._producers.get(f"{self._group_id}-{task}") is not producer:
            raise Fenced("There is a newer producer with the same transactionalId")
        self._offsets.store({task.connector: offsets})


class FakeProducer:
    """Implements `kraal.engine.api.Transactions`."""

    is_open = False

    def __init__(self, transactions: FakeTransactions, task: TaskId) -> None:
        self._transactions = transactions
        self._task = task

    def write(
        self,
        topic: str | None,
        columns: Mapping[str, Sequence[Any]],
        offset_callbacks: Mapping[int, Callable[[int], None]] | None = None,
    ) -> None:
        """No-op: fake runs count their records themselves."""

    def commit(self, offsets: Mapping[SourcePartition, Offset | None]) -> int:
        """Store offsets. Raises Fenced."""
        self._transactions.commit(self, self._task, offsets)
        return 0

    def cancel(self) -> None:
        """No-op: no operation blocks."""

    def close(self) -> None:
        """No-op: there are no resources."""
