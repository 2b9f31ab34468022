"""Formats the output of the verifiable connectors: a line of JSON for each record, with fields in Java's order.

Arrow formats many lines at once. This module runs in Spark's Python processes, so it does not import other modules of
Kraal.
Source: VerifiableSourceTask.poll, commitRecord; VerifiableSinkTask.put, flush (Kafka 4.3.0).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc


def format_source_lines(
    numbers: range, *, name: str, task: int, topic: str, time_ms: int, committed: bool
) -> pa.Buffer:
    """Return the lines that a source prints for created records, or, with `committed`, for committed records."""
    head = '{"committed":true,' if committed else "{"
    tail = f',"time_ms":{time_ms},"name":{_quote_json(name)},"topic":{_quote_json(topic)}}}\n'
    texts = pc.cast(pa.array(numbers, pa.int64()), pa.large_string())
    return _concat(f'{head}"task":{task},"seqno":', texts, tail)


def add_flushed(lines: pa.Array) -> pa.Array:
    """Add the field `flushed` to a sink's lines, which must not have line ends."""
    lines_without_brace = pc.utf8_slice_codeunits(pc.cast(lines, pa.large_string()), 0, -1)
    return pc.binary_join_element_wise(
        lines_without_brace, pa.scalar(',"flushed":true}', pa.large_string()), _EMPTY
    )


def generate_sink_output(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the output of `put` and of `flush` for each batch of a sink's lines; runs in Spark's Python processes."""
    for batch in batches:
        if batch.num_rows:
            put_lines = batch.column(0)
            texts = [
                pa.array([join_lines(lines).to_pybytes()], pa.binary())
                for lines in (put_lines, add_flushed(put_lines))
            ]
            yield pa.RecordBatch.from_arrays(texts, ["put", "flushed"])


def join_lines(lines: pa.Array) -> pa.Buffer:
    """Return the lines with line ends, in one contiguous buffer."""
    return _concat("", pc.cast(lines, pa.large_string()), "\n")


def write_stdout(*texts: pa.Buffer | bytes) -> None:
    """Print to the worker's standard output; each text is written without interruption by other tasks."""
    for text in texts:
        sys.stdout.buffer.write(memoryview(text))
    sys.stdout.buffer.flush()


_EMPTY = pa.scalar("", pa.large_string())


def _quote_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _concat(head: str, texts: pa.Array, tail: str) -> pa.Buffer:
    """Return a buffer of all texts, each between `head` and `tail`."""
    head_scalar, tail_scalar = pa.scalar(head, pa.large_string()), pa.scalar(tail, pa.large_string())
    joined_texts = pc.binary_join_element_wise(head_scalar, texts, tail_scalar, _EMPTY)
    if not len(joined_texts):
        return pa.py_buffer(b"")
    _, offsets, data = joined_texts.buffers()
    bounds = pa.Array.from_buffers(
        pa.int64(), len(joined_texts) + 1, [None, offsets], offset=joined_texts.offset
    )
    start, stop = bounds[0].as_py(), bounds[len(joined_texts)].as_py()
    return data.slice(start, stop - start)
