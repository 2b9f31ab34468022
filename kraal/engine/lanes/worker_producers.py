"""Producers in the worker's own process, which send small batches while no lane takes them. They need no Spark.

A worker whose tasks have little to do so needs no Spark at all, and the first records of a connector do not wait until
Spark is up. A batch that is not acknowledged within `client_options.WORKER_DELIVERY_MS` is repeated by a job
(`kraal.engine.kafka_io.coalescing`), which waits for Spark; so errors, retries and traces are those of jobs. Each topic
partition gets a task's records in order, because a task has at most one batch in flight.

A producer is shared by all runs with the same settings, and closed when the last of them has ended. A cancelled batch
takes its producer with it, so that no record of it is sent later; the batches of other tasks in it are sent again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from kraal.engine.executor import result_of
from kraal.engine.lanes.rows import as_bytes, is_small, python_columns

if TYPE_CHECKING:
    from kraal.engine.kafka_io.coalescing import PendingBatch

log = logging.getLogger(__name__)

MAX_WAITING_BYTES: Final = 16 << 20
"""Size of batches without an acknowledgement from which on batches go by jobs."""
_POLL_TIMEOUT_S: Final = 1.0
_PURGED_CODES: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 - documented

Settings = tuple[tuple[str, str], ...]
"""The settings of a producer: librdkafka's names and values, sorted."""


@dataclass(slots=True, eq=False)
class _Delivery:
    """The records of one batch that have no result yet; called with the result of each."""

    batch: PendingBatch
    run: object
    sender: _Sender
    settle: Callable[[_Delivery], None]
    remaining: int
    error: KafkaError | str | None = None
    """The first error."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, error: KafkaError | None, _message: object) -> None:
        self.count(1, error)

    def count(self, records: int, error: KafkaError | str | None) -> None:
        """Count records that were acknowledged, have failed, or were not sent."""
        with self.lock:
            self.error = self.error or error
            self.remaining -= records
            is_over = not self.remaining
        if is_over:
            self.settle(self)


class WorkerProducers:
    """Takes small batches. Any thread; no method waits for brokers."""

    def __init__(self, repeat: Callable[[PendingBatch], None], *, is_local: bool) -> None:
        """Create it without a producer.

        Args:
            repeat: has a job write a batch that failed here.
            is_local: whether Spark's tasks run beside the worker; if not, executors write all records.
        """
        self._repeat = repeat
        self._is_local = is_local
        self._lock = threading.Lock()
        self._senders: dict[Settings, _Sender] = {}
        self._waiting_bytes = 0
        self._closed = False

    def takes(self, rows: int, size: int) -> bool:
        """Return whether `rows` records and `size` bytes are accepted now."""
        if not self._is_local or not is_small(rows, size):
            return False
        with self._lock:
            return not self._closed and self._waiting_bytes <= MAX_WAITING_BYTES

    def put(self, batch: PendingBatch, run: object) -> None:
        """Send a plain batch of a run; `batch.done` receives its result on a producer's or a pool's thread.

        `run`: any object that identifies it; `leave` follows.
        """
        if not batch.table.num_rows:
            batch.done(batch.result())
            return
        settings = _settings(batch)
        try:
            with self._lock:
                if self._closed:
                    raise KafkaException(KafkaError(KafkaError._DESTROY))  # noqa: SLF001 - as above
                sender = self._senders.get(settings)
                if sender is None:
                    sender = self._senders[settings] = _Sender(dict(settings))
                sender.users.add(run)
                sender.batches.append(batch)
                self._waiting_bytes += batch.size
        except KafkaException as exc:  # the settings of this producer
            log.info("%s: Writing a batch by a job: %s", batch.task, exc)
            self._repeat(batch)
            return
        sender.send(_Delivery(batch, run, sender, self._settle, batch.table.num_rows))

    def give_up(self, batch: PendingBatch) -> bool:
        """Drop the records of a batch that are not sent yet, with their producer; return whether one had the batch."""
        with self._lock:
            settings = _settings(batch)
            sender = self._senders.get(settings)
            if sender is None or batch not in sender.batches:
                return False
            batch.given_up = True
            del self._senders[settings]
        sender.close()
        return True

    def leave(self, run: object) -> None:
        """Close the producers that only this run has used, which has ended. Returns at once."""
        with self._lock:
            for sender in self._senders.values():
                sender.users.discard(run)
            unused = [settings for settings, sender in self._senders.items() if not sender.users]
            senders = [self._senders.pop(settings) for settings in unused]
        for sender in senders:
            sender.close()

    def close(self) -> None:
        """Close all producers, and drop unsent records."""
        with self._lock:
            self._closed = True
            senders = list(self._senders.values())
            self._senders.clear()
        for sender in senders:
            sender.close()

    def _settle(self, delivery: _Delivery) -> None:
        """Report a batch, or have it sent again."""
        batch, error = delivery.batch, delivery.error
        with self._lock:
            self._waiting_bytes -= batch.size
            delivery.sender.batches.remove(batch)
        if error is None:
            batch.done(result_of(batch.result))
        elif batch.given_up:
            batch.done(None)
        elif isinstance(error, KafkaError) and error.code() in _PURGED_CODES and not self._closed:
            self.put(batch, delivery.run)  # another batch of the same producer was cancelled
        else:
            text = error.str() if isinstance(error, KafkaError) else error
            log.info("%s: Repeating a batch by a job: %s", batch.task, text)
            self._repeat(batch)


class _Sender:
    """One producer, and the thread that receives its acknowledgements."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Raises KafkaException for settings that librdkafka does not accept."""
        self.users: set[object] = set()
        """The runs that have sent batches with it."""
        self.batches: list[PendingBatch] = []
        """Batches without a result. Guarded, as `users`, by the lock of `WorkerProducers`."""
        self._producer = Producer(dict(settings))
        self._closed = threading.Event()
        threading.Thread(target=self._receive, name="kraal-worker-producer", daemon=True).start()

    def send(self, delivery: _Delivery) -> None:
        """Queue the records of a batch."""
        batch, sent = delivery.batch, 0
        error: KafkaError | str | None = None
        try:
            columns = python_columns(as_bytes(batch.with_topic()))
            topics, values = columns.pop("topic"), columns.pop("value")
            if any(number is not None and number < 0 for number in columns.get("partition", ())):
                raise ValueError("a partition is negative")
            names = list(columns)
            for topic, value, *rest in zip(topics, values, *columns.values(), strict=True):
                given = {name: each for name, each in zip(names, rest, strict=True) if each is not None}
                self._producer.produce(topic, value, on_delivery=delivery, **given)
                sent += 1
        except KafkaException as exc:
            error = exc.args[0]
        except Exception as exc:  # noqa: BLE001 - a full queue, a header that librdkafka would change: a job writes it
            error = str(exc) or type(exc).__name__
        if error is not None:
            delivery.count(batch.table.num_rows - sent, error)
        if self._closed.is_set():  # it was closed meanwhile, and may not have dropped these records
            self._purge()

    def close(self) -> None:
        """Drop unsent records, whose batches fail. Returns at once."""
        self._closed.set()
        self._purge()

    def _purge(self) -> None:
        self._producer.purge(blocking=False)

    def _receive(self) -> None:
        while not self._closed.is_set() or self.batches:
            try:
                self._producer.poll(_POLL_TIMEOUT_S)
            except Exception:  # its other batches must not wait for ever
                log.exception("Failed to report the result of a small batch")


def _settings(batch: PendingBatch) -> Settings:
    assert batch.worker_producer is not None  # noqa: S101 - others do not come here
    return tuple(sorted(batch.worker_producer.items()))
