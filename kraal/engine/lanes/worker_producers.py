"""Producers in the worker process, which send small batches without Spark while no lane accepts them.

So a worker whose tasks have few records does not require Spark, and the first records of a connector do not wait for
the startup of Spark. A batch that is not acknowledged within `client_options.WORKER_DELIVERY_MS` is written by a job
(`kraal.engine.kafka_io.coalescing`), which waits for Spark.

Cancelling a batch closes its producer, so that no record of the batch is sent later. If other tasks have batches in
this producer, these batches are sent again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from typing_extensions import override

from kraal.engine.lanes.rows import as_bytes, python_columns
from kraal.engine.lanes.sender import Configs, SmallBatchSender, list_configs

if TYPE_CHECKING:
    from kraal.engine.kafka_io.coalescing import PendingBatch

log = logging.getLogger(__name__)

_POLL_TIMEOUT_S: Final = 1.0
_PURGED_CODES: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001 - documented


@dataclass(slots=True, eq=False)
class _Delivery:
    """The delivery of one batch; called with the delivery report of each record."""

    batch: PendingBatch
    run: object
    producer: _Producer
    finish: Callable[[_Delivery], None]
    remaining_records: int
    error: KafkaError | str | None = None
    """The first error."""
    acknowledged_records: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, error: KafkaError | None, _message: object) -> None:
        self.count(1, error)

    def count(self, records: int, error: KafkaError | str | None) -> None:
        """Count records that were acknowledged, that failed, or that were not sent."""
        with self.lock:
            self.acknowledged_records += records if error is None else 0
            self.error = self.error or error
            self.remaining_records -= records
            is_over = not self.remaining_records
        if is_over:
            self.finish(self)


class WorkerProducers(SmallBatchSender):
    """Sends small batches with librdkafka's producers; configs are named as in librdkafka.

    A batch counts as waiting until each of its records is acknowledged or has failed.
    """

    def __init__(self, repeat: Callable[[PendingBatch], None], *, is_local: bool) -> None:
        """Create the object without producers. For the arguments, see `SmallBatchSender`."""
        super().__init__(repeat, is_local=is_local)
        self._producers: dict[Configs, _Producer] = {}

    @override
    def put(self, batch: PendingBatch, run: object) -> None:
        """Send a batch with the producer for its configs."""
        configs = list_configs(batch)
        try:
            with self._lock:
                if self._closed:
                    raise KafkaException(KafkaError(KafkaError._DESTROY))  # noqa: SLF001 - as above
                producer = self._producers.get(configs)
                if producer is None:
                    producer = self._producers[configs] = _Producer(dict(configs))
                producer.batches.append(batch)
                self._accept(batch, run)
        except KafkaException as exc:  # librdkafka does not accept the configs
            log.info("%s: Writing a batch with a Spark job: %s", batch.task, exc)
            self._repeat(batch)
            return
        producer.send(_Delivery(batch, run, producer, self._finish_delivery, batch.table.num_rows))

    @override
    def cancel(self, batch: PendingBatch) -> bool:
        """Drop the unsent records of a batch, and close its producer; return False if no producer has the batch."""
        with self._lock:
            producer = self._producers.get(list_configs(batch))
            if producer is None or batch not in producer.batches:
                return False
            batch.is_cancelled = True
            del self._producers[list_configs(batch)]
        producer.close()
        return True

    @override
    def _remove(self, unused_configs: Iterable[Configs]) -> Sequence[Callable[[], object]]:
        return [
            self._producers.pop(configs).close for configs in unused_configs if configs in self._producers
        ]

    def close(self) -> None:
        """Close all producers, and drop their unsent records."""
        with self._lock:
            self._closed = True
            producers = list(self._producers.values())
            self._producers.clear()
        for producer in producers:
            producer.close()

    def _finish_delivery(self, delivery: _Delivery) -> None:
        """Complete a batch, or send it again if it was purged because of another batch."""
        batch, error = delivery.batch, delivery.error
        with self._lock:
            self._waiting_bytes -= batch.size
            delivery.producer.batches.remove(batch)
            if isinstance(error, KafkaError) and error.code() == KafkaError._FATAL:  # noqa: SLF001 - as above
                self._drop_producer(batch, delivery.producer)
        is_purged = isinstance(error, KafkaError) and error.code() in _PURGED_CODES
        if is_purged and not batch.is_cancelled and not self._closed:
            self.put(batch, delivery.run)
        else:
            text = error.str() if isinstance(error, KafkaError) else error
            self._complete(batch, text, delivery.acknowledged_records)

    def _drop_producer(self, batch: PendingBatch, producer: _Producer) -> None:
        """Close the producer of a batch after a fatal error. The caller holds the lock."""
        if self._producers.get(list_configs(batch)) is producer:
            del self._producers[list_configs(batch)]
        producer.close()


class _Producer:
    """A producer and the thread that receives its acknowledgements."""

    def __init__(self, configs: Mapping[str, str]) -> None:
        """Create a producer. Raises KafkaException for configs that librdkafka does not accept."""
        self.batches: list[PendingBatch] = []
        """Batches without a result. Guarded by the lock of `WorkerProducers`."""
        self._producer = Producer(dict(configs))
        self._closed = threading.Event()
        threading.Thread(target=self._receive, name="kraal-worker-producer", daemon=True).start()

    def send(self, delivery: _Delivery) -> None:
        """Queue the records of a batch."""
        batch, sent_count = delivery.batch, 0
        error: KafkaError | str | None = None
        try:
            columns = python_columns(as_bytes(batch.with_topic()))
            topics, values = columns.pop("topic"), columns.pop("value")
            if any(number is not None and number < 0 for number in columns.get("partition", ())):
                raise ValueError("a partition is negative")
            names = list(columns)
            for topic, value, *optional_values in zip(topics, values, *columns.values(), strict=True):
                options = {
                    name: item for name, item in zip(names, optional_values, strict=True) if item is not None
                }
                self._producer.produce(topic, value, on_delivery=delivery, **options)
                sent_count += 1
        except KafkaException as exc:
            error = exc.args[0]
        except Exception as exc:  # noqa: BLE001 - such as a full queue; a job writes the batch
            error = str(exc) or type(exc).__name__
        if error is not None:
            delivery.count(batch.table.num_rows - sent_count, error)
        if self._closed.is_set():  # closed meanwhile, perhaps before these records were queued
            self._purge()

    def close(self) -> None:
        """Close the producer and drop its unsent records; their batches fail. Returns at once."""
        self._closed.set()
        self._purge()

    def _purge(self) -> None:
        self._producer.purge(blocking=False)

    def _receive(self) -> None:
        while not self._closed.is_set() or self.batches:
            try:
                self._producer.poll(_POLL_TIMEOUT_S)
            except Exception:  # the results of other batches must still be received
                log.exception("Failed to report the result of a small batch")
