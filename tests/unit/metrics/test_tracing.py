"""Spans of batches, against times worked out by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kraal.config.worker.standalone import parse_standalone
from kraal.core.errors import ConfigInvalid
from kraal.core.ids import ConnectorName, TaskId
from kraal.metrics.errors import ErrorCounts
from kraal.metrics.task import TaskMeter, TaskMetrics
from kraal.metrics.tracing import Traces, create_resource
from kraal.metrics.windows import Windows
from kraal.testing._simulation.worker import DEFAULTS
from kraal.worker.traces import worker_traces
from tests.unit.metrics.test_task_meter import Watch

TASK = TaskId(ConnectorName("orders"), 2)
WALL_MS = 1_700_000_000_000


class Story:
    """A meter whose spans stay in memory."""

    def __init__(self, *, is_source: bool) -> None:
        self.watch = Watch(0.0)
        self.published: list[TaskMetrics] = []
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meter: TaskMeter = Traces(provider).meter(
            TASK, is_source=is_source, time=self.watch, windows=Windows(), publish=self._publish
        )

    def _publish(self, task: TaskId, numbers: TaskMetrics) -> None:
        assert task == TASK
        self.published.append(numbers)

    def after(self, seconds: float) -> TaskMeter:
        """Let time pass."""
        self.watch.seconds += seconds
        return self.meter

    def spans(self) -> Mapping[str, ReadableSpan]:
        """Return the spans by name."""
        return {span.name: span for span in self._exporter.get_finished_spans()}

    def times(self) -> dict[str, tuple[float, float]]:
        """Return start and end of each span, in seconds of the story."""
        return {
            name: (_seconds(span.start_time), _seconds(span.end_time)) for name, span in self.spans().items()
        }


def _seconds(nanoseconds: int | None) -> float:
    assert nanoseconds is not None
    return round(nanoseconds / 1e9 - WALL_MS / 1000, 3)


def test_a_batch_of_a_source_has_a_poll_a_write_and_a_commit() -> None:
    story = Story(is_source=True)
    story.after(10).record_batch(
        records=90, read=100, duration_s=2.0, poll_s=0.5, way="lane", errors=ErrorCounts(errors=10)
    )
    story.meter.record_commit_start()
    assert story.spans() == {}
    story.after(0.25).record_commit()
    assert story.times() == {
        "batch": (7.5, 10.25), "poll": (7.5, 8.0), "write": (8.0, 10.0), "commit": (10.0, 10.25)
    }  # fmt: skip
    batch = story.spans()["batch"]
    assert batch.attributes == {
        "kraal.connector": "orders", "kraal.task": 2, "kraal.way": "lane",
        "kraal.records.read": 100, "kraal.records.written": 90, "kraal.records.failed": 10,
    }  # fmt: skip
    assert batch.status.is_ok
    assert batch.parent is None
    assert batch.context is not None
    parents = [span.parent and span.parent.span_id for name, span in story.spans().items() if name != "batch"]
    assert parents == [batch.context.span_id] * 3


def test_a_batch_of_a_sink_has_no_poll() -> None:
    story = Story(is_source=False)
    story.after(10).record_batch(records=5, duration_s=2.0, poll_s=0.5)
    story.meter.record_commit_start()
    story.after(1).record_commit()
    assert story.times() == {"batch": (8.0, 11.0), "write": (8.0, 10.0), "commit": (10.0, 11.0)}


def test_a_commit_lasts_from_its_first_try() -> None:
    story = Story(is_source=False)
    story.after(10).record_batch(records=5, duration_s=2.0, poll_s=0)
    story.meter.record_commit_start()
    story.after(3).record_commit_failure()
    story.after(1).record_commit()
    assert story.times()["commit"] == (10.0, 14.0)


def test_a_transaction_has_the_commit_in_its_write() -> None:
    story = Story(is_source=True)
    story.after(10).record_batch(records=5, duration_s=2.0, poll_s=0)
    story.meter.record_transaction(5)
    story.after(0.1).record_commit()
    assert story.times() == {"batch": (8.0, 10.0), "write": (8.0, 10.0)}
    assert dict(story.spans()["batch"].attributes or {})["kraal.records.in_transaction"] == 5


def test_continuous_writing_has_no_phases() -> None:
    story = Story(is_source=True)
    story.after(10).record_batch(records=5, duration_s=2.0, poll_s=0, continuous=True)
    story.meter.record_commit()
    assert story.times() == {"batch": (8.0, 10.0)}


def test_a_task_that_fails_before_its_offsets_are_stored_ends_the_span_with_an_error() -> None:
    story = Story(is_source=False)
    story.after(10).record_batch(records=5, duration_s=2.0, poll_s=0)
    story.meter.record_commit_start()
    story.after(1).record_failure()
    assert not story.spans()["batch"].status.is_ok
    story.meter.record_failure()
    story.meter.record_commit()
    assert len(story.spans()) == 2


def test_a_traced_task_has_the_same_metrics() -> None:
    story, untraced = Story(is_source=True), list[Any]()
    plain = TaskMeter(
        TASK,
        is_source=True,
        time=story.watch,
        windows=Windows(),
        publish=lambda _, numbers: untraced.append(numbers),
    )
    for meter in (story.meter, plain):
        meter.record_batch(
            records=3, read=4, duration_s=2.0, poll_s=0.5, way="lane", errors=ErrorCounts(errors=1)
        )
        meter.record_commit_start()
        meter.record_commit()
        meter.record_transaction(3)
        meter.record_failure(ErrorCounts(skipped=1))
    assert story.published[-1] == untraced[-1]


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-cluster")
    attributes = create_resource("w1:8083").attributes
    assert (attributes["service.name"], attributes["service.instance.id"]) == ("orders-cluster", "w1:8083")
    monkeypatch.delenv("OTEL_SERVICE_NAME")
    assert create_resource("w1:8083").attributes["service.name"] == "kraal"


def test_a_worker_without_the_packages_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse_standalone({**DEFAULTS, "tracing.enabled": "true"})
    monkeypatch.delitem(sys.modules, "kraal.metrics.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(
        ConfigInvalid, match=r"tracing.enabled=true needs .*opentelemetry.*install kraal\[otel\]"
    ):
        worker_traces(config)


def test_a_worker_that_does_not_trace_imports_no_package_for_it() -> None:
    assert worker_traces(parse_standalone(DEFAULTS)) is None
    code = "import sys, kraal.worker.standalone; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
