"""The settings of clients of internal topics."""

from __future__ import annotations

from kraal.kafka.settings import LastClientError, leader_producer, producer

LAST = LastClientError()


def test_producers_accept_records_of_java_s_default_size() -> None:
    for options, size in (({}, "1048576"), ({"message.max.bytes": "2000000"}, "2000000")):
        plain = producer(options, "c", LAST, timeout_s=5)
        leader = leader_producer(options, "c", LAST, transactional_id="t", timeout_s=5)
        assert (plain["message.max.bytes"], leader["message.max.bytes"]) == (size, size)
