"""Passes a sink's batch through a chain in the plugins' JVM (`SinkChain.java`)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from kraal.engine.records.fault import Fault
from kraal.engine.records.sink_pass import COLUMNS, OUT, SinkPass, raw_records
from kraal.engine.records.steps import PassResult, fault_note
from kraal.java_plugins.chains.connection import ChainAddress, parse_error_counts, split_batches
from kraal.java_plugins.chains.frames import read_sink_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaSinkPass:
    """The pass of one sink batch through the plugins' JVM. Picklable if `cancelled` is None."""

    chain: ChainAddress
    local: SinkPass
    """The sink's format and error handling; its steps are not used."""
    cancelled: threading.Event | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the converted rows, then the summary. Reads all of `batches`, even if the pass stops at a record.

        Raises ChainLost, ChainCancelled, and PluginFailed for errors not caused by a record.
        """
        local, tolerance = self.local, self.local.steps.tolerance
        result = PassResult(tolerance)
        with self.chain.connect(self.cancelled) as connection:
            for part in split_batches(batches):
                if result.is_over:
                    continue
                response, buffers = connection.process(
                    part, COLUMNS, stops=not tolerance.all, json=local.value_form != "text"
                )
                result.counts += parse_error_counts(response)
                result.read += response["read"]
                result.dropped += response["dropped"]
                result.topics.update(response["topics"])
                rows = read_sink_rows(response["rows"], buffers)
                result.written += rows.num_rows
                yield rows
                yield from self._take_dead_letters(part, response["faults"], result)
        yield pa.RecordBatch.from_pylist([{"note": result.summary().note()}], OUT)

    def _take_dead_letters(
        self, part: pa.RecordBatch, faults: list[dict[str, object]], result: PassResult
    ) -> Iterator[pa.RecordBatch]:
        """Count the failed records, and yield the dead letters, which are the original records."""
        if not faults:
            return
        failed_records = part.take(pa.array([fields.pop("row") for fields in faults], pa.int64()))
        notes = []
        for raw, fields in zip(raw_records(failed_records), faults, strict=True):
            fault = Fault(**fields, partition=raw.partition, offset=raw.offset, record=raw.text)  # type: ignore[arg-type]
            result.record_failure(fault, dead_letter=self.local.writes_dead_letters)
            notes.append(fault_note(fault))
        if self.local.writes_dead_letters:
            columns = [failed_records.column(name).cast(OUT.field(name).type) for name in OUT.names[:-1]]
            yield pa.RecordBatch.from_arrays([*columns, pa.array(notes, pa.string())], schema=OUT)
