"""Tests for stores whose broker is unavailable, hangs, restarts or compacts. The tests build on each other."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import TypeVar

import pytest

from kraal.broker.broker import Broker, free_port
from kraal.core.errors import Fenced, StoreError, TopicUnusable
from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.core.records import Entry, Record
from kraal.kafka.log import KafkaLog
from kraal.kafka.offset_store import KafkaOffsets
from kraal.kafka.topics import TopicAdmin, ensure_topics
from kraal.kafka.write_failures import config_failure
from kraal.stores.api import Log
from tests.fakes.kafka.internal_topics import internal_topic, options

pytestmark = pytest.mark.ci

TIMEOUT_S = 1.0
MAX_CALL_S = 3 * TIMEOUT_S + 20
"""Maximum duration of a call, which sends several requests, on a slow machine."""
T = TypeVar("T")
CONNECTOR = ConnectorName("x")
PARTITION = SourcePartition.of({"filename": "/a"})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Define a broker that compacts topics immediately, without starting it."""
    compaction_settings = {
        "log.cleaner.backoff.ms": "100",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.initial.task.delay.ms": "100",
    }
    broker = Broker(tmp_path_factory.mktemp("away"), free_port(), extra=compaction_settings)
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[TopicAdmin]:
    client = TopicAdmin(options(broker.bootstrap), client_id="away-shared-admin", timeout_s=TIMEOUT_S)
    yield client
    client.close()


@pytest.fixture(scope="module")
def log(broker: Broker, admin: TopicAdmin) -> Iterator[KafkaLog]:
    """Create a log while the broker is down."""
    log = KafkaLog(
        "away-configs",
        options(broker.bootstrap),
        client_id="away-configs",
        admin=admin,
        transactional_id="connect-cluster-away",
        failure=config_failure,
        timeout_s=TIMEOUT_S,
    )
    yield log
    log.close()


@pytest.fixture(scope="module")
def offsets(broker: Broker, admin: TopicAdmin) -> Iterator[KafkaOffsets]:
    offsets = KafkaOffsets(
        "away-offsets", options(broker.bootstrap), client_id="away", admin=admin, timeout_s=TIMEOUT_S
    )
    yield offsets
    offsets.close()


def read_all(log: Log) -> list[Record]:
    records_read: list[Record] = []
    while records := log.read(records_read[-1].offset + 1 if records_read else 0, 1000):
        records_read += records
    return records_read


def make_state_entry(state: str = "PAUSED") -> Entry:
    return Entry("target-state-a", b'{"state":"%s"}' % state.encode())


CONFIG = Entry("connector-a", b'{"properties":{}}')


@contextmanager
def time_limit() -> Iterator[None]:
    start_s = time.monotonic()
    yield
    assert time.monotonic() - start_s < MAX_CALL_S


def assert_fails(call: Callable[[], object], match: str) -> None:
    with time_limit(), pytest.raises(StoreError, match=match):
        call()


def assert_all_calls_fail(log: Log, offsets: KafkaOffsets, admin: TopicAdmin) -> None:
    assert_fails(lambda: log.read(0, 9), "cannot (look up|read) the")
    assert_fails(lambda: log.read(0, 9, 0.5), "cannot (look up|read) the")
    assert_fails(log.end, "cannot look up the")
    assert_fails(lambda: log.append([make_state_entry()]), "^Error writing target state to Kafka$")
    assert_fails(log.claim, "^Failed to create and initialize fencable producer for config topic$")
    with time_limit(), pytest.raises(Fenced):
        log.append([CONFIG])
    assert_fails(lambda: offsets.load(CONNECTOR), "cannot look up")
    assert_fails(
        lambda: offsets.store({CONNECTOR: {PARTITION: {"position": 1}}}),
        "cannot write source offsets to the topic 'away-offsets'",
    )
    with time_limit(), pytest.raises(StoreError) as raised:
        ensure_topics(admin, [internal_topic("away-configs")])
    assert not isinstance(raised.value, TopicUnusable)
    assert str(raised.value).startswith(
        "Timed out while checking for or creating topic(s) 'away-configs'. This"
    )


def assert_all_calls_succeed(log: Log, offsets: KafkaOffsets) -> list[Record]:
    retry_within(30, lambda: log.read(0, 9))
    retry_within(30, log.claim)
    retry_within(30, lambda: log.append([make_state_entry("STARTED")]))
    retry_within(30, lambda: append_as_leader(log))
    retry_within(30, lambda: offsets.store({CONNECTOR: {PARTITION: {"position": 2}}}))
    assert retry_within(30, lambda: offsets.load(CONNECTOR)) == {PARTITION: {"position": 2}}
    records = retry_within(30, lambda: read_all(log))
    keys = [key for key, _ in groupby(record.key for record in records)]  # a retry may write a record twice
    assert keys[-2:] == ["target-state-a", "connector-a"]
    return records


def append_as_leader(log: Log) -> None:
    """Append a config; after a failure, claim the log again, so that the next attempt can succeed."""
    try:
        log.append([CONFIG])
    except Fenced:
        log.claim()
        raise


def retry_within(seconds: float, call: Callable[[], T]) -> T:
    """Retry a call until it succeeds; after `seconds`, raise its StoreError."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except StoreError:
            if time.monotonic() > deadline:
                raise


def test_calls_fail_quickly_without_broker(
    log: KafkaLog, offsets: KafkaOffsets, admin: TopicAdmin, broker: Broker
) -> None:
    assert_all_calls_fail(log, offsets, admin)
    assert_fails(lambda: log.read(0, 9), "Connection refused")
    assert broker.pid is None


def test_calls_succeed_after_broker_start(
    broker: Broker, log: KafkaLog, offsets: KafkaOffsets, admin: TopicAdmin
) -> None:
    broker.start()
    retry_within(
        30, lambda: ensure_topics(admin, [internal_topic("away-configs"), internal_topic("away-offsets")])
    )
    records = assert_all_calls_succeed(log, offsets)
    keys = [record.key for record in records]
    # A repeated write may have been written the first time, too.
    assert list(dict.fromkeys(keys)) == ["target-state-a", "connector-a"]


def test_calls_fail_quickly_while_broker_hangs(
    broker: Broker, log: KafkaLog, offsets: KafkaOffsets, admin: TopicAdmin
) -> None:
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        assert_all_calls_fail(log, offsets, admin)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert_all_calls_succeed(log, offsets)


def test_log_continues_after_broker_restart(broker: Broker, log: KafkaLog, offsets: KafkaOffsets) -> None:
    position = retry_within(30, lambda: read_all(log))[-1].offset + 1
    broker.stop()
    assert_fails(lambda: log.read(position, 9), "cannot")
    assert_fails(lambda: log.read(position, 9, 0.2), "cannot")
    assert_fails(lambda: log.append([make_state_entry()]), "Error writing target state to Kafka")
    broker.start()
    retry_within(30, lambda: log.append([make_state_entry()]))
    records = retry_within(30, lambda: log.read(position, 9))
    assert "target-state-a" in {record.key for record in records}
    assert_all_calls_succeed(log, offsets)


def test_compaction_leaves_gaps(broker: Broker, admin: TopicAdmin) -> None:
    settings = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
    retry_within(30, lambda: ensure_topics(admin, [internal_topic("compacted", settings=settings)]))

    def make() -> KafkaLog:
        return KafkaLog("compacted", options(broker.bootstrap), client_id="away", admin=admin)

    log = make()
    for number in range(20):
        log.append([Entry(f"connector-{number % 3}", b"%d" % number)])
    deadline = time.monotonic() + 60
    while True:
        log.append([Entry("connector-last", b"")])  # a write after `segment.ms` rolls the segment
        new_log = make()
        records = read_all(new_log)
        compacted_records = [(r.offset, r.value) for r in records if r.key != "connector-last"]
        if compacted_records == [(17, b"17"), (18, b"18"), (19, b"19")]:
            break
        new_log.close()
        assert time.monotonic() < deadline
    position = records[-1].offset + 1
    assert list(new_log.read(position, 9)) == []
    assert new_log.end() >= position
    assert [record.offset for record in new_log.read(3, 1)] == [17]
    log.append([Entry("connector-0", None)])
    assert [(record.key, record.value) for record in new_log.read(position, 9)] == [("connector-0", None)]
    new_log.close()
    log.close()
