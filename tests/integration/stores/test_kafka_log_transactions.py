"""What only a leader writes, in transactions. Mirrors KIP-618 and KafkaConfigBackingStoreTest's fencable writes."""

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

TEXT = "Failed to write to config topic; this may be due to a transient error and the request can be safely retried"
PAUSE = Entry("target-state-a", b'{"state":"PAUSED","state.v2":"PAUSED"}')
LOGGER = Entry("logger-cluster-root", b'{"level":"DEBUG"}')


def config(name: str) -> Entry:
    return Entry(f"connector-{name}", b'{"properties":{}}')


def read_keys(log: Log) -> list[str]:
    found: list[str] = []
    position = 0
    while records := log.read(position, 3):
        found += [record.key for record in records]
        position = records[-1].offset + 1
    return found


def test_the_older_of_two_leaders_is_fenced_and_what_it_wrote_is_never_seen(
    admin: TopicAdmin, make_log: MakeLog
) -> None:
    topic = fresh_topic(admin)
    old, new = make_log(topic, in_transactions=True), make_log(topic, in_transactions=True)
    old.claim()
    old.append([config("a"), config("b")])
    new.claim()
    with pytest.raises(Fenced) as raised:
        old.append([config("lost"), Entry("target-state-lost", None)])
    assert str(raised.value) == TEXT
    new.append([config("c")])
    with pytest.raises(Fenced, match="safely retried"):
        old.append([config("lost")])
    assert read_keys(old) == read_keys(new) == ["connector-a", "connector-b", "connector-c"]


def test_a_fenced_leader_that_leads_again_claims_and_writes(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin)
    one, two = make_log(topic, in_transactions=True), make_log(topic, in_transactions=True)
    for number in range(3):
        for name, log in (("one", one), ("two", two)):
            log.claim()
            log.append([config(f"{name}-{number}")])
    assert read_keys(one) == [f"connector-{name}-{number}" for number in range(3) for name in ("one", "two")]
    with pytest.raises(Fenced):
        one.append([config("lost")])


def test_without_a_claim_a_worker_writes_only_what_any_worker_may(
    admin: TopicAdmin, make_log: MakeLog
) -> None:
    topic = fresh_topic(admin)
    follower, leader = make_log(topic, in_transactions=True), make_log(topic, in_transactions=True)
    leader.claim()
    for refused in ([config("a")], [PAUSE, config("a")], [Entry("session-key", b"{}")]):
        with pytest.raises(Fenced):
            follower.append(refused)
    follower.append([PAUSE])
    follower.append([LOGGER, PAUSE])
    leader.append([config("a")])
    assert read_keys(leader) == ["target-state-a", "logger-cluster-root", "target-state-a", "connector-a"]


def test_written_records_are_read_at_once_and_transaction_markers_leave_gaps(
    admin: TopicAdmin, make_log: MakeLog
) -> None:
    log = make_log(fresh_topic(admin), in_transactions=True)
    log.claim()
    for number in range(20):
        offset = log.append([config(str(number))])
        assert offset == 2 * number
        assert [record.key for record in log.read(offset, 5)] == [f"connector-{number}"]
        assert list(log.read(offset + 1, 5)) == []
    assert log.end() == 40


def test_an_aborted_transaction_is_passed_over_without_delay(
    admin: TopicAdmin, make_log: MakeLog, bootstrap: str
) -> None:
    topic = fresh_topic(admin)
    log = make_log(topic, in_transactions=True)
    other = transaction(bootstrap, topic)
    other.produce(topic, b"{}", b"connector-aborted")
    other.flush(10)
    other.abort_transaction(10)
    assert list(log.read(0, 9)) == []
    log.claim()
    log.append([config("a")])
    assert read_keys(log) == ["connector-a"]


def test_the_log_ends_where_an_open_transaction_begins(
    admin: TopicAdmin, make_log: MakeLog, bootstrap: str
) -> None:
    topic = fresh_topic(admin)
    log = make_log(topic, in_transactions=True)
    log.append([PAUSE])
    other = transaction(bootstrap, topic)
    other.produce(topic, b"{}", b"connector-open")
    other.flush(10)
    log.append([LOGGER])
    assert log.end() == 1
    assert read_keys(log) == ["target-state-a"]
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.extend(r.key for r in log.read(1, 9, 60.0)), daemon=True)
    waiting.start()
    other.commit_transaction(10)
    waiting.join(30)
    assert found[0] == "connector-open"
    assert read_keys(log) == ["target-state-a", "connector-open", "logger-cluster-root"]
    assert log.end() == 4


def test_a_claim_ends_the_open_transaction_of_a_leader_that_is_gone(
    admin: TopicAdmin, make_log: MakeLog, bootstrap: str
) -> None:
    topic = fresh_topic(admin)
    gone = transaction(bootstrap, topic)
    gone.produce(topic, b"{}", b"connector-half")
    gone.flush(10)
    log = make_log(topic, in_transactions=True)
    begun = time.monotonic()
    log.claim()
    log.append([config("whole")])
    assert read_keys(log) == ["connector-whole"]
    assert time.monotonic() - begun < 30


def transaction(bootstrap: str, topic: str) -> Producer:
    """Begin a transaction as another leader of the same cluster."""
    producer = Producer({**options(bootstrap), "transactional.id": f"connect-cluster-{topic}"})
    producer.init_transactions(10)
    producer.begin_transaction()
    return producer
