"""Brokers that are away, hang, come back, and compact: a broker of these tests' own, in one story."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
BOUND_S = 3 * TIMEOUT_S + 20
"""What one call may take at most: it asks for the topic, for its offsets, and a slow machine is slow."""
X = ConnectorName("x")
P = SourcePartition.of({"filename": "/a"})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that is not started, and compacts at once."""
    quick = {
        "log.cleaner.backoff.ms": "100",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.initial.task.delay.ms": "100",
    }
    made = Broker(tmp_path_factory.mktemp("away"), free_port(), extra=quick)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Iterator[TopicAdmin]:
    made = TopicAdmin(options(broker.bootstrap), client_id="away-shared-admin", timeout_s=TIMEOUT_S)
    yield made
    made.close()


@pytest.fixture(scope="module")
def log(broker: Broker, admin: TopicAdmin) -> Iterator[KafkaLog]:
    """A log that is opened while there is no broker."""
    made = KafkaLog(
        "away-configs",
        options(broker.bootstrap),
        client_id="away-configs",
        admin=admin,
        transactional_id="connect-cluster-away",
        failure=config_failure,
        timeout_s=TIMEOUT_S,
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def offsets(broker: Broker, admin: TopicAdmin) -> Iterator[KafkaOffsets]:
    made = KafkaOffsets(
        "away-offsets", options(broker.bootstrap), client_id="away", admin=admin, timeout_s=TIMEOUT_S
    )
    yield made
    made.close()


def read_all(log: Log) -> list[Record]:
    found: list[Record] = []
    while records := log.read(found[-1].offset + 1 if found else 0, 1000):
        found += records
    return found


def pause(state: str = "PAUSED") -> Entry:
    return Entry("target-state-a", b'{"state":"%s"}' % state.encode())


CONFIG = Entry("connector-a", b'{"properties":{}}')


@contextmanager
def bounded() -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < BOUND_S


def refuses(call: Callable[[], object], match: str) -> None:
    with bounded(), pytest.raises(StoreError, match=match):
        call()


def everything_fails(log: Log, offsets: KafkaOffsets, admin: TopicAdmin) -> None:
    refuses(lambda: log.read(0, 9), "cannot (look up|read) the")
    refuses(lambda: log.read(0, 9, 0.5), "cannot (look up|read) the")
    refuses(log.end, "cannot look up the")
    refuses(lambda: log.append([pause()]), "^Error writing target state to Kafka$")
    refuses(log.claim, "^Failed to create and initialize fencable producer for config topic$")
    with bounded(), pytest.raises(Fenced):
        log.append([CONFIG])
    refuses(lambda: offsets.load(X), "cannot look up")
    refuses(
        lambda: offsets.store({X: {P: {"position": 1}}}),
        "cannot write source offsets to the topic 'away-offsets'",
    )
    with bounded(), pytest.raises(StoreError) as raised:
        ensure_topics(admin, [internal_topic("away-configs")])
    assert not isinstance(raised.value, TopicUnusable)
    assert str(raised.value).startswith(
        "Timed out while checking for or creating topic(s) 'away-configs'. This"
    )


def everything_works(log: Log, offsets: KafkaOffsets) -> list[Record]:
    within(30, lambda: log.read(0, 9))
    within(30, log.claim)
    within(30, lambda: log.append([pause("STARTED")]))
    within(30, lambda: log.append([CONFIG]))
    within(30, lambda: offsets.store({X: {P: {"position": 2}}}))
    assert within(30, lambda: offsets.load(X)) == {P: {"position": 2}}
    found = read_all(log)
    assert [record.key for record in found[-2:]] == ["target-state-a", "connector-a"]
    return found


def within(seconds: float, call: Callable[[], object]) -> object:
    """Call until it works, as the actors do."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except StoreError:
            if time.monotonic() > deadline:
                raise


def test_without_a_broker_every_call_fails_soon(
    log: KafkaLog, offsets: KafkaOffsets, admin: TopicAdmin, broker: Broker
) -> None:
    everything_fails(log, offsets, admin)
    refuses(lambda: log.read(0, 9), "Connection refused")
    assert broker.pid is None


def test_when_the_broker_comes_the_same_objects_work(
    broker: Broker, log: KafkaLog, offsets: KafkaOffsets, admin: TopicAdmin
) -> None:
    broker.start()
    within(30, lambda: ensure_topics(admin, [internal_topic("away-configs"), internal_topic("away-offsets")]))
    found = everything_works(log, offsets)
    assert [record.key for record in found] == ["target-state-a", "connector-a"]


def test_a_broker_that_hangs_fails_calls_soon_and_is_forgiven(
    broker: Broker, log: KafkaLog, offsets: KafkaOffsets, admin: TopicAdmin
) -> None:
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        everything_fails(log, offsets, admin)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    everything_works(log, offsets)


def test_a_broker_that_was_restarted_is_found_again_where_the_log_was(
    broker: Broker, log: KafkaLog, offsets: KafkaOffsets
) -> None:
    position = read_all(log)[-1].offset + 1
    broker.stop()
    refuses(lambda: log.read(position, 9), "cannot")
    refuses(lambda: log.read(position, 9, 0.2), "cannot")
    refuses(lambda: log.append([pause()]), "Error writing target state to Kafka")
    broker.start()
    within(30, lambda: log.append([pause()]))
    found = within(30, lambda: log.read(position, 9))
    assert isinstance(found, list)
    assert "target-state-a" in {record.key for record in found}
    everything_works(log, offsets)


def test_compaction_leaves_gaps(broker: Broker, admin: TopicAdmin) -> None:
    settings = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
    ensure_topics(admin, [internal_topic("compacted", settings=settings)])

    def make() -> KafkaLog:
        return KafkaLog("compacted", options(broker.bootstrap), client_id="away", admin=admin)

    log = make()
    for number in range(20):
        log.append([Entry(f"connector-{number % 3}", b"%d" % number)])
    deadline = time.monotonic() + 60
    while True:
        log.append([Entry("connector-last", b"")])  # a segment ends when something is written after its time
        fresh = make()
        found = read_all(fresh)
        old = [record for record in found if record.key != "connector-last"]
        if [(record.offset, record.value) for record in old] == [(17, b"17"), (18, b"18"), (19, b"19")]:
            break
        fresh.close()
        assert time.monotonic() < deadline
    position = found[-1].offset + 1
    assert list(fresh.read(position, 9)) == []
    assert fresh.end() >= position
    assert [record.offset for record in fresh.read(3, 1)] == [17]
    log.append([Entry("connector-0", None)])
    assert [(record.key, record.value) for record in fresh.read(position, 9)] == [("connector-0", None)]
    fresh.close()
    log.close()
