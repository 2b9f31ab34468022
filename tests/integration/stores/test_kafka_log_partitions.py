"""A log of several partitions, as the status topic is: one order, positions to go back to, Java's partitions."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined] # documented there

from kraal.core.records import Entry, Record
from kraal.kafka.topics import TopicAdmin
from kraal.stores.api import Log
from tests.fakes.kafka.internal_topics import delete_records, fresh_topic, options, produce
from tests.integration.stores.conftest import MakeLog

PARTITIONS = 5


def fill(log: Log, count: int, prefix: str = "status-connector") -> list[Entry]:
    made = [Entry(f"{prefix}-{number}", b"%d" % number) for number in range(count)]
    for at in range(0, count, 10):
        log.append(made[at : at + 10])
    return made


def read_all(log: Log, start: int = 0, limit: int = 7) -> list[Record]:
    found: list[Record] = []
    while records := log.read(found[-1].offset + 1 if found else start, limit):
        found += records
    return found


def values(records: list[Record]) -> list[tuple[str, bytes | None]]:
    return sorted((record.key, record.value) for record in records)


def test_offsets_rise_over_all_partitions_and_end_where_the_log_ends(
    admin: TopicAdmin, make_log: MakeLog
) -> None:
    log = make_log(fresh_topic(admin, "status", partitions=PARTITIONS))
    written = fill(log, 100)
    found = read_all(log)
    offsets = [record.offset for record in found]
    assert offsets == list(range(100))
    assert values(found) == sorted((e.key, e.value) for e in written)
    assert log.end() == 100
    fill(log, 10, "status-task")
    assert [r.offset for r in read_all(log, 100)] == list(range(100, 110))


def test_a_key_keeps_its_order(admin: TopicAdmin, make_log: MakeLog) -> None:
    log = make_log(fresh_topic(admin, "status", partitions=PARTITIONS))
    for number in range(30):
        log.append([Entry(f"status-connector-{key}", b"%d" % number) for key in "abc"])
    found = read_all(make_log(log.name))
    for key in "abc":
        own = [r.value for r in found if r.key == f"status-connector-{key}"]
        assert own == [b"%d" % number for number in range(30)]


def test_reading_again_from_the_beginning_gives_all(admin: TopicAdmin, make_log: MakeLog) -> None:
    log = make_log(fresh_topic(admin, "status", partitions=PARTITIONS))
    fill(log, 50)
    once = read_all(log)
    again = read_all(log)
    assert values(again) == values(once)
    assert [r.offset for r in again] == list(range(50))


def test_going_back_to_a_recent_position_gives_exactly_the_rest(admin: TopicAdmin, make_log: MakeLog) -> None:
    log = make_log(fresh_topic(admin, "status", partitions=PARTITIONS))
    fill(log, 60)
    begin = list(log.read(0, 20))
    while len(begin) < 20:
        begin += log.read(begin[-1].offset + 1, 20 - len(begin))
    position = begin[-1].offset + 1
    rest = read_all(log, position)
    assert values(begin + rest) == values(read_all(log))
    fill(log, 20, "status-task")
    begin = list(log.read(0, 20))
    position = begin[-1].offset + 1
    rest = read_all(log, position)
    for _ in range(3):
        again = read_all(log, position)
        assert values(again) == values(rest)
        assert [r.offset for r in again] == list(range(position, 80))


def test_an_offset_without_a_known_position_reads_from_the_start(
    admin: TopicAdmin, make_log: MakeLog
) -> None:
    topic = fresh_topic(admin, "status", partitions=PARTITIONS)
    fill(make_log(topic), 40)
    found = read_all(make_log(topic), 17, limit=1000)
    assert [r.offset for r in found] == list(range(40))


def test_records_of_all_partitions_come_to_a_reader_that_waits(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin, "status", partitions=PARTITIONS)
    log, other = make_log(topic), make_log(topic)
    position, seen = 0, []
    for number in range(30):
        other.append([Entry(f"status-connector-{number}", b"")])
        records = log.read(position, 100, 10.0)
        position = records[-1].offset + 1
        seen += [record.key for record in records]
    assert seen == [f"status-connector-{number}" for number in range(30)]


def test_a_partition_with_gaps_makes_gaps(admin: TopicAdmin, make_log: MakeLog, bootstrap: str) -> None:
    topic = fresh_topic(admin, "status", partitions=2)
    produce(bootstrap, topic, [(b"a%d" % n, b"") for n in range(10)], partition=0)
    produce(bootstrap, topic, [(b"b%d" % n, b"") for n in range(10)], partition=1)
    delete_records(admin, topic, 0, before=8)
    log = make_log(topic)
    found = read_all(log)
    assert len(found) == 12
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] + 1 == log.end() == 20


def test_partitions_that_were_added_are_read_once_this_worker_writes_to_them(
    admin: TopicAdmin, make_log: MakeLog
) -> None:
    topic = fresh_topic(admin, "status", partitions=2)
    log = make_log(topic)
    fill(make_log(topic), 20)
    seen = read_all(log)
    admin._client().create_partitions([NewPartitions(topic, 6)])[topic].result(20)
    await_partitions(admin, topic, 6)
    fill(log, 20, "status-task")
    added = read_all(log, seen[-1].offset + 1)
    assert len(added) == 20
    assert [r.offset for r in seen + added] == list(range(40))
    assert log.end() == 40


def await_partitions(admin: TopicAdmin, topic: str, partitions: int) -> None:
    while admin.describe(topic).partitions != partitions:
        pass
    admin.end_offsets(topic, partitions)


def murmur2(data: bytes) -> int:
    """Hash as Java's `Utils.murmur2` does: MurmurHash2, 32 bits, signed."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k ^= k >> 24
        h = (h * m & mask) ^ (k * m & mask)
    if tail := data[whole:]:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def test_the_hash_is_that_of_kafkas_own_tests() -> None:
    assert {text: murmur2(text.encode()) for text in JAVA} == JAVA


JAVA = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}
"""Source: UtilsTest.testMurmur2 (Kafka 4.3.0)."""


def test_keys_lie_in_the_partitions_that_java_chooses(
    admin: TopicAdmin, make_log: MakeLog, bootstrap: str
) -> None:
    topic = fresh_topic(admin, "status", partitions=PARTITIONS)
    names = [*JAVA, *(f"status-task-files-é-{number}" for number in range(40))]
    make_log(topic).append([Entry(name, b"") for name in names])
    consumer = Consumer({**options(bootstrap), "group.id": "look", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: dict[str, int | None] = {}
    while len(found) < len(names):
        message = consumer.poll(10)
        assert message is not None
        found[(message.key() or b"").decode()] = message.partition()
    consumer.close()
    assert found == {name: (murmur2(name.encode()) & 0x7FFFFFFF) % PARTITIONS for name in names}
