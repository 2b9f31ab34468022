"""What a new Spark does before it counts as up, so that a task's first batch is nearly as quick as its hundredth.

A JVM loads classes and compiles at first use: without this the first batch takes seconds, in which a task that has
just moved here from another worker stands still. Nothing is written anywhere. Tasks that wait for Spark already are
not kept waiting for that: their own first batches do it, and have written by then.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kraal.spark import kafka_options
from kraal.spark.arrow import map_in_arrow
from kraal.spark.trace import root_cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrameWriter, SparkSession

log = logging.getLogger(__name__)

_QUICK_S = 0.1
_QUICK_BATCHES = 5
"""Spark is warm when so many batches, one after another, took less than `_QUICK_S` each."""
_LONGEST_S = 8.0
"""A machine that is busy gets no quicker; then this is enough."""
_BROKER_MS = "3000"
_BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"
_GROUP = "warm-up"
_NO_TOPIC = "no/topic"
"""A name that brokers refuse, so nothing can be written to it, nor is it created."""


def warm_up(
    session: SparkSession, tiny: SparkSession, worker: Mapping[str, str], wanted: Callable[[], bool]
) -> None:
    """Run what small batches run; what fails is logged. Takes some seconds of the session's thread.

    `wanted`: whether a task waits for Spark. It is asked between the steps, and ends the warm-up.
    """
    began_s = time.monotonic()
    producer = kafka_options.producer_options(worker, {}, kafka_options.SHARED_CLIENT)
    steps: dict[str, Callable[[], object]] = {
        "the Python worker": lambda: _python(session),
        "Kafka's clients": lambda: _kafka(session, tiny, producer, wanted),
        "small batches": lambda: _batches(tiny, wanted),
    }
    done = [what for what, step in steps.items() if not wanted() and _tried(what, step)]
    log.info("Spark was warmed up by %s in %.1f s", ", ".join(done) or "nothing", time.monotonic() - began_s)


def _python(session: SparkSession) -> None:
    """Fork the Python worker."""

    def same(batches: Any) -> Any:
        yield from batches

    map_in_arrow(session.range(1), same, "id long").write.format("noop").mode("append").save()


def _kafka(
    session: SparkSession, tiny: SparkSession, producer: Mapping[str, str], wanted: Callable[[], bool]
) -> None:
    """Use Kafka's clients, first without Spark: brokers that are away are noticed sooner so."""
    _clients(session, producer)
    if not wanted():
        _refused(tiny, producer)


def _clients(session: SparkSession, producer: Mapping[str, str]) -> None:
    """Make a producer, and ask the brokers for their cluster's id as they are asked for all else."""
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - PySpark has no public way to it
    settings = jvm.java.util.HashMap()
    for key, value in producer.items():
        settings.put(key.removeprefix("kafka."), value)
    settings.put("request.timeout.ms", _BROKER_MS)
    settings.put("default.api.timeout.ms", _BROKER_MS)
    settings.put("delivery.timeout.ms", str(2 * int(_BROKER_MS)))
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


def _refused(tiny: SparkSession, producer: Mapping[str, str]) -> None:
    """Write one record to a topic that cannot be: the way to a broker and back.

    It goes through the producer that tasks share, which Spark keeps for them by its settings.
    """
    context: Any = tiny.sparkContext
    context.setJobGroup(_GROUP, "warm-up", interruptOnCancel=True)
    # Tasks wait for brokers that are away, so does their producer; this does not.
    late = threading.Timer(_LONGEST_S, context.cancelJobGroup, (_GROUP,))
    late.start()
    try:
        with contextlib.suppress(Exception):  # that it fails is what is wanted
            _one(tiny).format("kafka").options(**producer).save()
    finally:
        late.cancel()


def _batches(tiny: SparkSession, wanted: Callable[[], bool]) -> None:
    """Write batches to nowhere until they are quick, or a task has its own."""
    end_s = time.monotonic() + _LONGEST_S
    quick = 0
    while quick < _QUICK_BATCHES and time.monotonic() < end_s and not wanted():
        began_s = time.monotonic()
        _one(tiny).format("noop").save()
        quick = quick + 1 if time.monotonic() - began_s < _QUICK_S else 0


def _one(tiny: SparkSession) -> DataFrameWriter:
    """Return the writer of a batch of one record."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and needed by this thread only

    frame = tiny.createDataFrame(pa.table({"topic": [_NO_TOPIC], "value": ["v"]})).coalesce(1)
    return frame.selectExpr("topic", "cast(value as binary) as value").write.mode("append")


def _tried(what: str, step: Callable[[], object]) -> bool:
    """Take a step; False when it fails: the first real batch says what is wrong, and whose it is."""
    try:
        step()
    except Exception as error:  # noqa: BLE001 - as above
        log.info("Spark is up without having been warmed up by %s: %s", what, root_cause(error))
        return False
    return True
