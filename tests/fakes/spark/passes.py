"""Passes over records with the fakes' converter and transform, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, TypeVar

import pyarrow as pa

from kraal.engine.records import sink_pass, source_pass
from kraal.engine.records.fault import Fault
from kraal.engine.records.sink_pass import SinkPass
from kraal.engine.records.source_pass import SourcePass
from kraal.engine.records.steps import Steps, Summary, summed
from kraal.engine.records.tolerance import Tolerance
from kraal.plugins.transform_chain import Chain
from kraal.plugins.values.simple_headers import SimpleHeaderConverter
from tests.fakes.spark.plugins import Text
from tests.fakes.values.transforms import chain_of

ALL = Tolerance(all=True)


def at_once(seconds: float) -> None:
    """Wait for nothing."""


def steps(tolerance: Tolerance | None = None, *, moody: bool = True) -> Steps:
    """Return what is done with each record."""
    return Steps(
        chain=chain_of({"transforms": "moody"}) if moody else Chain(),
        key=Text(),
        value=Text(),
        headers=SimpleHeaderConverter(),
        key_class="K",
        value_class="V",
        header_class="H",
        tolerance=tolerance or Tolerance(),
    )


def source(
    values: Sequence[Any], one: SourcePass, **columns: pa.Array
) -> tuple[list[dict[str, Any]], Summary]:
    """Take values through, pickled as for Spark; return the rows written and the summary."""
    table = pa.table({"value": values, **columns})
    batches = list(_sent(one)(table.to_batches(3)))
    rows = pa.Table.from_batches(batches, source_pass.OUT).to_pylist()
    notes = [row.pop("note") for row in rows]
    return [row for row in rows if row["topic"] is not None], summed(notes)[0]


P = TypeVar("P", SourcePass, SinkPass)


def _sent(one: P) -> P:
    """Return the pass as it comes out in another process."""
    sent: P = pickle.loads(pickle.dumps(one))  # noqa: S301 - our own bytes
    return sent


def kafka_row(value: bytes | None, offset: int, **more: Any) -> dict[str, Any]:
    """Return a record as Spark's Kafka reader gives it."""
    return {
        "topic": "t", "partition": 0, "offset": offset, "timestamp": 1000, "timestampType": 0,
        "headers": None, "key": None, "value": value, **more,
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
"""Of such records."""


def sink(rows: Sequence[dict[str, Any]], one: SinkPass) -> tuple[list[dict[str, Any]], list[Fault], Summary]:
    """Take rows through; return all rows with a topic, the dead letters' faults, and the summary."""
    batch = pa.RecordBatch.from_pylist(list(rows), KAFKA)
    batches = list(_sent(one)([batch]))
    output = pa.Table.from_batches(batches, sink_pass.OUT).to_pylist()
    summary, faults = summed([row["note"] for row in output])
    return [row for row in output if row["topic"] is not None], faults, summary
