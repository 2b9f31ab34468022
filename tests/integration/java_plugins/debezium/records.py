"""Records and offsets of Debezium's PostgreSQL source, as bytes without run-specific values."""

from __future__ import annotations

import json
import re
from typing import Any

from kraal.testing import ProcessCluster
from tests.integration.java_plugins.flows import stored_offsets

RUN_SPECIFIC_FIELDS = re.compile(rb'"(lsn|lsn_proc|lsn_commit|txId|ts_ms|ts_us|ts_ns|ts_usec)":\d+')
"""Matches positions, transaction ids and timestamps in records and offsets."""
POSITIONS = re.compile(rb'\\"\d+\\"')
"""Matches positions in the field `sequence`."""
RUN_ID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Matches the identifier that Debezium gives to a run of a task."""


def normalize(data: bytes | None, name: str) -> bytes:
    """Replace the connector's name with NAME and run-specific values with 0. Return b"(none)" for None."""
    renamed = b"(none)" if data is None else data.replace(name.encode(), b"NAME")
    return POSITIONS.sub(rb'\\"0\\"', RUN_SPECIFIC_FIELDS.sub(rb'"\1":0', renamed))


def read_normalized(
    cluster: ProcessCluster, name: str, topic: str
) -> list[tuple[int, bytes, bytes, list[tuple[str, bytes]]]]:
    """Return the partition of each record, in order, and its normalized key, value and headers."""
    return [
        (
            record.partition,
            normalize(record.key, name),
            normalize(record.value, name),
            [(key, RUN_ID.sub(b"RUN", normalize(value, name))) for key, value in record.headers],
        )
        for record in cluster.records(topic)
    ]


def records(cluster: ProcessCluster, topic: str) -> list[tuple[Any, Any]]:
    """Return the parsed keys and values of a topic's records."""
    return [
        (json.loads(record.key or b"null"), json.loads(record.value or b"null"))
        for record in cluster.records(topic)
    ]


def last_offset(cluster: ProcessCluster, name: str) -> tuple[bytes, bytes]:
    """Return the normalized key and value of a source's last stored offset. Both are empty if there is none."""
    normalized_offsets = [
        (normalize(key, name), normalize(value, name)) for key, value in stored_offsets(cluster, name)
    ]
    return normalized_offsets[-1] if normalized_offsets else (b"", b"")
