"""Tests for small batches that producers in the worker send, with a simulated producer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone
from kraal.engine.executor import JobResult
from kraal.engine.kafka_io.coalescing import PendingBatch
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.lanes import sender
from kraal.engine.lanes import worker_producers as module
from kraal.engine.lanes.worker_producers import WorkerProducers
from kraal.ledger.counts import BatchEntry, Counts

WAIT_S = 30.0
PLAN = WritePlan(converters=None, options={}, key_schema=None, value_schema=None)
ROWS = pa.table({"value": [b"a", b"b"]})
PURGE_ERROR = KafkaError(KafkaError._PURGE_QUEUE)  # noqa: SLF001 - documented
TIMEOUT_ERROR = KafkaError(KafkaError._MSG_TIMED_OUT)
FATAL_ERROR = KafkaError(KafkaError._FATAL)  # noqa: SLF001 - as above

Report = Callable[[KafkaError | None, object], None]


class FakeProducer:
    """Stores records until a test acknowledges them; reports results in `poll`, like librdkafka."""

    def __init__(self, settings: dict[str, str]) -> None:
        if "unknown" in settings:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "unknown"))  # noqa: SLF001 - as above
        self.settings = settings
        self.records: list[tuple[str, bytes | None, dict[str, Any]]] = []
        self.max_records = 1_000_000
        self._waiting: list[Report] = []
        self._results: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def produce(self, topic: str, value: bytes | None, *, on_delivery: Report, **options: Any) -> None:
        """Queue a record."""
        if len(self.records) >= self.max_records:
            raise BufferError
        self._waiting.append(on_delivery)
        self.records.append((topic, value, options))

    def deliver(self, error: KafkaError | None = None) -> None:
        """Complete all queued records with this result."""
        waiting, self._waiting = self._waiting, []
        for report in waiting:
            self._results.put(lambda report=report: report(error, None))  # type: ignore[misc]

    def purge(self, *, blocking: bool) -> None:
        """Drop queued records."""
        assert not blocking
        self.deliver(PURGE_ERROR)
        self._results.put(None)  # wakes `poll`

    def poll(self, timeout_s: float) -> int:
        """Report one result."""
        try:
            result = self._results.get(timeout=timeout_s)
        except queue.Empty:
            return 0
        if result is not None:
            result()
        return 1


class Harness:
    """The producers of a worker, and the batches that jobs write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clients: list[FakeProducer] = []
        self.jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[tuple[str, JobResult]] = queue.SimpleQueue()
        monkeypatch.setattr(module, "Producer", self._producer)
        self.producers = WorkerProducers(lambda batch: self.jobs.put(batch.task.connector), is_local=True)

    def _producer(self, settings: dict[str, str]) -> FakeProducer:
        self.clients.append(FakeProducer(settings))
        return self.clients[-1]

    def batch(self, name: str = "c", table: pa.Table = ROWS, **settings: str) -> PendingBatch:
        """Return a batch of a connector's first task."""
        return PendingBatch(
            task=TaskId(ConnectorName(name), 0),
            table=table,
            topic="t",
            offsets={},
            plan=PLAN,
            done=lambda result: self.done.put((name, result)),
            size=10,
            producer_configs=settings,
        )

    def put(self, name: str = "c", table: pa.Table = ROWS, **settings: str) -> PendingBatch:
        """Send a batch of a run that is identified by the connector's name."""
        batch = self.batch(name, table, **settings)
        self.producers.put(batch, name)
        return batch

    def result(self) -> tuple[str, JobResult]:
        """Wait for the result of a batch."""
        return self.done.get(timeout=WAIT_S)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    harness = Harness(monkeypatch)
    yield harness
    harness.producers.close()
    for thread in threading.enumerate():
        if thread.name == "kraal-worker-producer":
            thread.join(WAIT_S)


def test_batch_completes_when_all_its_records_are_acknowledged(harness: Harness) -> None:
    table = pa.table(
        {
            "value": ["a", None],
            "key": [None, b"k"],
            "headers": [[{"key": "h", "value": b"1"}], None],
            "partition": pa.array([None, 3], pa.int32()),
        }
    )
    harness.put(table=table, acks="all")
    [producer] = harness.clients
    assert producer.settings == {"acks": "all"}
    assert producer.records == [
        ("t", b"a", {"headers": [("h", b"1")]}),
        ("t", None, {"key": b"k", "partition": 3}),
    ]
    assert harness.done.empty()
    producer.deliver()
    _, result = harness.result()
    assert isinstance(result, BatchDone)
    assert result.records == 2
    assert set(result.topics) == {"t"}
    assert result.entry == BatchEntry(counts=Counts(read=None, written=2))


def test_runs_with_equal_settings_share_a_producer_until_the_last_one_ends(harness: Harness) -> None:
    for name in ("c", "d"):
        harness.put(name, acks="all")
    harness.put("e", acks="1")
    assert [producer.settings for producer in harness.clients] == [{"acks": "all"}, {"acks": "1"}]
    for producer in harness.clients:
        producer.deliver()
    assert {harness.result()[0] for _ in range(3)} == {"c", "d", "e"}
    harness.producers.release_producers("c")
    harness.put("d", acks="all")
    assert len(harness.clients) == 2
    harness.clients[0].deliver()
    harness.result()
    harness.producers.release_producers("d")
    harness.put("d", acks="all")
    assert len(harness.clients) == 3
    harness.clients[2].deliver()
    harness.result()


def test_batch_with_a_failed_record_is_repeated_by_a_job(harness: Harness) -> None:
    harness.put()
    harness.clients[0].deliver(TIMEOUT_ERROR)
    assert harness.jobs.get(timeout=WAIT_S) == "c"
    assert harness.done.empty()


def test_fatal_error_replaces_the_producer(harness: Harness) -> None:
    harness.put()
    harness.clients[0].deliver(FATAL_ERROR)
    assert harness.jobs.get(timeout=WAIT_S) == "c"
    harness.put("d")
    first_client, second_client = harness.clients
    assert len(first_client.records) == len(second_client.records) == 2
    second_client.deliver()
    assert harness.result()[0] == "d"


def test_partly_queued_batch_is_repeated_after_its_queued_records_complete(harness: Harness) -> None:
    harness.put("first")
    harness.clients[0].max_records = 3
    harness.put("second")
    assert harness.jobs.empty()
    harness.clients[0].deliver()
    assert harness.result()[0] == "first"
    assert harness.jobs.get(timeout=WAIT_S) == "second"


def test_job_writes_header_names_that_librdkafka_would_truncate(harness: Harness) -> None:
    harness.put(table=pa.table({"value": [b"a"], "headers": [[{"key": "a\0b", "value": b"1"}]]}))
    assert harness.jobs.get(timeout=WAIT_S) == "c"
    assert not harness.clients[0].records


def test_job_writes_batches_with_settings_that_librdkafka_rejects(harness: Harness) -> None:
    harness.put(unknown="1")
    assert harness.jobs.get(timeout=WAIT_S) == "c"


def test_cancelled_batch_has_no_result_and_others_are_sent_again(harness: Harness) -> None:
    batch = harness.put("cancelled")
    harness.put("other")
    assert harness.producers.cancel(batch)
    assert harness.result() == ("cancelled", None)
    assert not harness.producers.cancel(batch)
    while len(harness.clients) < 2:
        threading.Event().wait(0.001)
    while len(harness.clients[1].records) < 2:
        threading.Event().wait(0.001)
    harness.clients[1].deliver()
    name, result = harness.result()
    assert (name, type(result)) == ("other", BatchDone)


def test_full_queue_rejects_batches(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "MAX_WAITING_BYTES", 15)
    assert harness.producers.accepts(2, 10)
    for _ in range(2):
        harness.put()
    assert not harness.producers.accepts(1, 1)
    harness.clients[0].deliver()
    harness.result()
    harness.result()
    assert harness.producers.accepts(1, 1)
    assert not harness.producers.accepts(1001, 10)


def test_worker_producers_accept_no_batches_on_a_spark_cluster() -> None:
    assert not WorkerProducers(lambda _: None, is_local=False).accepts(1, 1)


def test_closed_producers_reject_batches_and_jobs_repeat_pending_ones(harness: Harness) -> None:
    harness.put("under-way")
    harness.producers.close()
    assert harness.jobs.get(timeout=WAIT_S) == "under-way"
    assert not harness.producers.accepts(1, 1)
    harness.put("late")
    assert harness.jobs.get(timeout=WAIT_S) == "late"
