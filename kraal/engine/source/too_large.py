"""Errors for records that Kafka's producer or the brokers reject as too large, with the topic, limits and advice.

Kafka's errors contain neither the topic nor, for a record that a broker rejects, the sizes.
Source: RecordTooLargeException, KafkaProducer.ensureValidRecordSize, Errors.MESSAGE_TOO_LARGE (Kafka 4.3.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kraal.config.clients.record_size import MAX_REQUEST_SIZE, too_large_for_producer, too_large_for_topic
from kraal.engine.failure_trace import root_cause

if TYPE_CHECKING:
    import pyarrow as pa

_TOO_LARGE: Final = re.compile(r"org\.apache\.kafka\.common\.errors\.RecordTooLargeException: (?P<text>.*)")
_BY_PRODUCER: Final = re.compile(
    r"The message is (?P<size>\d+) bytes when serialized which is larger than (?P<limit>\d+)"
)


class RecordTooLargeException(Exception):
    """A record is too large for the producer or for its topic. A retry would fail as well."""


def explain_size_error(
    error: BaseException, topic: str | None, limits: Mapping[str, int], table: pa.Table | None
) -> BaseException:
    """Return an error with advice if `error` is about the size of a record; otherwise return `error`. May call the JVM.

    Args:
        error: the error of a batch.
        topic: the topic of all records; None if the records have several topics.
        limits: the known values of `max.message.bytes`, by topic.
        table: the records, if the plugin returned a table.
    """
    match = _TOO_LARGE.match(root_cause(error))
    if match is None:
        return error
    topic_names = topic or ", ".join(sorted(limits)) or "?"
    by_producer = _BY_PRODUCER.match(match["text"])
    if by_producer is not None:
        key = f"producer.override.{MAX_REQUEST_SIZE}"
        text = too_large_for_producer(topic_names, int(by_producer["size"]), by_producer["limit"], key)
    else:
        limit = min(limits.values(), default=None) if topic is None else limits.get(topic)
        text = too_large_for_topic(topic_names, None if table is None else max_record_size(table), limit)
    explanation = RecordTooLargeException(text)
    explanation.__context__ = error
    return explanation


def max_record_size(table: pa.Table) -> int | None:
    """Return the size in bytes of the largest record (key and value); None if the size is unknown."""
    import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch
    from pyarrow import compute  # noqa: PLC0415 - as above

    sizes = []
    for name in {"key", "value"} & set(table.column_names):
        column_type = table.schema.field(name).type
        if not (pa.types.is_string(column_type) or pa.types.is_binary(column_type)):
            return None
        sizes.append(compute.fill_null(compute.binary_length(table[name]), 0))
    if not sizes or not table.num_rows:
        return None
    total = sizes[0] if len(sizes) == 1 else compute.add(*sizes)
    return int(compute.max(total).as_py())
