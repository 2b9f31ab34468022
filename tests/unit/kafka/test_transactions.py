"""Tests for a task's transactional producer (KIP-618), with a fake producer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from kraal.core.errors import Fenced, StoreError, StoreUnavailable, TopicUnusable
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.kafka import topics
from kraal.kafka import transactions as module
from kraal.kafka.settings import LastClientError
from kraal.kafka.source_transactions import SourceTransactions, producer_settings
from kraal.kafka.transactions import FENCED, OWN_OFFSETS, OffsetTarget, TaskProducer
from kraal.protocol.offsets import encode_key, encode_value
from tests.fakes.kafka.internal_topics import internal_topic
from tests.fakes.kafka.topic_client import TopicClient

X = ConnectorName("x")
TASK = TaskId(X, 0)
PARTITION = SourcePartition.of({"file": "f"})
TIMEOUT_CODE, TOO_LARGE_CODE = KafkaError._MSG_TIMED_OUT, KafkaError.MSG_SIZE_TOO_LARGE
COLUMNS: dict[str, Any] = {"value": [b"1", b"2"], "key": [None, b"k"]}


def delivered_message(size: int) -> Any:
    """Return a record of the topic `lines` as in a delivery report."""
    return SimpleNamespace(
        topic=lambda: "lines", key=lambda: None, value=lambda: b"x" * size, offset=lambda: -1
    )


def make_error(code: int, **flags: Any) -> KafkaException:
    return KafkaException(KafkaError(code, **flags))


@dataclass
class FakeProducer:
    """A fake producer that stores its calls and the produced records.

    A call raises the next error of its list in `call_errors`.
    """

    committed_records: list[tuple[str, bytes | None, bytes | None]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    call_errors: dict[str, list[KafkaException | BufferError]] = field(default_factory=dict)
    open_records: list[tuple[str, bytes | None, bytes | None]] = field(default_factory=list)
    produce_options: list[dict[str, Any]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def record_call(self, name: str) -> None:
        self.calls.append(name)
        if self.call_errors.get(name):
            raise self.call_errors[name].pop(0)

    def __call__(self, settings: dict[str, Any]) -> FakeProducer:
        self.settings = settings
        return self

    def init_transactions(self, _: float) -> None:
        self.record_call("init")

    def begin_transaction(self) -> None:
        self.record_call("begin")

    def produce(self, topic: str, value: bytes | None, key: bytes | None, **options: Any) -> None:
        self.record_call("produce")
        self.open_records.append((topic, key, value))
        self.produce_options.append(options)

    def poll(self, _: float) -> int:
        return 0

    def commit_transaction(self, _: float) -> None:
        self.record_call("commit")
        self.committed_records += self.open_records
        self.open_records = []

    def flush(self, _: float) -> int:
        self.record_call("flush")
        return 0

    def abort_transaction(self, _: float) -> None:
        self.record_call("abort")
        self.open_records = []


@pytest.fixture
def fake_producer(monkeypatch: pytest.MonkeyPatch) -> FakeProducer:
    instance = FakeProducer()
    monkeypatch.setattr(module, "Producer", instance)
    return instance


def producer(*, tracks: bool = False, limit: int | None = None, **target: Any) -> TaskProducer:
    settings = producer_settings({"bootstrap.servers": "b:1"}, {}, TASK, "g", LastClientError())

    def pairs(offsets: Any) -> list[tuple[bytes, bytes | None]]:
        return [(encode_key(X, part), encode_value(offset)) for part, offset in offsets.items()]

    task_producer = TaskProducer(
        settings,
        LastClientError(),
        TASK,
        OffsetTarget(topic="offsets", pairs=pairs, **target),
        tracks=tracks,
        limit_of=lambda _: limit,
        explain_refusal=lambda topic: f"too few replicas of {topic}",
    )
    task_producer.claim(1)
    return task_producer


def test_records_and_offsets_are_committed_together(fake_producer: FakeProducer) -> None:
    reports: list[object] = []
    task_producer = producer(on_stored=reports.append)
    task_producer.write("lines", COLUMNS)
    assert (task_producer.is_open, fake_producer.committed_records, reports) == (True, [], [])
    assert task_producer.commit({PARTITION: {"position": 2}}) == 2
    assert task_producer.is_open is False
    assert fake_producer.committed_records == [
        ("lines", None, b"1"),
        ("lines", b"k", b"2"),
        ("offsets", b'["x",{"file":"f"}]', b'{"position":2}'),
    ]
    assert reports == [{PARTITION: {"position": 2}}]
    assert fake_producer.calls == ["init", "begin", "produce", "produce", "produce", "commit"]


def test_records_keep_topic_headers_partition_and_timestamp(fake_producer: FakeProducer) -> None:
    columns: dict[str, Any] = {
        "topic": ["a", "b"],
        "value": [b"1", None],
        "headers": [[("h", b"v")], None],
        "partition": [3, None],
        "timestamp": [None, 7],
    }
    producer().write(None, columns)
    assert fake_producer.open_records == [("a", None, b"1"), ("b", None, None)]
    assert fake_producer.produce_options == [{"headers": [("h", b"v")], "partition": 3}, {"timestamp": 7}]


def test_only_a_tracking_producer_receives_every_delivery_report(fake_producer: FakeProducer) -> None:
    producer()
    assert fake_producer.settings["delivery.report.only.error"] is True
    producer(tracks=True)
    assert fake_producer.settings["delivery.report.only.error"] is False


def test_offsets_of_delivered_records_are_reported(fake_producer: FakeProducer) -> None:
    task_producer = producer(tracks=True)
    offsets: list[int] = []
    task_producer.write("lines", {"value": [b"1", b"2", b"3"]}, {0: offsets.append, 2: offsets.append})
    assert ["on_delivery" in options for options in fake_producer.produce_options] == [True, False, True]
    first_callback, last_callback = (
        fake_producer.produce_options[0]["on_delivery"],
        fake_producer.produce_options[2]["on_delivery"],
    )
    first_callback(None, SimpleNamespace(offset=lambda: 70))
    last_callback(KafkaError(TOO_LARGE_CODE), delivered_message(1))
    assert offsets == [70]
    fake_producer.call_errors["commit"] = [make_error(KafkaError._STATE, txn_requires_abort=True)]
    with pytest.raises(StoreError, match="too large"):
        task_producer.commit({})


def test_write_waits_for_full_queue(fake_producer: FakeProducer) -> None:
    fake_producer.call_errors["produce"] = [BufferError(), BufferError()]
    producer().write("lines", COLUMNS)
    assert len(fake_producer.open_records) == 2


def test_offsets_without_records_are_committed(fake_producer: FakeProducer) -> None:
    assert producer().commit({PARTITION: None}) == 0
    assert fake_producer.committed_records == [("offsets", b'["x",{"file":"f"}]', None)]


@pytest.mark.parametrize("call", ["produce", "commit"])
def test_retriable_error_aborts_transaction(fake_producer: FakeProducer, call: str) -> None:
    task_producer = producer()
    fake_producer.call_errors[call] = [make_error(TIMEOUT_CODE, txn_requires_abort=True)]
    with pytest.raises(StoreUnavailable, match=r"^Failed to flush offsets and/or records for task x-0: "):
        write_and_commit(task_producer)
    assert fake_producer.calls[-1] == "abort"
    assert (fake_producer.open_records, fake_producer.committed_records, task_producer.is_open) == (
        [],
        [],
        False,
    )
    write_and_commit(task_producer)
    assert len(fake_producer.committed_records) == 3


def test_record_timeout_error_explains_topic_state(fake_producer: FakeProducer) -> None:
    task_producer = producer()
    fake_producer.call_errors["commit"] = [make_error(TIMEOUT_CODE, txn_requires_abort=True)]
    task_producer.write("lines", COLUMNS)
    fake_producer.settings["on_delivery"](KafkaError(TIMEOUT_CODE), delivered_message(1))
    with pytest.raises(StoreUnavailable, match="Message timed out: too few replicas of lines"):
        task_producer.commit({})


def test_permanent_error_aborts_transaction(fake_producer: FakeProducer) -> None:
    task_producer = producer(limit=1000)
    fake_producer.call_errors["commit"] = [make_error(TIMEOUT_CODE, txn_requires_abort=True)]
    task_producer.write("lines", COLUMNS)
    fake_producer.settings["on_delivery"](KafkaError(TOO_LARGE_CODE), delivered_message(5000))
    with pytest.raises(StoreError) as error:
        task_producer.commit({})
    assert not isinstance(error.value, StoreUnavailable)
    assert (
        "A record of 5000 bytes for the topic 'lines' is larger than max.message.bytes=1000 of the topic"
        in (str(error.value))
    )
    assert fake_producer.committed_records == []


def test_batches_are_flushed_at_topic_limit(fake_producer: FakeProducer) -> None:
    columns: dict[str, Any] = {"value": [b"x" * 300] * 4, "topic": ["small", "other", "small", "small"]}
    task_producer = producer(limit=1000)
    task_producer.write(None, columns)
    assert fake_producer.calls == ["init", "begin", "produce", "produce", "flush", "produce", "produce"]
    task_producer.commit({})
    assert len(fake_producer.committed_records) == 4


def test_large_topic_limit_causes_no_flush(fake_producer: FakeProducer) -> None:
    producer(limit=1_048_588).write("large", {"value": [b"x" * 200_000] * 4})
    assert "flush" not in fake_producer.calls


def test_batches_shrink_for_topic_with_unknown_limit(fake_producer: FakeProducer) -> None:
    task_producer = producer()
    sizes, errors = [], []
    for _ in range(4):
        fake_producer.calls.clear()
        task_producer.write("lines", {"value": [b"x" * 3000] * 500})
        sizes.append(1 + fake_producer.calls.count("flush"))
        fake_producer.call_errors["commit"] = [make_error(TIMEOUT_CODE, txn_requires_abort=True)]
        fake_producer.settings["on_delivery"](KafkaError(TOO_LARGE_CODE), delivered_message(3000))
        with pytest.raises(StoreError) as exc_info:
            task_producer.commit({})
        errors.append(exc_info.value)
    assert sizes == [1, 24, 100, 500]
    assert [type(error) for error in errors] == [StoreUnavailable] * 3 + [StoreError], (
        "4096 bytes are sufficient for one record"
    )
    assert "A record of 3000 bytes" in str(errors[-1])


def test_oversized_record_error_names_setting(fake_producer: FakeProducer) -> None:
    fake_producer.call_errors["produce"] = [make_error(TOO_LARGE_CODE)]
    with pytest.raises(StoreError, match=r"raise producer\.override\.max\.request\.size") as error:
        producer().write("lines", {"value": [b"x" * 2_000_000]})
    assert not isinstance(error.value, StoreUnavailable)
    assert "is larger than max.request.size=1048576 of the producer" in str(error.value)


def test_commit_without_response_is_retried(fake_producer: FakeProducer) -> None:
    fake_producer.call_errors["commit"] = [make_error(KafkaError._TIMED_OUT, retriable=True)] * 3
    write_and_commit(producer())
    assert fake_producer.calls.count("commit") == 4
    assert len(fake_producer.committed_records) == 3


@pytest.mark.parametrize("call", ["begin", "produce", "commit"])
def test_fenced_producer_has_connects_error_without_abort(fake_producer: FakeProducer, call: str) -> None:
    task_producer = producer()
    fake_producer.call_errors[call] = [make_error(KafkaError._FENCED, fatal=True)]
    with pytest.raises(Fenced) as error:
        write_and_commit(task_producer)
    assert str(error.value) == FENCED
    assert "abort" not in fake_producer.calls


def test_expired_transaction_has_connects_error(
    fake_producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    task_producer = producer()
    task_producer.write("lines", COLUMNS)
    now[0] = 61.0
    fake_producer.call_errors["commit"] = [make_error(KafkaError.INVALID_PRODUCER_EPOCH, fatal=True)]
    with pytest.raises(Fenced, match="was unable to finish writing records to Kafka before its producer tr"):
        task_producer.commit({})


def test_failed_abort_is_retried_before_next_write(fake_producer: FakeProducer) -> None:
    task_producer = producer()
    fake_producer.call_errors["commit"] = [make_error(TIMEOUT_CODE, txn_requires_abort=True)]
    fake_producer.call_errors["abort"] = [make_error(KafkaError._STATE)]
    with pytest.raises(StoreUnavailable):
        write_and_commit(task_producer)
    assert not task_producer.is_open
    write_and_commit(task_producer)
    assert fake_producer.calls.count("abort") == 2
    assert len(fake_producer.committed_records) == 3


class WorkerOffsets:
    """A fake of the worker's offset topic, which is used in addition to the connector's offset topic."""

    def __init__(self, fake_producer: FakeProducer, error: StoreError | None = None) -> None:
        self.producer = fake_producer
        self.error = error
        self.store_calls: list[tuple[bool, object]] = []
        """For each call, whether the transaction had already been committed, and the stored offsets."""

    def store(self, changes: Any) -> None:
        self.store_calls.append((bool(self.producer.committed_records), changes[X]))
        if self.error is not None:
            raise self.error


def make_transactions(monkeypatch: pytest.MonkeyPatch, worker_offsets: WorkerOffsets) -> SourceTransactions:
    """Return the transactions of a worker for a connector with its own offset topic."""

    def pairs(connector: ConnectorName, offsets: Any) -> list[tuple[bytes, bytes | None]]:
        return [(encode_key(connector, part), encode_value(offset)) for part, offset in offsets.items()]

    topic: Any = SimpleNamespace(name="offsets")
    store: Any = worker_offsets
    transactions = SourceTransactions(
        {"bootstrap.servers": "b:1"}, group_id="g", topic=topic, worker_offsets=store, client_id_base=""
    )
    monkeypatch.setattr(
        transactions, "_offset_topic", lambda _: SimpleNamespace(store=SimpleNamespace(pairs=pairs))
    )
    return transactions


def test_offsets_are_deleted_from_workers_topic_first(
    fake_producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker_offsets, other_partition = WorkerOffsets(fake_producer), SourcePartition.of({"file": "g"})
    transactions = make_transactions(monkeypatch, worker_offsets)
    transactions.alter(
        X, {"offsets.storage.topic": "own"}, {PARTITION: None, other_partition: {"position": 1}}
    )
    assert {topic for topic, _, _ in fake_producer.committed_records} == {"own"}
    assert worker_offsets.store_calls == [
        (False, {PARTITION: None}),
        (True, {other_partition: {"position": 1}}),
    ]


@pytest.mark.parametrize("error", [StoreError("no response"), TopicUnusable("not compacted")])
def test_failed_deletion_in_workers_topic_prevents_commit(
    fake_producer: FakeProducer, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    transactions = make_transactions(monkeypatch, WorkerOffsets(fake_producer, error))
    with pytest.raises(StoreError, match=str(error)) as exc_info:
        transactions.alter(X, {"offsets.storage.topic": "own"}, {PARTITION: None})
    assert isinstance(exc_info.value, StoreUnavailable) is not isinstance(error, TopicUnusable)
    assert (fake_producer.calls[-1], fake_producer.committed_records) == ("abort", [])


def test_failed_copy_to_workers_topic_is_tolerated(
    fake_producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = make_transactions(monkeypatch, WorkerOffsets(fake_producer, StoreError("no response")))
    transactions.alter(X, {"offsets.storage.topic": "own"}, {PARTITION: {"position": 1}})
    assert len(fake_producer.committed_records) == 1


def test_task_cannot_write_to_its_offset_topic(fake_producer: FakeProducer) -> None:
    task_producer = producer()
    with pytest.raises(StoreError, match=OWN_OFFSETS):
        task_producer.write("offsets", COLUMNS)
    with pytest.raises(StoreError, match=OWN_OFFSETS):
        task_producer.write(None, {"topic": ["a", "offsets"], "value": [b"1", b"2"]})
    assert "begin" not in fake_producer.calls


def test_close_aborts_open_transaction(fake_producer: FakeProducer) -> None:
    task_producer = producer()
    task_producer.write("lines", COLUMNS)
    task_producer.close()
    task_producer.close()
    assert fake_producer.calls[-1] == "abort"
    assert fake_producer.calls.count("abort") == 1
    with pytest.raises(StoreError, match="is closed"):
        task_producer.write("lines", COLUMNS)


@pytest.mark.parametrize(
    ("code", "error_type"),
    [
        (KafkaError._TRANSPORT, StoreUnavailable),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, StoreError),
    ],
)
def test_claim_errors_are_transient_or_permanent(
    fake_producer: FakeProducer, code: int, error_type: type[StoreError]
) -> None:
    fake_producer.call_errors["init"] = [make_error(code)]
    with pytest.raises(StoreError) as error:
        producer()
    assert type(error.value) is error_type


def test_producer_settings_limit_timeouts_to_transaction_timeout() -> None:
    worker = {"bootstrap.servers": "b:1", "producer.transaction.timeout.ms": "20000"}
    connector = {
        "producer.override.transactional.id": "mine",
        "producer.override.enable.idempotence": "false",
        "producer.override.acks": "1",
        "producer.override.delivery.timeout.ms": "2147483647",
        "producer.override.request.timeout.ms": "300000",
        "producer.override.max.in.flight.requests.per.connection": "9",
        "producer.override.linger.ms": "50",
    }
    settings = producer_settings(worker, connector, TASK, "g", LastClientError())
    expected = {
        "transactional.id": "g-x-0",
        "client.id": "connector-producer-x-0",
        "enable.idempotence": "true",
        "acks": "all",
        "transaction.timeout.ms": "20000",
        "delivery.timeout.ms": "20000",
        "socket.timeout.ms": "20000",
        "max.in.flight.requests.per.connection": "5",
        "linger.ms": "50",
        "compression.type": "lz4",
    }
    assert {name: settings[name] for name in expected} == expected


def test_transaction_timeout_can_exceed_socket_timeout() -> None:
    worker = {"bootstrap.servers": "127.0.0.1:1", "producer.transaction.timeout.ms": "900000"}
    settings = producer_settings(worker, {}, TASK, "g", LastClientError())
    assert settings["transaction.timeout.ms"] == "900000"
    del settings["bootstrap.servers"]  # avoids reports of connection errors
    assert len(Producer({**settings, "log_level": 0})) == 0, "librdkafka accepts the settings"


def write_and_commit(task_producer: TaskProducer) -> None:
    task_producer.write("lines", COLUMNS)
    task_producer.commit({PARTITION: {"position": 2}})


def test_missing_offset_topic_is_an_error_without_creation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = TopicClient({})
    monkeypatch.setattr(topics, "AdminClient", lambda _: client)
    worker_offsets: Any = None
    transactions = SourceTransactions(
        {"bootstrap.servers": "b:1"},
        group_id="g",
        topic=internal_topic("offsets"),
        worker_offsets=worker_offsets,
        client_id_base="",
        creates_topics=False,
    )
    with pytest.raises(
        TopicUnusable, match=r"^Topic 'own' specified via the 'offsets.storage.topic' property is missing"
    ):
        transactions.load(X, {"offsets.storage.topic": "own"})
    assert client.created == []
