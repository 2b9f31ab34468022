"""Tests for the conversion of librdkafka messages to records."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kraal.core.message_headers import Headers
from kraal.engine.sink.frame import tail_table
from kraal.engine.sink.member_record import make_record


@dataclass
class Message:
    """A message of confluent-kafka whose `headers` raises `error`, if set."""

    message_headers: Headers | None = None
    error: type[Exception] | None = None

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"v"

    def timestamp(self) -> tuple[int, int]:
        return 1, 5

    def headers(self) -> Headers | None:
        if self.error is UnicodeDecodeError:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        if self.error is not None:
            raise self.error
        return self.message_headers


@pytest.mark.parametrize(("message_headers", "headers"), [(None, ()), ([("a", b"1")], [("a", b"1")])])
def test_message_is_converted_to_a_record_with_headers(
    message_headers: Headers | None, headers: Headers
) -> None:
    record = make_record(Message(message_headers))
    assert (record.offset, record.timestamp_type, record.headers) == (7, 0, headers)
    assert tail_table([record])["headers"].to_pylist() == [
        [{"key": name, "value": value} for name, value in headers] or None
    ]


@pytest.mark.parametrize("error", [UnicodeDecodeError, SystemError])
def test_record_whose_header_names_are_not_utf8_has_no_headers(error: type[Exception]) -> None:
    record = make_record(Message(error=error))
    assert (record.value, record.headers) == (b"v", None)
    assert tail_table([make_record(Message()), record]) is None
