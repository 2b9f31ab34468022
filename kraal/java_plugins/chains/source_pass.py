"""Passes a source's batch through a chain in the plugins' JVM (`SourceChain.java`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kraal.core.message_headers import replace_nul
from kraal.engine.records.fault import Fault, dead_letter_headers
from kraal.engine.records.source_pass import COLUMNS, OUT, DeadTopic, Pairs, SourcePass, headers_array
from kraal.engine.records.steps import PassResult
from kraal.engine.records.topics import ensure_topics
from kraal.java_plugins.chains.connection import ChainAddress, parse_error_counts, split_batches
from kraal.java_plugins.chains.frames import read_rows, schema_text


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaSourcePass:
    """The pass of one source batch through the plugins' JVM. Picklable if `cancelled` is None."""

    chain: ChainAddress
    local: SourcePass
    """The batch's properties and error handling; its steps are not used."""
    source_partition: Mapping[str, Any] | None
    source_offset: Mapping[str, Any] | None
    cancelled: threading.Event | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the converted rows, then the summary. Reads all of `batches`, even if the pass stops at a record.

        Raises ChainLost, ChainCancelled, and PluginFailed for errors not caused by a record.
        """
        local = self.local
        result = PassResult(local.steps.tolerance)
        columns = [name for name in COLUMNS if name != "topic" or local.topic is None]
        properties = self._properties()
        ensure = None if local.gate is None else local.gate.begin_pass()
        with self.chain.connect(self.cancelled) as connection:
            for part in split_batches(batches):
                if result.is_over:
                    continue
                response, buffers = connection.process(part, columns, **properties)
                rows = read_rows(response["rows"], buffers)
                dead_letters = self._count_outcomes(response, read_rows(response["dead"], buffers), result)
                result.topics.update(rows["topic"].unique().to_pylist())
                if ensure is not None:
                    result.topic_error = ensure_topics(ensure, result.topics)
                if result.topic_error is None:
                    result.written += rows.num_rows
                    yield rows
                    yield from dead_letters
        yield pa.RecordBatch.from_pylist([{"note": result.summary().note()}], OUT)

    def _properties(self) -> dict[str, Any]:
        local, tolerance = self.local, self.local.steps.tolerance
        return {
            "topic": local.topic,
            "timestamp": local.timestamp_ms,
            "key_schema": schema_text(local.key_schema),
            "value_schema": schema_text(local.value_schema),
            "source_partition": self.source_partition,
            "source_offset": self.source_offset,
            "stops": not tolerance.all,
            "dead": local.dead_topic is not None,
            "shows": tolerance.shows_records,
            "refuses_nul": local.refuses_nul,
        }

    def _count_outcomes(
        self, response: Mapping[str, Any], failed_rows: pa.RecordBatch, result: PassResult
    ) -> list[pa.RecordBatch]:
        """Count the outcomes of the records; return the dead letters."""
        result.counts += parse_error_counts(response)
        result.read += response["read"]
        result.dropped += response["dropped"]
        dead_topic, faults = self.local.dead_topic, [_parse_fault(fields) for fields in response["faults"]]
        for fault in faults:
            result.record_failure(fault, dead_letter=dead_topic is not None)
        if dead_topic is None or not faults:
            return []
        return [
            _dead_letters(
                dead_topic, faults, failed_rows, to_headers=replace_nul if self.local.refuses_nul else list
            )
        ]


def _parse_fault(fields: Mapping[str, Any]) -> Fault:
    record = fields["record"]
    return Fault(**{**fields, "record": f", where source record is = {record}" if record else ""})


def _dead_letters(
    dead_topic: DeadTopic,
    faults: list[Fault],
    failed_rows: pa.RecordBatch,
    *,
    to_headers: Callable[[Pairs], Pairs],
) -> pa.RecordBatch:
    headers = [
        dead_letter_headers(
            to_headers([(header["key"], header["value"]) for header in pairs or ()]),
            fault,
            dead_topic.connector,
            dead_topic.task,
            with_context=dead_topic.with_context,
        )
        or None
        for pairs, fault in zip(failed_rows["headers"].to_pylist(), faults, strict=True)
    ]
    count = failed_rows.num_rows
    columns = [
        pa.array([dead_topic.name] * count, pa.string()),
        failed_rows["partition"],
        headers_array(headers),
    ]
    return pa.RecordBatch.from_arrays(
        [*columns, failed_rows["key"], failed_rows["value"], failed_rows["note"]], schema=OUT
    )
