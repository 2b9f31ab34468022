"""The part that the lane and the producers in the worker have in common: what they accept, for whom, and its results.

A batch that fails is repeated by a job once none of its records is in flight any longer; so errors, retries and traces
are those of jobs, and each topic partition gets a task's records in order, because a task has at most one batch in
flight. A producer is shared by all runs with the same configs, and closed when the last of them has ended.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kraal.engine.executor import run_job
from kraal.engine.lanes.rows import is_small

if TYPE_CHECKING:
    from kraal.engine.kafka_io.coalescing import PendingBatch

log = logging.getLogger(__name__)

MAX_WAITING_BYTES: Final = 16 << 20
"""Size of waiting batches from which on batches go by jobs, so that a slow Kafka does not fill the memory."""

Configs = tuple[tuple[str, str], ...]
"""The configs of a producer: names and values, sorted."""


class SmallBatchSender(ABC):
    """Sends small batches without a job of their own. Any thread; no method waits for brokers or Spark."""

    def __init__(self, repeat: Callable[[PendingBatch], None], *, is_local: bool) -> None:
        """Producers are created with the batches that need them.

        Args:
            repeat: has a job write a batch that failed here.
            is_local: whether Spark's tasks run beside the worker; if not, executors write all records.
        """
        self._repeat = repeat
        self._is_local = is_local
        self._lock = threading.Condition()
        self._users: dict[Configs, set[object]] = {}
        """The runs that have sent batches with a producer of these configs."""
        self._waiting_bytes = 0
        self._closed = False

    def takes(self, rows: int, size: int) -> bool:
        """Return whether `rows` records and `size` bytes are accepted now."""
        if not self._is_local or not is_small(rows, size):
            return False
        with self._lock:
            return not self._closed and self._waiting_bytes <= MAX_WAITING_BYTES

    def leave(self, run: object) -> None:
        """Close the producers that only this run has used, which has ended. Returns at once."""
        with self._lock:
            for users in self._users.values():
                users.discard(run)
            unused = [configs for configs, users in self._users.items() if not users]
            for configs in unused:
                del self._users[configs]
            closings = self._remove(unused)
        for close in closings:
            close()

    @abstractmethod
    def put(self, batch: PendingBatch, run: object) -> None:
        """Send a plain batch of a run, which has records; `batch.done` receives its result on another thread.

        `run`: any object that identifies it; `leave` follows.
        """

    @abstractmethod
    def give_up(self, batch: PendingBatch) -> bool:
        """Drop the unsent records of a batch; return False if it is not here any more."""

    @abstractmethod
    def _remove(self, unused: Iterable[Configs]) -> Sequence[Callable[[], object]]:
        """Forget the producers with these configs; return the calls that close them. Holds the lock."""

    def _accept(self, batch: PendingBatch, run: object) -> None:
        """Count a batch, and its run among the users of its producer. Holds the lock."""
        self._users.setdefault(list_configs(batch), set()).add(run)
        self._waiting_bytes += batch.size

    def _report(self, batch: PendingBatch, error: str | None) -> None:
        """Report a batch that Kafka has acknowledged (no `error`) or that was given up; have a job repeat another."""
        if error is None:
            batch.done(run_job(batch.result))
        elif batch.given_up:
            batch.done(None)
        else:
            log.info("%s: Repeating a batch by a job: %s", batch.task, error)
            self._repeat(batch)


def list_configs(batch: PendingBatch) -> Configs:
    """Return the configs of a batch's producer."""
    assert batch.producer is not None  # noqa: S101 - others do not come here
    return tuple(sorted(batch.producer.items()))
