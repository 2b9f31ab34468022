"""Headers whose names are not valid UTF-8, as `kraal dlq` and the dashboard read them."""

from __future__ import annotations

import uuid

from kraal.dead_letters.api import Span
from kraal.dead_letters.kafka import Kafka
from tests.fakes.kafka.raw_headers import produce_with_header


def test_dead_letters_with_a_malformed_header_name_are_read_as_in_java(bootstrap: str) -> None:
    topic = f"dlq-{uuid.uuid4().hex[:8]}"
    for name in (b"plain", b"\xff-a", b"b-\xfe"):
        produce_with_header(bootstrap, topic, b"v", name, b"1")
    with Kafka({"bootstrap.servers": bootstrap}) as kafka:
        letters = list(kafka.read(topic, {0: Span(0, 3)}))
    assert [letter.headers for letter in letters] == [
        (("plain", b"1"),),
        (("\ufffd-a", b"1"),),
        (("b-\ufffd", b"1"),),
    ]
