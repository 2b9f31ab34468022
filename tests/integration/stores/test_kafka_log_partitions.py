"""Tests for a log with several partitions: order, positions, and Java's partitioner."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined] # documented there

from kraal.core.records import Entry, Record
from kraal.kafka.topics import TopicAdmin
from kraal.stores.api import Log
from tests.fakes.kafka.internal_topics import delete_records, fresh_topic, options, produce
from tests.integration.stores.conftest import MakeLog

PARTITION_COUNT = 5


def append_entries(log: Log, count: int, prefix: str = "status-connector") -> list[Entry]:
    entries = [Entry(f"{prefix}-{number}", b"%d" % number) for number in range(count)]
    for at in range(0, count, 10):
        log.append(entries[at : at + 10])
    return entries


def read_all(log: Log, start: int = 0, limit: int = 7) -> list[Record]:
    result: list[Record] = []
    while records := log.read(result[-1].offset + 1 if result else start, limit):
        result += records
    return result


def sorted_values(records: list[Record]) -> list[tuple[str, bytes | None]]:
    return sorted((record.key, record.value) for record in records)


def test_offsets_increase_across_partitions(admin: TopicAdmin, make_log: MakeLog) -> None:
    log = make_log(fresh_topic(admin, "status", partitions=PARTITION_COUNT))
    entries = append_entries(log, 100)
    records = read_all(log)
    offsets = [record.offset for record in records]
    assert offsets == list(range(100))
    assert sorted_values(records) == sorted((e.key, e.value) for e in entries)
    assert log.end() == 100
    append_entries(log, 10, "status-task")
    assert [r.offset for r in read_all(log, 100)] == list(range(100, 110))


def test_records_of_a_key_keep_their_order(admin: TopicAdmin, make_log: MakeLog) -> None:
    log = make_log(fresh_topic(admin, "status", partitions=PARTITION_COUNT))
    for number in range(30):
        log.append([Entry(f"status-connector-{key}", b"%d" % number) for key in "abc"])
    records = read_all(make_log(log.name))
    for key in "abc":
        values = [r.value for r in records if r.key == f"status-connector-{key}"]
        assert values == [b"%d" % number for number in range(30)]


def test_reading_from_beginning_returns_all_records(admin: TopicAdmin, make_log: MakeLog) -> None:
    log = make_log(fresh_topic(admin, "status", partitions=PARTITION_COUNT))
    append_entries(log, 50)
    first_records = read_all(log)
    second_records = read_all(log)
    assert sorted_values(second_records) == sorted_values(first_records)
    assert [r.offset for r in second_records] == list(range(50))


def test_reading_from_recent_position_returns_the_rest(admin: TopicAdmin, make_log: MakeLog) -> None:
    log = make_log(fresh_topic(admin, "status", partitions=PARTITION_COUNT))
    append_entries(log, 60)
    first_records = list(log.read(0, 20))
    while len(first_records) < 20:
        first_records += log.read(first_records[-1].offset + 1, 20 - len(first_records))
    position = first_records[-1].offset + 1
    remaining_records = read_all(log, position)
    assert sorted_values(first_records + remaining_records) == sorted_values(read_all(log))
    append_entries(log, 20, "status-task")
    first_records = list(log.read(0, 20))
    position = first_records[-1].offset + 1
    remaining_records = read_all(log, position)
    for _ in range(3):
        repeated_records = read_all(log, position)
        assert sorted_values(repeated_records) == sorted_values(remaining_records)
        assert [r.offset for r in repeated_records] == list(range(position, 80))


def test_unknown_offset_is_read_from_beginning(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin, "status", partitions=PARTITION_COUNT)
    append_entries(make_log(topic), 40)
    records = read_all(make_log(topic), 17, limit=1000)
    assert [r.offset for r in records] == list(range(40))


def test_waiting_reader_receives_records_of_all_partitions(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin, "status", partitions=PARTITION_COUNT)
    log, other_log = make_log(topic), make_log(topic)
    position, keys = 0, []
    for number in range(30):
        other_log.append([Entry(f"status-connector-{number}", b"")])
        records = log.read(position, 100, 10.0)
        position = records[-1].offset + 1
        keys += [record.key for record in records]
    assert keys == [f"status-connector-{number}" for number in range(30)]


def test_gaps_in_a_partition_are_gaps_in_the_log(
    admin: TopicAdmin, make_log: MakeLog, bootstrap: str
) -> None:
    topic = fresh_topic(admin, "status", partitions=2)
    produce(bootstrap, topic, [(b"a%d" % n, b"") for n in range(10)], partition=0)
    produce(bootstrap, topic, [(b"b%d" % n, b"") for n in range(10)], partition=1)
    delete_records(admin, topic, 0, before=8)
    log = make_log(topic)
    records = read_all(log)
    assert len(records) == 12
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] + 1 == log.end() == 20


def test_new_partitions_are_read_after_write_of_this_worker(admin: TopicAdmin, make_log: MakeLog) -> None:
    topic = fresh_topic(admin, "status", partitions=2)
    log = make_log(topic)
    append_entries(make_log(topic), 20)
    first_records = read_all(log)
    admin._client().create_partitions([NewPartitions(topic, 6)])[topic].result(20)
    await_partitions(admin, topic, 6)
    append_entries(log, 20, "status-task")
    new_records = read_all(log, first_records[-1].offset + 1)
    assert len(new_records) == 20
    assert [r.offset for r in first_records + new_records] == list(range(40))
    assert log.end() == 40


def await_partitions(admin: TopicAdmin, topic: str, partitions: int) -> None:
    while admin.describe(topic).partitions != partitions:
        pass
    admin.end_offsets(topic, partitions)


def murmur2(data: bytes) -> int:
    """Return the hash that Kafka's `Utils.murmur2` returns: MurmurHash2 as a signed 32-bit integer."""
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


def test_murmur2_matches_kafka() -> None:
    assert {text: murmur2(text.encode()) for text in JAVA_HASHES} == JAVA_HASHES


JAVA_HASHES = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}
"""Maps keys to hashes. Source: UtilsTest.testMurmur2 (Kafka 4.3.0)."""


def test_keys_are_written_to_the_same_partitions_as_in_java(
    admin: TopicAdmin, make_log: MakeLog, bootstrap: str
) -> None:
    topic = fresh_topic(admin, "status", partitions=PARTITION_COUNT)
    names = [*JAVA_HASHES, *(f"status-task-files-é-{number}" for number in range(40))]
    make_log(topic).append([Entry(name, b"") for name in names])
    consumer = Consumer({**options(bootstrap), "group.id": "look", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITION_COUNT)])
    partitions: dict[str, int | None] = {}
    while len(partitions) < len(names):
        message = consumer.poll(10)
        assert message is not None
        partitions[(message.key() or b"").decode()] = message.partition()
    consumer.close()
    assert partitions == {name: (murmur2(name.encode()) & 0x7FFFFFFF) % PARTITION_COUNT for name in names}
