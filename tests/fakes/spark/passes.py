"""Passes over records with a fake converter and transform, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, TypeVar

import pyarrow as pa

from kraal.engine.records import sink_pass, source_pass
from kraal.engine.records.fault import Fault
from kraal.engine.records.sink_pass import SinkPass
from kraal.engine.records.source_pass import SourcePass
from kraal.engine.records.steps import Steps, Summary, merge_notes
from kraal.engine.records.tolerance import Tolerance
from kraal.plugins.transform_chain import Chain
from kraal.plugins.values.simple_headers import SimpleHeaderConverter
from tests.fakes.spark.plugins import Text
from tests.fakes.values.transforms import make_test_chain

ALL = Tolerance(all=True)


def no_wait(seconds: float) -> None:
    """No-op."""


def steps(tolerance: Tolerance | None = None, *, moody: bool = True) -> Steps:
    """Return the steps of the record path."""
    return Steps(
        chain=make_test_chain({"transforms": "moody"}) if moody else Chain(),
        key=Text(),
        value=Text(),
        headers=SimpleHeaderConverter(),
        key_class="K",
        value_class="V",
        header_class="H",
        tolerance=tolerance or Tolerance(),
    )


def source(
    values: Sequence[Any], pass_: SourcePass, **columns: pa.Array
) -> tuple[list[dict[str, Any]], Summary]:
    """Process values with a pickled pass, as in Spark; return the rows to write, and the summary."""
    table = pa.table({"value": values, **columns})
    batches = list(_pickle_and_load(pass_)(table.to_batches(3)))
    rows = pa.Table.from_batches(batches, source_pass.OUT).to_pylist()
    notes = [row.pop("note") for row in rows]
    return [row for row in rows if row["topic"] is not None], merge_notes(notes)[0]


P = TypeVar("P", SourcePass, SinkPass)


def _pickle_and_load(pass_: P) -> P:
    """Return a copy of the pass that was pickled and unpickled."""
    loaded: P = pickle.loads(pickle.dumps(pass_))  # noqa: S301 - trusted bytes
    return loaded


def kafka_row(value: bytes | None, offset: int, **columns: Any) -> dict[str, Any]:
    """Return a record in the format of Spark's Kafka reader."""
    return {
        "topic": "t", "partition": 0, "offset": offset, "timestamp": 1000, "timestampType": 0,
        "headers": None, "key": None, "value": value, **columns,
    }  # fmt: skip


KAFKA = pa.schema(
    [
        *(
            sink_pass.OUT.field(name)
            for name in sink_pass.COLUMNS
            if name not in ("timestamp", "timestampType")
        ),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
"""The schema of records from `kafka_row`."""


def sink(
    rows: Sequence[dict[str, Any]], pass_: SinkPass
) -> tuple[list[dict[str, Any]], list[Fault], Summary]:
    """Process rows; return all rows with a topic, the faults of dead letters, and the summary."""
    batch = pa.RecordBatch.from_pylist(list(rows), KAFKA)
    batches = list(_pickle_and_load(pass_)([batch]))
    output = pa.Table.from_batches(batches, sink_pass.OUT).to_pylist()
    summary, faults = merge_notes([row["note"] for row in output])
    return [row for row in output if row["topic"] is not None], faults, summary
