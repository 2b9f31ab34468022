"""Tests for the settings of clients of internal topics."""

from __future__ import annotations

from kraal.kafka.settings import LastClientError, leader_producer_settings, plain_producer_settings

LAST_ERROR = LastClientError()


def test_producers_accept_javas_default_record_size() -> None:
    for options, size in (({}, "1048576"), ({"message.max.bytes": "2000000"}, "2000000")):
        plain_settings = plain_producer_settings(options, "c", LAST_ERROR, timeout_s=5)
        leader_settings = leader_producer_settings(
            options, "c", LAST_ERROR, transactional_id="t", timeout_s=5
        )
        assert (plain_settings["message.max.bytes"], leader_settings["message.max.bytes"]) == (size, size)
