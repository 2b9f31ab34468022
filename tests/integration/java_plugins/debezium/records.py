"""Records and offsets of Debezium's PostgreSQL source, as bytes without what differs from run to run."""

from __future__ import annotations

import json
import re
from typing import Any

from kraal.testing import ProcessCluster
from tests.integration.java_plugins.flows import stored_offsets

MOMENTS = re.compile(rb'"(lsn|lsn_proc|lsn_commit|txId|ts_ms|ts_us|ts_ns|ts_usec)":\d+')
"""Positions, numbers of transactions and times, in records and in offsets."""
POSITIONS = re.compile(rb'\\"\d+\\"')
"""Positions within the text `sequence`."""
RUN = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What Debezium names a run of a task."""


def bare(data: bytes | None, name: str) -> bytes:
    """Return bytes with NAME for the connector's name, and 0 for what differs from run to run; b"(none)" for none."""
    named = b"(none)" if data is None else data.replace(name.encode(), b"NAME")
    return POSITIONS.sub(rb'\\"0\\"', MOMENTS.sub(rb'"\1":0', named))


def rows(
    side: ProcessCluster, name: str, topic: str
) -> list[tuple[int, bytes, bytes, list[tuple[str, bytes]]]]:
    """Return partition, key, value and headers of each record, in order, as `bare` leaves them."""
    return [
        (
            each.partition,
            bare(each.key, name),
            bare(each.value, name),
            [(key, RUN.sub(b"RUN", bare(value, name))) for key, value in each.headers],
        )
        for each in side.records(topic)
    ]


def records(side: ProcessCluster, topic: str) -> list[tuple[Any, Any]]:
    """Return keys and values."""
    return [
        (json.loads(each.key or b"null"), json.loads(each.value or b"null")) for each in side.records(topic)
    ]


def last_offset(side: ProcessCluster, name: str) -> tuple[bytes, bytes]:
    """Return the last stored offset of a source, as `bare` leaves it."""
    stored = [(bare(key, name), bare(value, name)) for key, value in stored_offsets(side, name)]
    return stored[-1] if stored else (b"", b"")
