"""Tests for the leader's transactional writes (KIP-618). Mirrors KafkaConfigBackingStoreTest's fencable writes."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import Producer

from kraal.core.errors import Fenced
from kraal.core.records import Entry
from kraal.kafka.topics import TopicAdmin
from kraal.stores.api import Log
from tests.fakes.kafka.internal_topics import fresh_topic, options
from tests.integration.stores.conftest import MakeLog

pytestmark = pytest.mark.releases

MESSAGE = "Failed to write to config topic; this may be due to a transient error and the request can be safely retried"
PAUSE = Entry("target-state-a", b'{"state":"PAUSED","state.v2":"PAUSED"}')
LOGGER = Entry("logger-cluster-root", b'{"level":"DEBUG"}')


def config_entry(name: str) -> Entry:
    return Entry(f"connector-{name}", b'{"properties":{}}')


def read_keys(log: Log) -> list[str]:
    keys: list[str] = []
    position = 0
    while records := log.read(position, 3):
        keys += [record.key for record in records]
        position = records[-1].offset + 1
    return keys


def test_older_leader_is_fenced_and_its_records_are_invisible(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin)
    old_leader, new_leader = make_log(topic, in_transactions=True), make_log(topic, in_transactions=True)
    old_leader.claim()
    old_leader.append([config_entry("a"), config_entry("b")])
    new_leader.claim()
    with pytest.raises(Fenced) as raised:
        old_leader.append([config_entry("lost"), Entry("target-state-lost", None)])
    assert str(raised.value) == MESSAGE
    new_leader.append([config_entry("c")])
    with pytest.raises(Fenced, match="safely retried"):
        old_leader.append([config_entry("lost")])
    # A log waits only for the end of its own transactions, so the log with the last transaction is read first.
    assert read_keys(new_leader) == read_keys(old_leader) == ["connector-a", "connector-b", "connector-c"]


def test_fenced_leader_can_claim_again(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin)
    first_log, second_log = make_log(topic, in_transactions=True), make_log(topic, in_transactions=True)
    for number in range(3):
        for name, log in (("one", first_log), ("two", second_log)):
            log.claim()
            log.append([config_entry(f"{name}-{number}")])
    keys = [f"connector-{name}-{number}" for number in range(3) for name in ("one", "two")]
    # A log waits only for the end of its own transactions, so the log with the last transaction is read first.
    assert read_keys(second_log) == read_keys(first_log) == keys
    with pytest.raises(Fenced):
        first_log.append([config_entry("lost")])


def test_worker_without_claim_writes_only_unrestricted_keys(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin)
    follower, leader = make_log(topic, in_transactions=True), make_log(topic, in_transactions=True)
    leader.claim()
    for entries in ([config_entry("a")], [PAUSE, config_entry("a")], [Entry("session-key", b"{}")]):
        with pytest.raises(Fenced):
            follower.append(entries)
    follower.append([PAUSE])
    follower.append([LOGGER, PAUSE])
    leader.append([config_entry("a")])
    assert read_keys(leader) == ["target-state-a", "logger-cluster-root", "target-state-a", "connector-a"]


def test_transaction_markers_leave_gaps(admin: TopicAdmin, make_log: MakeLog) -> None:
    log = make_log(fresh_topic(admin), in_transactions=True)
    log.claim()
    for number in range(20):
        offset = log.append([config_entry(str(number))])
        assert offset == 2 * number
        assert [record.key for record in log.read(offset, 5)] == [f"connector-{number}"]
        assert list(log.read(offset + 1, 5)) == []
    assert log.end() == 40


def test_aborted_transaction_is_skipped_without_delay(
    admin: TopicAdmin, make_log: MakeLog, bootstrap: str
) -> None:
    topic = fresh_topic(admin)
    log = make_log(topic, in_transactions=True)
    other_leader = begin_as_other_leader(bootstrap, topic)
    other_leader.produce(topic, b"{}", b"connector-aborted")
    other_leader.flush(10)
    other_leader.abort_transaction(10)
    assert list(log.read(0, 9)) == []
    log.claim()
    log.append([config_entry("a")])
    assert read_keys(log) == ["connector-a"]


def test_log_ends_before_open_transaction(admin: TopicAdmin, make_log: MakeLog, bootstrap: str) -> None:
    topic = fresh_topic(admin)
    log = make_log(topic, in_transactions=True)
    log.append([PAUSE])
    other_leader = begin_as_other_leader(bootstrap, topic)
    other_leader.produce(topic, b"{}", b"connector-open")
    other_leader.flush(10)
    log.append([LOGGER])
    assert log.end() == 1
    assert read_keys(log) == ["target-state-a"]
    keys: list[str] = []
    reading_thread = threading.Thread(
        target=lambda: keys.extend(r.key for r in log.read(1, 9, 60.0)), daemon=True
    )
    reading_thread.start()
    other_leader.commit_transaction(10)
    reading_thread.join(30)
    assert keys[0] == "connector-open"
    assert read_keys(log) == ["target-state-a", "connector-open", "logger-cluster-root"]
    assert log.end() == 4


def test_claim_aborts_open_transaction_of_dead_leader(
    admin: TopicAdmin, make_log: MakeLog, bootstrap: str
) -> None:
    topic = fresh_topic(admin)
    dead_leader = begin_as_other_leader(bootstrap, topic)
    dead_leader.produce(topic, b"{}", b"connector-half")
    dead_leader.flush(10)
    log = make_log(topic, in_transactions=True)
    start_s = time.monotonic()
    log.claim()
    log.append([config_entry("whole")])
    assert read_keys(log) == ["connector-whole"]
    assert time.monotonic() - start_s < 30


def begin_as_other_leader(bootstrap: str, topic: str) -> Producer:
    """Begin a transaction as another leader of the same cluster."""
    producer = Producer({**options(bootstrap), "transactional.id": f"connect-cluster-{topic}"})
    producer.init_transactions(10)
    producer.begin_transaction()
    return producer
