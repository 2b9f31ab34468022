"""Tests for traces that a real worker sends to a collector."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.fakes.servers.otlp import Collector
from tests.fakes.spark.pipe import Pipe, create_topic

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

pytestmark = pytest.mark.ci


def test_every_batch_of_a_pipeline_is_a_trace(
    cluster: ProcessCluster, trace_collector: Collector, kafka: Broker, tmp_path: Path
) -> None:
    [worker] = cluster.workers
    pipe = Pipe(worker, tmp_path)
    pipe.write(100)
    create_topic(kafka.bootstrap, pipe.topic)
    pipe.create()
    worker.wait_until("both files were equal", pipe.is_through_exactly)

    def count_records(connector: str) -> int:
        batches = [read_attributes(span) for span in trace_collector.spans if span.name == "batch"]
        return sum(
            int(batch["kraal.records.written"]) for batch in batches if batch["kraal.connector"] == connector
        )

    worker.wait_until(
        "traces of all records arrived", lambda: count_records(pipe.source) == count_records(pipe.sink) == 100
    )
    pipe.delete()
    for connector, phases in ((pipe.source, {"poll", "write", "commit"}), (pipe.sink, {"write", "commit"})):
        for batch in trace_collector.spans:
            if batch.name == "batch" and read_attributes(batch)["kraal.connector"] == connector:
                children = [span for span in trace_collector.spans if span.parent_span_id == batch.span_id]
                assert {span.name for span in children} == phases
                assert sum(duration_ns(span) for span in children) <= duration_ns(batch) + 10_000_000
    assert {resource["service.name"] for resource in trace_collector.resources} == {"kraal"}
    assert {resource["service.instance.id"] for resource in trace_collector.resources} == {
        worker.url.removeprefix("http://")
    }


def read_attributes(span: Span) -> dict[str, str]:
    """Return the attributes of a span as text."""
    values = {attribute.key: attribute.value for attribute in span.attributes}
    return {key: value.string_value or str(value.int_value) for key, value in values.items()}


def duration_ns(span: Span) -> int:
    """Return the duration of a span in nanoseconds."""
    return span.end_time_unix_nano - span.start_time_unix_nano
