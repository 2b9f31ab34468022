"""A log that several workers share, on a real broker. Mirrors KafkaBasedLogTest, KafkaConfigBackingStoreTest."""

from __future__ import annotations

import logging
import struct
import sys
import threading
import time

import pytest

from kraal.broker.broker import Broker
from kraal.core.errors import StoreError
from kraal.core.records import Entry, Record
from kraal.kafka.log import KafkaLog
from kraal.kafka.topics import TopicAdmin
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


def entries(prefix: str, count: int) -> list[Entry]:
    return [Entry(f"connector-{prefix}-{number}", b"{}") for number in range(count)]


def read_all(log: Log, start: int = 0, limit: int = 100) -> list[Record]:
    found: list[Record] = []
    while records := log.read(found[-1].offset + 1 if found else start, limit):
        found += records
    return found


def keys(records: list[Record]) -> list[str]:
    return [record.key for record in records]


def test_two_workers_see_each_others_records_in_one_order(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin)
    ours, theirs = make_log(topic), make_log(topic)
    written = []
    for number in range(20):
        log = (ours, theirs)[number % 2]
        log.append([Entry(f"connector-{number}", b"{}")])
        written.append(f"connector-{number}")
    assert keys(read_all(ours)) == keys(read_all(theirs)) == written
    assert read_all(ours) == read_all(theirs)


def test_concurrent_writes_are_read_in_the_same_order_everywhere(
    admin: TopicAdmin, make_log: MakeLog
) -> None:
    topic = fresh_topic(admin)
    logs = [make_log(topic) for _ in range(3)]

    def write(log: KafkaLog, name: str) -> None:
        for entry in entries(name, 60):
            log.append([entry])

    threads = [threading.Thread(target=write, args=(log, f"w{n}")) for n, log in enumerate(logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    seen = [read_all(log, limit=7) for log in logs]
    assert seen[0] == seen[1] == seen[2]
    for number in range(3):
        own = [key for key in keys(seen[0]) if key.startswith(f"connector-w{number}-")]
        assert own == [entry.key for entry in entries(f"w{number}", 60)]
    assert [record.offset for record in seen[0]] == list(range(180))


def test_a_waiting_read_returns_when_another_worker_writes(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin)
    reader, writer = make_log(topic), make_log(topic)
    assert list(reader.read(0, 9)) == []
    found: list[Record] = []
    waiting = threading.Thread(target=lambda: found.extend(reader.read(0, 9, 60.0)), daemon=True)
    waiting.start()
    writer.append(entries("a", 2))
    begun = time.monotonic()
    waiting.join(30)
    assert keys(found) == ["connector-a-0", "connector-a-1"]
    assert time.monotonic() - begun < 25


def test_a_read_that_may_not_wait_returns_nothing_only_at_the_end(
    admin: TopicAdmin, make_log: MakeLog
) -> None:
    topic = fresh_topic(admin)
    reader, writer = make_log(topic), make_log(topic)
    for number in range(100):
        writer.append([Entry("connector-a", b"%d" % number)])
        assert [record.value for record in reader.read(number, 9)] == [b"%d" % number]
        assert list(reader.read(number + 1, 9)) == []


def test_closing_ends_a_read_that_waits(admin: TopicAdmin, make_log: MakeLog) -> None:
    log = make_log(fresh_topic(admin))
    log.read(0, 1)
    ended: list[str] = []

    def wait() -> None:
        with pytest.raises(StoreError) as raised:
            log.read(0, 1, 60.0)
        ended.append(str(raised.value))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    log.close()
    waiting.join(20)
    assert len(ended) == 1
    assert "closed" in ended[0]


def test_keys_that_are_not_text_are_passed_on_and_named(
    admin: TopicAdmin, make_log: MakeLog, bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = fresh_topic(admin)
    produce(bootstrap, topic, [(b"connector-\xff\xfe", b"1"), (b"", b"2"), (b"connector-a", b"not json")])
    with caplog.at_level(logging.WARNING):
        found = read_all(make_log(topic))
    assert [(r.offset, r.key, r.value) for r in found] == [
        (0, "connector-\ufffd\ufffd", b"1"),
        (1, "", b"2"),
        (2, "connector-a", b"not json"),
    ]
    assert f"{topic}-0 at 0 is not UTF-8" in caplog.text


def test_a_key_that_cannot_be_written_as_text_is_an_error(admin: TopicAdmin, make_log: MakeLog) -> None:
    with pytest.raises(StoreError, match="not valid text"):
        make_log(fresh_topic(admin)).append([Entry("connector-\udcff", b"")])


def test_a_record_that_is_too_large_is_an_error_in_connects_words(admin: TopicAdmin, bootstrap: str) -> None:
    topic = fresh_topic(admin)
    log = KafkaLog(topic, options(bootstrap), client_id="t", admin=admin, failure=config_failure)
    try:
        huge = b'{"properties":{"a":"' + b"x" * 2_000_000 + b'"}}'
        with pytest.raises(StoreError) as raised:
            log.append([Entry("connector-a", b'{"properties":{}}'), Entry("connector-b", huge)])
        assert str(raised.value) == "Error writing connector configuration to Kafka"
        assert "too large" in str(raised.value.__cause__)
        log.append([Entry("connector-c", b'{"properties":{}}')])
        assert "connector-b" not in keys(read_all(log))
        assert keys(read_all(log))[-1] == "connector-c"
    finally:
        log.close()


def test_a_topic_that_does_not_exist_is_named_and_not_made(make_log: MakeLog) -> None:
    log = make_log("never-made")
    for _ in range(2):
        with pytest.raises(StoreError, match="the topic 'never-made' does not exist on the brokers at 127"):
            log.read(0, 1)
        with pytest.raises(StoreError, match="the topic 'never-made' does not exist"):
            log.end()
        with pytest.raises(StoreError, match="the topic 'never-made' does not exist"):
            log.append(entries("a", 1))


def test_a_deleted_topic_is_an_error_and_a_recreated_one_is_read_from_its_start(
    admin: TopicAdmin, make_log: MakeLog
) -> None:
    topic = fresh_topic(admin)
    log = make_log(topic)
    log.append(entries("old", 5))
    assert len(read_all(log)) == 5
    delete_topic(admin, topic)
    refused = until_refused(log)  # brokers forget it within moments
    assert "does not exist" in str(refused)
    admin.create(internal_topic(topic))
    make_log(topic).append(entries("new", 8))
    refused = until_refused(log)
    assert "was deleted and created again since it was read; restart the worker" in str(refused)
    assert keys(read_all(log)) == [entry.key for entry in entries("new", 8)]


def until_refused(log: Log) -> StoreError:
    while True:
        try:
            assert list(log.read(5, 9, 0.1)) == []
        except StoreError as error:
            return error


def test_records_that_an_administrator_deleted_are_passed_over(
    admin: TopicAdmin, make_log: MakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    topic = fresh_topic(admin)
    log, late = make_log(topic), make_log(topic)
    log.append(entries("a", 10))
    assert [record.offset for record in late.read(0, 3)] == [0, 1, 2]
    delete_records(admin, topic, 0, before=6)
    assert [record.offset for record in read_all(make_log(topic))] == [6, 7, 8, 9]
    with caplog.at_level(logging.WARNING):
        assert [record.offset for record in late.read(2, 9)] == [6, 7, 8, 9]
    assert f"Records 2 to 5 of {topic}-0 were deleted before they were read" in caplog.text


def test_records_appended_together_are_one_atomic_batch(
    admin: TopicAdmin, make_log: MakeLog, kafka: Broker
) -> None:
    topic = fresh_topic(admin)
    log = make_log(topic)
    for count in (1, 5, 2, 300):
        log.append(entries("a", count))
    assert batches(kafka, topic) == [1, 5, 2, 300]


def batches(kafka: Broker, topic: str) -> list[int]:
    """Return the number of records in each batch of a topic's first segment."""
    data = (kafka.data_dir / "logs" / f"{topic}-0" / f"{0:020}.log").read_bytes()
    found: list[int] = []
    at = 0
    while at < len(data):
        length, count = struct.unpack_from(">i", data, at + 8)[0], struct.unpack_from(">i", data, at + 57)[0]
        found.append(count)
        at += 12 + length
    return found


def test_a_long_topic_is_read_quickly(
    admin: TopicAdmin, make_log: MakeLog, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = fresh_topic(admin)
    writer = make_log(topic)
    value = b'{"properties":{"connector.class":"FileStreamSource","file":"/var/log/app","topic":"lines"}}'
    for batch in range(50):
        writer.append([Entry(f"connector-{batch}-{number}", value) for number in range(2000)])
    log = make_log(topic)
    begun = time.monotonic()
    found = read_all(log, limit=5000)
    passed_s = time.monotonic() - begun
    with capsys.disabled():
        sys.stdout.write(f"\n100,000 records of the config topic were read in {passed_s:.2f} s\n")
    assert [record.offset for record in found] == list(range(100_000))
    assert passed_s < 10
