"""`mirror-latency`: latency from source to target of MirrorSource in real-time mode, compared with Java's.

The Java and the Kraal worker each mirror a topic with two partitions in one task, and also run 20 idle FileStreamSource
connectors. Kraal uses `trigger=realtime`, and its Spark has enough slots. Records are sent to each side at a fixed rate
of 20 per second, whether or not earlier records have arrived. A consumer for each side polls the target topic. The run
lasts for more than three Spark batches.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from scripts.bench.data.latency import create_idle
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Target, percentile
from scripts.harness.processes import wait_until
from scripts.harness.topics import create_topic
from scripts.harness.workers import Worker

PARTITIONS = 2
IDLE_CONNECTORS = 20
WORKER_PROPERTIES = {"spark.master": "local[4]"}
"""Worker property with two slots for the partitions and two for all other tasks; Java ignores it."""
INTERVAL_S = 0.05
BATCHES = 3.3
DRAIN_TIMEOUT_S = 60.0


def run(lab: Lab) -> list[Case]:
    """Measure the latency of records over all Spark batches."""
    workers = lab.start_warm(lab.options.sides, WORKER_PROPERTIES)
    batch_s = lab.options.times(60, 5)
    mirrors = {kind: _Mirror(lab, kind, worker, batch_s) for kind, worker in workers.items()}
    for kind, worker in workers.items():
        create_idle(lab, worker, lab.topic(f"idle-{kind}"), IDLE_CONNECTORS)
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 0, "log_level": 2})
    for mirror in mirrors.values():
        mirror.warm_up(producer)
    say(f"records flow through {len(mirrors)} mirrors for {batch_s * BATCHES:.0f} s")
    _send(producer, mirrors, round(batch_s * BATCHES / INTERVAL_S))
    latencies = {kind: mirror.close() for kind, mirror in mirrors.items()}
    label = f"latency from source to target, over {math.floor(BATCHES)} batches"
    java, kraal = latencies.get("java", []), latencies.get("kraal", [])
    return [
        Case(f"{label}, median", "ms", _median(java), _median(kraal), wanted=Target(ratio=1.0)),
        Case(
            "  99th percentile", "ms", _percentile_99(java), _percentile_99(kraal), wanted=Target(ratio=1.0)
        ),
        Case("  maximum", "ms", [max(java)] if java else [], [max(kraal)] if kraal else []),
    ]


def _median(latencies: list[float]) -> list[float]:
    return [statistics.median(latencies)] if latencies else []


def _percentile_99(latencies: list[float]) -> list[float]:
    return [percentile(latencies, 99)] if latencies else []


def _send(producer: Producer, mirrors: Mapping[str, _Mirror], count: int) -> None:
    """Send `count` records to each side. The second side's records are sent half an interval after the first side's."""
    start_s = time.monotonic()
    for number in range(count):
        for index, mirror in enumerate(mirrors.values()):
            due_s = start_s + (number + index / len(mirrors)) * INTERVAL_S
            time.sleep(max(0.0, due_s - time.monotonic()))
            mirror.send(producer)
    producer.flush(DRAIN_TIMEOUT_S)


class _Mirror:
    """A mirrored topic, and a consumer at the end of its copy."""

    def __init__(self, lab: Lab, kind: str, worker: Worker, batch_s: int) -> None:
        self._worker = worker
        self._topic = lab.new_name("mirrored")
        self._count = 0
        self._in_flight: dict[bytes, float] = {}
        self._latencies: list[float] = []
        self._stopped = threading.Event()
        copy = f"{kind}.{self._topic}"
        for topic in (self._topic, copy):
            create_topic(lab.bootstrap, topic, partitions=PARTITIONS)
        worker.rest.create("mirror", _make_config(lab.bootstrap, kind, self._topic, batch_s))
        worker.wait_until_running("mirror")
        self._consumer = Consumer(
            {
                "bootstrap.servers": lab.bootstrap,
                "group.id": "scripts",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
        self._consumer.assign([TopicPartition(copy, number, 0) for number in range(PARTITIONS)])
        self._thread = threading.Thread(target=self._read, name=f"read-{kind}", daemon=True)
        self._thread.start()

    def send(self, producer: Producer) -> None:
        """Send the next record to the next partition in turn."""
        value = b"record %d" % self._count
        self._in_flight[value] = time.monotonic()
        producer.produce(self._topic, value, partition=self._count % PARTITIONS)
        self._count += 1
        producer.poll(0)

    def warm_up(self, producer: Producer) -> None:
        """Send 40 records and discard their latencies."""
        for _ in range(40):
            self.send(producer)
            self._await_records()
        self._latencies.clear()

    def close(self) -> list[float]:
        """Wait for the records in flight; return the latencies of all records in milliseconds."""
        self._await_records()
        self._stopped.set()
        self._thread.join(DRAIN_TIMEOUT_S)
        self._consumer.close()
        self._worker.rest.delete("mirror")
        return self._latencies

    def _await_records(self) -> None:
        wait_until(
            f"{self._worker.name} had copied all records",
            lambda: not self._in_flight,
            timeout_s=DRAIN_TIMEOUT_S,
            program=self._worker.process,
        )

    def _read(self) -> None:
        while not self._stopped.is_set():
            message: Any = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            now_s = time.monotonic()
            sent_s = self._in_flight.get(message.value())
            if sent_s is not None:  # else it is a duplicate
                self._latencies.append((now_s - sent_s) * 1000)
                del self._in_flight[message.value()]


def _make_config(bootstrap: str, alias: str, topic: str, batch_s: int) -> dict[str, str]:
    byte_array = "org.apache.kafka.connect.converters.ByteArrayConverter"
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": "1",
        "source.cluster.alias": alias,
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": bootstrap,
        "target.cluster.bootstrap.servers": bootstrap,
        "topics": topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "trigger": "realtime",
        "realtime.batch.ms": str(batch_s * 1000),
        **{f"{role}.converter": byte_array for role in ("key", "value", "header")},
    }
