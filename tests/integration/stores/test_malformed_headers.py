"""Tests that `kraal dlq` and the dashboard read headers whose names are not valid UTF-8."""

from __future__ import annotations

import uuid

from kraal.dead_letters.api import OffsetRange
from kraal.dead_letters.kafka import Kafka
from tests.fakes.kafka.raw_headers import produce_with_header


def test_malformed_header_names_are_decoded_like_java(bootstrap: str) -> None:
    topic = f"dlq-{uuid.uuid4().hex[:8]}"
    for name in (b"plain", b"\xff-a", b"b-\xfe"):
        produce_with_header(bootstrap, topic, b"v", name, b"1")
    with Kafka({"bootstrap.servers": bootstrap}) as kafka:
        letters = list(kafka.read(topic, {0: OffsetRange(0, 3)}))
    assert [letter.headers for letter in letters] == [
        (("plain", b"1"),),
        (("\ufffd-a", b"1"),),
        (("b-\ufffd", b"1"),),
    ]
