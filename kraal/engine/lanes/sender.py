"""The base class of the lane and of the producers in the worker.

A batch that fails is repeated by a job once none of its records is in flight. So errors, retries and traces are the
same as for jobs, and the records of a task are written in order within each topic partition, because a task has at most
one batch in flight. All runs with the same configs share a producer, which is closed when the last of these runs has
ended.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kraal.engine.executor import run_job
from kraal.engine.lanes.rows import is_small

if TYPE_CHECKING:
    from kraal.engine.kafka_io.coalescing import PendingBatch

log = logging.getLogger(__name__)

MAX_WAITING_BYTES: Final = 16 << 20
"""Total size of waiting batches above which a sender accepts none, to limit memory while Kafka is slow."""

Configs = tuple[tuple[str, str], ...]
"""The configs of a producer: names and values, sorted."""


class SmallBatchSender(ABC):
    """Sends small batches without a Spark job. Thread-safe; methods do not block on brokers or Spark."""

    def __init__(self, repeat: Callable[[PendingBatch], None], *, is_local: bool) -> None:
        """Create a sender without producers, which are created on demand.

        Args:
            repeat: writes a failed batch with a Spark job.
            is_local: whether the master is local; with a cluster, executors write all records.
        """
        self._repeat = repeat
        self._is_local = is_local
        self._lock = threading.Condition()
        self._users: dict[Configs, set[object]] = {}
        """The runs that have used a producer, by the producer's configs."""
        self._waiting_bytes = 0
        self._closed = False

    def accepts(self, row_count: int, size: int) -> bool:
        """Return whether the sender accepts a batch of `row_count` records and `size` bytes now."""
        if not self._is_local or not is_small(row_count, size):
            return False
        with self._lock:
            return not self._closed and self._waiting_bytes <= MAX_WAITING_BYTES

    def release_producers(self, run: object) -> None:
        """Close the producers that only this run has used. Must be called when the run has ended. Returns at once."""
        with self._lock:
            for users in self._users.values():
                users.discard(run)
            unused_configs = [configs for configs, users in self._users.items() if not users]
            for configs in unused_configs:
                del self._users[configs]
            closings = self._remove(unused_configs)
        for close in closings:
            close()

    @abstractmethod
    def put(self, batch: PendingBatch, run: object) -> None:
        """Send a plain batch, which must not be empty; `batch.done` receives the result on another thread.

        `run` is an object that identifies the run, which later calls `release_producers`.
        """

    @abstractmethod
    def cancel(self, batch: PendingBatch) -> bool:
        """Drop the unsent records of a batch; return False if the sender no longer has the batch."""

    @abstractmethod
    def _remove(self, unused_configs: Iterable[Configs]) -> Sequence[Callable[[], object]]:
        """Remove the producers with these configs; return functions that close them. The caller holds the lock."""

    def _accept(self, batch: PendingBatch, run: object) -> None:
        """Add a batch to the waiting bytes, and its run to the users of its producer. The caller holds the lock."""
        self._users.setdefault(list_configs(batch), set()).add(run)
        self._waiting_bytes += batch.size

    def _complete(self, batch: PendingBatch, error: str | None, acknowledged: int | None = None) -> None:
        """Complete a batch that was acknowledged (`error` is None) or cancelled; repeat any other with a Spark job.

        `acknowledged` is the number of acknowledged records.
        """
        if error is None:
            batch.done(run_job(partial(batch.result, acknowledged)))
        elif batch.is_cancelled:
            batch.done(None)
        else:
            log.info("%s: Repeating a batch with a Spark job: %s", batch.task, error)
            self._repeat(batch)


def list_configs(batch: PendingBatch) -> Configs:
    """Return the configs of the producer for a batch."""
    assert batch.producer_configs is not None  # noqa: S101 - set for batches with a carrier
    return tuple(sorted(batch.producer_configs.items()))
