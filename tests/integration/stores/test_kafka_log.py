"""Tests for a log that workers share. Mirrors KafkaBasedLogTest and KafkaConfigBackingStoreTest."""

from __future__ import annotations

import logging
import struct
import sys
import threading
import time

import pytest

from kraal.broker.broker import Broker
from kraal.core.errors import RecordTooLarge, StoreError
from kraal.core.records import Entry, Record
from kraal.kafka.log import KafkaLog
from kraal.kafka.topics import TopicAdmin, ensure_topics
from kraal.kafka.write_failures import config_failure
from kraal.stores.api import Log
from tests.fakes.kafka.internal_topics import (
    delete_records,
    delete_topic,
    fresh_topic,
    internal_topic,
    options,
    produce,
)
from tests.integration.stores.conftest import MakeLog

pytestmark = pytest.mark.releases


def make_entries(prefix: str, count: int) -> list[Entry]:
    return [Entry(f"connector-{prefix}-{number}", b"{}") for number in range(count)]


def read_all(log: Log, start: int = 0, limit: int = 100) -> list[Record]:
    result: list[Record] = []
    while records := log.read(result[-1].offset + 1 if result else start, limit):
        result += records
    return result


def get_keys(records: list[Record]) -> list[str]:
    return [record.key for record in records]


def test_workers_read_each_others_records_in_same_order(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin)
    first_log, second_log = make_log(topic), make_log(topic)
    keys = []
    for number in range(20):
        log = (first_log, second_log)[number % 2]
        log.append([Entry(f"connector-{number}", b"{}")])
        keys.append(f"connector-{number}")
    assert get_keys(read_all(first_log)) == get_keys(read_all(second_log)) == keys
    assert read_all(first_log) == read_all(second_log)


def test_refused_sizes_are_reported_and_smaller_writes_succeed(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin, settings={"max.message.bytes": "1000"})
    log = make_log(topic)
    entries = [Entry(f"connector-{number}", b"x" * 600) for number in range(2)]
    with pytest.raises(RecordTooLarge, match="cannot write to the topic"):
        log.append(entries)
    with pytest.raises(RecordTooLarge):
        log.append([Entry("connector-a", b"x" * 2000)])
    for entry in entries:
        log.append([entry])
    assert get_keys(read_all(log)) == ["connector-0", "connector-1"]


def test_concurrent_writes_are_read_in_same_order(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin)
    logs = [make_log(topic) for _ in range(3)]

    def write(log: KafkaLog, name: str) -> None:
        for entry in make_entries(name, 60):
            log.append([entry])

    threads = [threading.Thread(target=write, args=(log, f"w{n}")) for n, log in enumerate(logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    records_by_log = [read_all(log, limit=7) for log in logs]
    assert records_by_log[0] == records_by_log[1] == records_by_log[2]
    for number in range(3):
        keys = [key for key in get_keys(records_by_log[0]) if key.startswith(f"connector-w{number}-")]
        assert keys == [entry.key for entry in make_entries(f"w{number}", 60)]
    assert [record.offset for record in records_by_log[0]] == list(range(180))


def test_waiting_read_returns_after_write_of_other_worker(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin)
    reader, writer = make_log(topic), make_log(topic)
    assert list(reader.read(0, 9)) == []
    records: list[Record] = []
    reading_thread = threading.Thread(target=lambda: records.extend(reader.read(0, 9, 60.0)), daemon=True)
    reading_thread.start()
    writer.append(make_entries("a", 2))
    start_s = time.monotonic()
    reading_thread.join(30)
    assert get_keys(records) == ["connector-a-0", "connector-a-1"]
    assert time.monotonic() - start_s < 25


def test_read_without_wait_is_empty_only_at_end(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin)
    reader, writer = make_log(topic), make_log(topic)
    for number in range(100):
        writer.append([Entry("connector-a", b"%d" % number)])
        assert [record.value for record in reader.read(number, 9)] == [b"%d" % number]
        assert list(reader.read(number + 1, 9)) == []


def test_close_interrupts_waiting_read(admin: TopicAdmin, make_log: MakeLog) -> None:
    log = make_log(fresh_topic(admin))
    log.read(0, 1)
    errors: list[str] = []

    def wait() -> None:
        with pytest.raises(StoreError) as raised:
            log.read(0, 1, 60.0)
        errors.append(str(raised.value))

    reading_thread = threading.Thread(target=wait, daemon=True)
    reading_thread.start()
    log.close()
    reading_thread.join(20)
    assert len(errors) == 1
    assert "closed" in errors[0]


def test_invalid_keys_are_returned_and_logged(
    admin: TopicAdmin, make_log: MakeLog, bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = fresh_topic(admin)
    produce(bootstrap, topic, [(b"connector-\xff\xfe", b"1"), (b"", b"2"), (b"connector-a", b"not json")])
    with caplog.at_level(logging.WARNING):
        records = read_all(make_log(topic))
    assert [(r.offset, r.key, r.value) for r in records] == [
        (0, "connector-\ufffd\ufffd", b"1"),
        (1, "", b"2"),
        (2, "connector-a", b"not json"),
    ]
    assert f"at offset 0 of {topic}-0 is not UTF-8" in caplog.text


def test_key_with_surrogate_cannot_be_written(admin: TopicAdmin, make_log: MakeLog) -> None:
    with pytest.raises(StoreError, match="not valid text"):
        make_log(fresh_topic(admin)).append([Entry("connector-\udcff", b"")])


def test_oversized_record_has_connects_error(admin: TopicAdmin, bootstrap: str) -> None:
    topic = fresh_topic(admin)
    log = KafkaLog(topic, options(bootstrap), client_id="t", admin=admin, failure=config_failure)
    try:
        oversized_value = b'{"properties":{"a":"' + b"x" * 2_000_000 + b'"}}'
        with pytest.raises(StoreError) as raised:
            log.append([Entry("connector-a", b'{"properties":{}}'), Entry("connector-b", oversized_value)])
        assert str(raised.value) == "Error writing connector configuration to Kafka"
        assert "too large" in str(raised.value.__cause__)
        log.append([Entry("connector-c", b'{"properties":{}}')])
        assert "connector-b" not in get_keys(read_all(log))
        assert get_keys(read_all(log))[-1] == "connector-c"
    finally:
        log.close()


def test_missing_topic_is_an_error_and_not_created(make_log: MakeLog) -> None:
    log = make_log("never-created")
    for _ in range(2):
        with pytest.raises(
            StoreError, match="the topic 'never-created' does not exist on the brokers at 127"
        ):
            log.read(0, 1)
        with pytest.raises(StoreError, match="the topic 'never-created' does not exist"):
            log.end()
        with pytest.raises(StoreError, match="the topic 'never-created' does not exist"):
            log.append(make_entries("a", 1))


def test_deleted_topic_is_an_error_until_read_from_start(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin)
    log = make_log(topic)
    log.append(make_entries("old", 5))
    assert len(read_all(log)) == 5
    delete_topic(admin, topic)
    error = append_until_error(log)  # brokers delete the topic shortly after
    assert "does not exist" in str(error)
    ensure_topics(admin, [internal_topic(topic)])  # also waits until the broker has the topic
    make_log(topic).append(make_entries("new", 8))
    error = append_until_error(log)
    assert "was deleted and created again since it was read; restart the worker" in str(error)
    assert get_keys(read_all(log)) == [entry.key for entry in make_entries("new", 8)]


def append_until_error(log: Log) -> StoreError:
    while True:
        try:
            assert list(log.read(5, 9, 0.1)) == []
        except StoreError as error:
            return error


def test_deleted_records_are_skipped(
    admin: TopicAdmin, make_log: MakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    topic = fresh_topic(admin)
    log, late_reader = make_log(topic), make_log(topic)
    log.append(make_entries("a", 10))
    assert [record.offset for record in late_reader.read(0, 3)] == [0, 1, 2]
    delete_records(admin, topic, 0, before=6)
    assert [record.offset for record in read_all(make_log(topic))] == [6, 7, 8, 9]
    with caplog.at_level(logging.WARNING):
        assert [record.offset for record in late_reader.read(2, 9)] == [6, 7, 8, 9]
    assert f"Records 2 to 5 of {topic}-0 were deleted before they were read" in caplog.text


def test_append_writes_one_batch(admin: TopicAdmin, make_log: MakeLog, kafka: Broker) -> None:
    topic = fresh_topic(admin)
    log = make_log(topic)
    for count in (1, 5, 2, 300):
        log.append(make_entries("a", count))
    assert read_batch_sizes(kafka, topic) == [1, 5, 2, 300]


def read_batch_sizes(kafka: Broker, topic: str) -> list[int]:
    """Return the number of records in each batch of a topic's first segment."""
    data = (kafka.data_dir / "logs" / f"{topic}-0" / f"{0:020}.log").read_bytes()
    counts: list[int] = []
    position = 0
    while position < len(data):
        length, count = (
            struct.unpack_from(">i", data, position + 8)[0],
            struct.unpack_from(">i", data, position + 57)[0],
        )
        counts.append(count)
        position += 12 + length
    return counts


def test_long_topic_is_read_quickly(
    admin: TopicAdmin, make_log: MakeLog, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = fresh_topic(admin)
    writer = make_log(topic)
    value = b'{"properties":{"connector.class":"FileStreamSource","file":"/var/log/app","topic":"lines"}}'
    for batch in range(50):
        writer.append([Entry(f"connector-{batch}-{number}", value) for number in range(2000)])
    log = make_log(topic)
    start_s = time.monotonic()
    records = read_all(log, limit=5000)
    duration_s = time.monotonic() - start_s
    with capsys.disabled():
        sys.stdout.write(f"\n100,000 records of the config topic were read in {duration_s:.2f} s\n")
    assert [record.offset for record in records] == list(range(100_000))
    assert duration_s < 60
