"""Tests for spans of batches, with hand-computed times."""

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
from tests.unit.metrics.test_task_meter import FakeClock

TASK = TaskId(ConnectorName("orders"), 2)
WALL_MS = 1_700_000_000_000


class Scenario:
    """A meter with in-memory spans."""

    def __init__(self, *, is_source: bool) -> None:
        self.clock = FakeClock(0.0)
        self.published_metrics: list[TaskMetrics] = []
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meter: TaskMeter = Traces(provider).meter(
            TASK, is_source=is_source, time=self.clock, windows=Windows(), publish=self._publish
        )

    def _publish(self, task: TaskId, metrics: TaskMetrics) -> None:
        assert task == TASK
        self.published_metrics.append(metrics)

    def after(self, seconds: float) -> TaskMeter:
        """Advance the time and return the meter."""
        self.clock.seconds += seconds
        return self.meter

    def spans(self) -> Mapping[str, ReadableSpan]:
        """Return the spans by name."""
        return {span.name: span for span in self._exporter.get_finished_spans()}

    def times(self) -> dict[str, tuple[float, float]]:
        """Return start and end of each span, in seconds since the start."""
        return {
            name: (_seconds(span.start_time), _seconds(span.end_time)) for name, span in self.spans().items()
        }


def _seconds(nanoseconds: int | None) -> float:
    assert nanoseconds is not None
    return round(nanoseconds / 1e9 - WALL_MS / 1000, 3)


def test_source_batch_span_has_poll_write_and_commit() -> None:
    scenario = Scenario(is_source=True)
    scenario.after(10).record_batch(
        records=90, read=100, duration_s=2.0, poll_s=0.5, write_path="lane", errors=ErrorCounts(errors=10)
    )
    scenario.meter.record_commit_start()
    assert scenario.spans() == {}
    scenario.after(0.25).record_commit()
    assert scenario.times() == {
        "batch": (7.5, 10.25), "poll": (7.5, 8.0), "write": (8.0, 10.0), "commit": (10.0, 10.25)
    }  # fmt: skip
    batch = scenario.spans()["batch"]
    assert batch.attributes == {
        "kraal.connector": "orders", "kraal.task": 2, "kraal.way": "lane",
        "kraal.records.read": 100, "kraal.records.written": 90, "kraal.records.failed": 10,
    }  # fmt: skip
    assert batch.status.is_ok
    assert batch.parent is None
    assert batch.context is not None
    parents = [
        span.parent and span.parent.span_id for name, span in scenario.spans().items() if name != "batch"
    ]
    assert parents == [batch.context.span_id] * 3


def test_sink_batch_span_has_no_poll() -> None:
    scenario = Scenario(is_source=False)
    scenario.after(10).record_batch(records=5, duration_s=2.0, poll_s=0.5)
    scenario.meter.record_commit_start()
    scenario.after(1).record_commit()
    assert scenario.times() == {"batch": (8.0, 11.0), "write": (8.0, 10.0), "commit": (10.0, 11.0)}


def test_commit_span_starts_at_the_first_attempt() -> None:
    scenario = Scenario(is_source=False)
    scenario.after(10).record_batch(records=5, duration_s=2.0, poll_s=0)
    scenario.meter.record_commit_start()
    scenario.after(3).record_commit_failure()
    scenario.after(1).record_commit()
    assert scenario.times()["commit"] == (10.0, 14.0)


def test_transaction_span_includes_the_commit_in_its_write() -> None:
    scenario = Scenario(is_source=True)
    scenario.after(10).record_batch(records=5, duration_s=2.0, poll_s=0)
    scenario.meter.record_transaction(5)
    scenario.after(0.1).record_commit()
    assert scenario.times() == {"batch": (8.0, 10.0), "write": (8.0, 10.0)}
    assert dict(scenario.spans()["batch"].attributes or {})["kraal.records.in_transaction"] == 5


def test_continuous_write_span_has_no_phases() -> None:
    scenario = Scenario(is_source=True)
    scenario.after(10).record_batch(records=5, duration_s=2.0, poll_s=0, continuous=True)
    scenario.meter.record_commit()
    assert scenario.times() == {"batch": (8.0, 10.0)}


def test_failure_before_the_commit_ends_the_span_with_an_error() -> None:
    scenario = Scenario(is_source=False)
    scenario.after(10).record_batch(records=5, duration_s=2.0, poll_s=0)
    scenario.meter.record_commit_start()
    scenario.after(1).record_failure()
    assert not scenario.spans()["batch"].status.is_ok
    scenario.meter.record_failure()
    scenario.meter.record_commit()
    assert len(scenario.spans()) == 2


def test_tracing_does_not_change_metrics() -> None:
    scenario, untraced_metrics = Scenario(is_source=True), list[Any]()
    untraced_meter = TaskMeter(
        TASK,
        is_source=True,
        time=scenario.clock,
        windows=Windows(),
        publish=lambda _, metrics: untraced_metrics.append(metrics),
    )
    for meter in (scenario.meter, untraced_meter):
        meter.record_batch(
            records=3, read=4, duration_s=2.0, poll_s=0.5, write_path="lane", errors=ErrorCounts(errors=1)
        )
        meter.record_commit_start()
        meter.record_commit()
        meter.record_transaction(3)
        meter.record_failure(ErrorCounts(skipped=1))
    assert scenario.published_metrics[-1] == untraced_metrics[-1]


def test_service_name_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-cluster")
    attributes = create_resource("w1:8083").attributes
    assert (attributes["service.name"], attributes["service.instance.id"]) == ("orders-cluster", "w1:8083")
    monkeypatch.delenv("OTEL_SERVICE_NAME")
    assert create_resource("w1:8083").attributes["service.name"] == "kraal"


def test_missing_tracing_packages_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse_standalone({**DEFAULTS, "tracing.enabled": "true"})
    monkeypatch.delitem(sys.modules, "kraal.metrics.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(
        ConfigInvalid, match=r"tracing.enabled=true requires .*opentelemetry.*install kraal\[otel\]"
    ):
        worker_traces(config)


def test_disabled_tracing_imports_no_packages() -> None:
    assert worker_traces(parse_standalone(DEFAULTS)) is None
    code = "import sys, kraal.worker.standalone; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
