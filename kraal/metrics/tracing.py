"""OpenTelemetry traces of batches: a span for each batch, created after its offsets are stored or the task fails.

Requires the packages of the extra `otel`; this module is imported only if `tracing.enabled=true`. The SDK's environment
variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER`, …) configure the exporter and the sampler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, Tracer, set_span_in_context
from typing_extensions import override

from kraal import __version__
from kraal.core.ids import TaskId
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.metrics.task import TaskMeter, TaskMetrics, Time
from kraal.metrics.windows import Windows

FLUSH_TIMEOUT_S: Final = 3.0
"""Time limit for sending the last spans at shutdown."""
_NS_PER_SECOND: Final = 1_000_000_000

Phases = Sequence[tuple[str, int, int]]
"""Name, start and end of each phase of a batch, in nanoseconds since the epoch."""


@dataclass(slots=True)
class _WrittenBatch:
    """A written batch whose offsets are not stored yet."""

    attributes: dict[str, str | int]
    phases: list[tuple[str, int, int]]
    start_ns: int
    end_ns: int


class TracedMeter(TaskMeter):
    """A meter that also creates spans. Used on its actor's thread only."""

    def __init__(
        self, task: TaskId, *, tracer: Tracer, is_source: bool, time: Time, **meter_options: Any
    ) -> None:
        super().__init__(task, is_source=is_source, time=time, **meter_options)
        self._tracer = tracer
        self._is_source = is_source
        self._task_attributes: dict[str, str | int] = {
            "kraal.connector": task.connector,
            "kraal.task": task.task,
        }
        self._pending_batch: _WrittenBatch | None = None

    @override
    def record_batch(
        self,
        *,
        records: int,
        duration_s: float,
        poll_s: float,
        read: int | None = None,
        errors: ErrorCounts = NO_ERRORS,
        write_path: str = "",
        continuous: bool = False,
        batches: int = 1,
    ) -> None:
        super().record_batch(
            records=records, duration_s=duration_s, poll_s=poll_s, read=read, errors=errors,
            write_path=write_path, continuous=continuous, batches=batches,
        )  # fmt: skip
        end_ns = self._now_ns()
        write_ns = end_ns - round(duration_s * _NS_PER_SECOND)
        start_ns = write_ns - (round(poll_s * _NS_PER_SECOND) if self._is_source else 0)
        phases = [("poll", start_ns, write_ns)] if start_ns < write_ns else []
        attributes: dict[str, str | int] = {
            **self._task_attributes,
            "kraal.records.read": records if read is None else read,
            "kraal.records.written": records,
            "kraal.records.failed": errors.errors,
            "kraal.way": write_path,
        }
        # For continuous writes, the duration is the time since the last report, because there are no phases.
        self._pending_batch = _WrittenBatch(
            attributes, [] if continuous else [*phases, ("write", write_ns, end_ns)], start_ns, end_ns
        )

    @override
    def record_transaction(self, records: int) -> None:
        super().record_transaction(records)
        if self._pending_batch is not None:
            self._pending_batch.attributes["kraal.records.in_transaction"] = records

    @override
    def record_commit(self) -> None:
        since_s = self._metrics.committing_s  # start of the first attempt
        commit_duration_s = 0.0 if since_s is None else self._time.now() - since_s
        super().record_commit()
        if self._pending_batch is not None and commit_duration_s:
            self._pending_batch.end_ns = self._now_ns()
            self._pending_batch.phases.append(
                (
                    "commit",
                    self._pending_batch.end_ns - round(commit_duration_s * _NS_PER_SECOND),
                    self._pending_batch.end_ns,
                )
            )
        self._end(Status(StatusCode.OK))

    @override
    def record_failure(self, errors: ErrorCounts = NO_ERRORS) -> None:
        super().record_failure(errors)
        self._end(Status(StatusCode.ERROR, "The task failed before the offsets were stored"))

    def _end(self, status: Status) -> None:
        batch, self._pending_batch = self._pending_batch, None
        if batch is None:
            return
        span = self._tracer.start_span("batch", start_time=batch.start_ns, attributes=batch.attributes)
        parent_context = set_span_in_context(span)
        for name, start_ns, end_ns in batch.phases:
            self._tracer.start_span(name, parent_context, start_time=start_ns).end(end_ns)
        span.set_status(status)
        span.end(batch.end_ns)

    def _now_ns(self) -> int:
        return self._time.wall_ms() * 1_000_000


class Traces:
    """The tracer of a worker."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("kraal", __version__)

    def meter(
        self,
        task: TaskId,
        *,
        is_source: bool,
        time: Time,
        windows: Windows,
        publish: Callable[[TaskId, TaskMetrics], None],
    ) -> TaskMeter:
        """Create the meter of a task."""
        return TracedMeter(
            task, tracer=self._tracer, is_source=is_source, time=time, windows=windows, publish=publish
        )

    def close(self, timeout_s: float = FLUSH_TIMEOUT_S) -> None:
        """Send the last spans; spans that are not sent in time are lost."""
        sender = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        sender.start()
        sender.join(timeout_s)


def create_resource(worker_id: str) -> Resource:
    """Return the resource attributes of all spans of a worker; environment variables take precedence."""
    service = {"service.name": "kraal", "service.version": __version__, "service.instance.id": worker_id}
    return Resource.create().merge(Resource(service)).merge(OTELResourceDetector().detect())


def open_traces(worker_id: str) -> Traces:
    """Return traces whose spans are sent over OTLP in the background."""
    provider = TracerProvider(resource=create_resource(worker_id), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider)
