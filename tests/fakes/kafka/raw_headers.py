"""Records with header names that are not valid UTF-8."""

from __future__ import annotations

from kafka import KafkaProducer
from typing_extensions import override


class _RawName(str):
    """A name that kafka-python encodes as the bytes in `data`."""

    __slots__ = ("data",)
    data: bytes

    @override
    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return self.data


def produce_with_header(bootstrap: str, topic: str, value: bytes, name: bytes, data: bytes) -> None:
    """Write a record with one header to partition 0, and wait until it is acknowledged."""
    header_name = _RawName("x")
    header_name.data = name
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip")
    try:
        producer.send(topic, value, partition=0, headers=[(header_name, data)]).get(30)
    finally:
        producer.close()
