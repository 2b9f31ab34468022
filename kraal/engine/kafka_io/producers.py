"""Closes Spark's Kafka producers and drops their unsent records.

Spark caches producers in the JVM and does not purge them: records that a cancelled job has buffered remain in the
producer and are sent when the brokers are available again. With Connect's `delivery.timeout.ms`, they never expire. If
another worker runs the task by then, old records of the task follow new ones. So a cancelled job closes its producer,
and the end of the lease closes all producers.

A shorter `delivery.timeout.ms` would not help: the sender drains batches before it checks their age. And records may
be sent until the lease ends, which is just before the group session ends, so the timeout would have to be shorter
than the time between the two. Source: Sender.sendProducerData (Kafka 4.4.0).

With a cluster, the producers are in executors. There, a Spark plugin (`ExecutorProducers.java`) polls the driver for
the producers to close, and closes all of them while the driver does not respond
([017](../../../docs/decisions/017-producers-of-executors.md)).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kraal.engine.kafka_io.refusals import Refusal, read_refusals
from kraal.engine.session.executors import PRODUCERS_PLUGIN
from kraal.engine.session.janino import new_instance

if TYPE_CHECKING:
    from kraal.engine.session.session import Session
    from kraal.engine.thread_pool import Pool

log = logging.getLogger(__name__)

_CLASS: Final = "kraal.Producers"


class Producers:
    """Closes producers in the driver's JVM and in the executors of a cluster."""

    def __init__(self, session: Session, pool: Pool, *, in_executors: bool) -> None:
        """Create an object that calls the JVM on a thread of `pool`; `in_executors` is whether there is a cluster."""
        self._session = session
        self._pool = pool
        self._in_executors = in_executors
        self._lock = threading.Lock()
        self._pending_client_ids: set[str | None] = set()

    def close(self, client_id: str | None) -> None:
        """Close the producers with this client id (None for all), and drop their unsent records. Returns at once.

        Running jobs that use such a producer fail with an error that `failure_trace.find_broker_failure` recognizes.
        Later jobs use new producers.
        """
        with self._lock:
            if client_id in self._pending_client_ids:
                return
            self._pending_client_ids.add(client_id)
        self._pool.submit(lambda: self._close(client_id))

    def report_refusals(self, report: Callable[[Sequence[Refusal]], None]) -> None:
        """Report recent refusals, on the pool's thread. Returns at once."""
        self._pool.submit(lambda: self._report_refusals(report))

    def _report_refusals(self, report: Callable[[Sequence[Refusal]], None]) -> None:
        spark = self._session.current
        if spark is None:
            return
        try:
            refusals = read_refusals(spark, in_executors=self._in_executors)
        except Exception as exc:  # noqa: BLE001 - the session reports the end of its JVM
            log.debug("Failed to read the refused requests: %s", exc)
        else:
            report(refusals)

    def _close(self, client_id: str | None) -> None:
        with self._lock:
            self._pending_client_ids.discard(client_id)
        spark = self._session.current
        if spark is None:
            return
        context = spark.session.sparkContext
        try:
            if self._in_executors:
                new_instance(context, PRODUCERS_PLUGIN).end(client_id)
            count = new_instance(context, _CLASS).end(client_id)
        except Exception as exc:  # noqa: BLE001 - the JVM must not continue with open producers
            if self._session.current is spark:
                self._session.kill(f"its Kafka producers cannot be closed: {exc}")
            return
        if count:
            log.info("Closed %d Kafka producers of Spark and discarded their unsent records", count)
