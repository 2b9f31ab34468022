"""Closes Spark's Kafka producers and drops their unsent records.

Spark caches producers in the JVM and does not purge them: records that a cancelled job has sent wait there, forever
with Connect's `delivery.timeout.ms`, and are written when the brokers return. If the task runs elsewhere by then, its
old records follow its new ones. So a producer ends with a cancelled job, and all producers end with the lease.

A shorter `delivery.timeout.ms` does not help: the sender drains batches before it checks their age; and records may be
sent until the lease ends, just before the session does, so the timeout would have to be as short as the rest of the
session. Source: Sender.sendProducerData (Kafka 4.4.0).

With a cluster the producers are in executors. There a Spark plugin (`ExecutorProducers.java`) asks the driver which
producers to end, and ends all while the driver does not answer
([017](../../../docs/decisions/017-producers-of-executors.md)).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kraal.engine.kafka_io.refusals import Refusal, read_refusals
from kraal.engine.session.executors import GUARD
from kraal.engine.session.janino import new_instance

if TYPE_CHECKING:
    from kraal.engine.session.session import Session
    from kraal.engine.thread_pool import Pool

log = logging.getLogger(__name__)

_CLASS: Final = "kraal.Producers"


class Producers:
    """Closes the producers of the driver's JVM, and those of executors in other processes."""

    def __init__(self, session: Session, pool: Pool, *, in_executors: bool) -> None:
        """`pool`: its thread calls the JVM; `in_executors`: the master is a cluster."""
        self._session = session
        self._pool = pool
        self._in_executors = in_executors
        self._lock = threading.Lock()
        self._pending: set[str | None] = set()

    def end(self, client: str | None) -> None:
        """Close the producers with this client id (None: all), and drop their unsent records. Returns at once.

        A job that uses one of them fails with an error that `kraal.engine.failure_trace.brokers_away` recognizes. Later
        jobs get new ones.
        """
        with self._lock:
            if client in self._pending:
                return
            self._pending.add(client)
        self._pool.submit(lambda: self._end(client))

    def refusals(self, report: Callable[[Sequence[Refusal]], None]) -> None:
        """Report the brokers' refusals of the last seconds, on the pool's thread. Returns at once."""
        self._pool.submit(lambda: self._report_refusals(report))

    def _report_refusals(self, report: Callable[[Sequence[Refusal]], None]) -> None:
        spark = self._session.current
        if spark is None:
            return
        try:
            refusals = read_refusals(spark, in_executors=self._in_executors)
        except Exception as exc:  # noqa: BLE001 - the session reports the end of its JVM
            log.debug("Failed to read what brokers refused: %s", exc)
        else:
            report(refusals)

    def _end(self, client: str | None) -> None:
        with self._lock:
            self._pending.discard(client)
        spark = self._session.current
        if spark is None:
            return
        context = spark.session.sparkContext
        try:
            if self._in_executors:
                new_instance(context, GUARD).end(client)
            ended = new_instance(context, _CLASS).end(client)
        except Exception as exc:  # noqa: BLE001 - in any case the JVM must not continue with them
            if self._session.current is spark:
                self._session.kill(f"its Kafka producers cannot be closed: {exc}")
            return
        if ended:
            log.info("Closed %d Kafka producers of Spark and discarded their unsent records", ended)
