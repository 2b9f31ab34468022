"""Warms up a new Spark session before it is reported as ready, so that the first batch is almost as fast as later ones.

A JVM loads classes and compiles code on first use. Without the warm-up, the first batch takes seconds, during which a
task that has moved from another worker makes no progress. The warm-up writes no data. It ends when a task waits
for Spark, because the first batches of tasks have the same effect.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kraal.config.spark_master import is_warmup_enabled
from kraal.engine import client_options
from kraal.engine.failure_trace import root_cause
from kraal.engine.session.arrow import map_in_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrameWriter, SparkSession

log = logging.getLogger(__name__)

_MAX_QUICK_S = 0.1
_QUICK_BATCHES = 5
"""Spark is warm when this many consecutive batches took less than `_MAX_QUICK_S` each."""
_TIMEOUT_S = 8.0
"""Time limit for small batches, which remain slow on a busy machine, and for the write to the invalid topic."""
_BROKER_TIMEOUT_MS = "3000"
_BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"
_GROUP = "warm-up"
_INVALID_TOPIC = "no/topic"
"""An invalid topic name, so that the topic can be neither written to nor created."""


def warm_up(
    session: SparkSession,
    small_job_session: SparkSession,
    worker: Mapping[str, str],
    is_awaited: Callable[[], bool],
) -> None:
    """Run the code paths that small batches use, and log failures. Takes a few seconds.

    Must be called on the session's thread. No-op if `kraal.spark.warmup.enabled` is false. `small_job_session` is the
    session with settings for jobs over few records. `is_awaited` returns whether a task waits for Spark; the warm-up
    calls it between steps, and ends if it returns True.
    """
    if not is_warmup_enabled(worker):
        return
    start_s = time.monotonic()
    producer_options = client_options.producer_options(worker, {}, client_options.SHARED_CLIENT)
    steps: dict[str, Callable[[], object]] = {
        "the Python worker": lambda: _warm_up_python_worker(session),
        "Kafka's clients": lambda: _warm_up_kafka(session, small_job_session, producer_options, is_awaited),
        "small batches": lambda: _run_small_batches(small_job_session, is_awaited),
    }
    completed_components = [
        component for component, step in steps.items() if not is_awaited() and _run_step(component, step)
    ]
    if completed_components:
        log.info(
            "Warmed up Spark with %s in %.1f s", ", ".join(completed_components), time.monotonic() - start_s
        )
    elif is_awaited():
        log.info("Skipped the warm-up of Spark, because a task waits for Spark")


def _warm_up_python_worker(session: SparkSession) -> None:
    """Start the Python worker."""

    def identity(batches: Any) -> Any:
        yield from batches

    map_in_arrow(session.range(1), identity, "id long").write.format("noop").mode("append").save()


def _warm_up_kafka(
    session: SparkSession,
    small_job_session: SparkSession,
    producer_options: Mapping[str, str],
    is_awaited: Callable[[], bool],
) -> None:
    """Use Kafka's clients, at first without Spark, so that unavailable brokers are detected early."""
    _warm_up_clients(session, producer_options)
    if not is_awaited():
        _write_refused_record(small_job_session, producer_options)


def _warm_up_clients(session: SparkSession, producer_options: Mapping[str, str]) -> None:
    """Create a producer, and request the cluster id, with the client settings of tasks."""
    jvm: Any = session.sparkContext._jvm
    settings = jvm.java.util.HashMap()
    for key, value in producer_options.items():
        settings.put(key.removeprefix("kafka."), value)
    settings.put("request.timeout.ms", _BROKER_TIMEOUT_MS)
    settings.put("default.api.timeout.ms", _BROKER_TIMEOUT_MS)
    settings.put("delivery.timeout.ms", str(2 * int(_BROKER_TIMEOUT_MS)))
    settings.put("key.serializer", _BYTES)
    settings.put("value.serializer", _BYTES)
    clients = jvm.org.apache.kafka.clients
    clients.producer.KafkaProducer(settings).close()
    admin = clients.admin.AdminClient.create(settings)
    try:
        admin.describeCluster().clusterId().get()
    finally:
        admin.close()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    jvm.java.lang.Class.forName("org.apache.kafka.clients.consumer.KafkaConsumer", True, loader)  # noqa: FBT003 - Java


def _write_refused_record(small_job_session: SparkSession, producer_options: Mapping[str, str]) -> None:
    """Write a record to an invalid topic, which exercises a round trip to a broker.

    The write uses the producer that tasks share, which Spark caches by its settings.
    """
    context: Any = small_job_session.sparkContext
    context.setJobGroup(_GROUP, "warm-up", interruptOnCancel=True)
    # With the settings of tasks, the producer would wait for unavailable brokers forever.
    timer = threading.Timer(_TIMEOUT_S, context.cancelJobGroup, (_GROUP,))
    timer.start()
    try:
        with contextlib.suppress(Exception):  # the write must fail
            _single_record_writer(small_job_session).format("kafka").options(**producer_options).save()
    finally:
        timer.cancel()


def _run_small_batches(small_job_session: SparkSession, is_awaited: Callable[[], bool]) -> None:
    """Write batches to a no-op sink until they are fast, or until a task waits for Spark."""
    end_s = time.monotonic() + _TIMEOUT_S
    quick_batches = 0
    while quick_batches < _QUICK_BATCHES and time.monotonic() < end_s and not is_awaited():
        start_s = time.monotonic()
        _single_record_writer(small_job_session).format("noop").save()
        quick_batches = quick_batches + 1 if time.monotonic() - start_s < _MAX_QUICK_S else 0


def _single_record_writer(small_job_session: SparkSession) -> DataFrameWriter:
    """Return the writer of a batch with a single record."""
    import pyarrow as pa  # noqa: PLC0415 - heavy; only this thread uses it

    table = pa.table({"topic": [_INVALID_TOPIC], "value": ["v"]})
    frame = small_job_session.createDataFrame(table).coalesce(1)
    return frame.selectExpr("topic", "cast(value as binary) as value").write.mode("append")


def _run_step(component: str, step: Callable[[], object]) -> bool:
    """Run a step and return whether it succeeded. A failure is only logged; a task's first batch reports it."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - see the docstring
        log.info("Failed to warm up Spark with %s: %s", component, root_cause(error))
        return False
    return True
