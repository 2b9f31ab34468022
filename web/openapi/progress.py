"""Schemas of task metrics by name. Task metrics are Kraal's addition to Connect's responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.metrics.series import RECENT, SAMPLES
from web.openapi.operation import Schema
from web.openapi.shapes import NUMBER, TEXT, list_of, object_of, ref
from web.openapi.supervision import STALL

_SILENT_WORKERS: Final[Schema] = {**list_of(TEXT), "description": "Workers that did not respond."}


def _nullable(kind: str, description: str) -> Schema:
    return {"type": [kind, "null"], "description": description}


def _samples(kind: str, description: str, max_items: int = SAMPLES, min_items: int = 0) -> Schema:
    return {
        **list_of({"type": [kind, "null"]}),
        "minItems": min_items,
        "maxItems": max_items,
        "description": description,
    }


PROGRESS: Final[Mapping[str, Schema]] = {
    "Progress": object_of(
        {
            "tasks": list_of(ref("TaskProgress")),
            "stall_cause": _nullable(
                "string", "Reason why the connector itself is stalled; null if it is not."
            ),
            "recent_records_per_second": _samples(
                "number",
                "Total of all tasks, one value per 5 seconds, oldest first; null if unknown.",
                RECENT,
                RECENT,
            ),
            "silent": _SILENT_WORKERS,
        },
        description="With `expand=progress`: metrics of running and failed tasks.",
    ),
    "TaskProgress": object_of(
        {
            "id": NUMBER,
            "worker_id": TEXT,
            "records_per_second": _nullable("number", "Records written per second, over the metrics window."),
            "records_total": _nullable("integer", "Records written since the task was started."),
            "read_total": _nullable(
                "integer", "Records read since the task was started, before transforms and errors."
            ),
            "poll_ms": _nullable("number", "Duration of a source's latest poll that returned records."),
            "write_ms": _nullable("number", "Duration of the latest write."),
            "commit_ms": _nullable("number", "Duration of the latest commit of offsets."),
            "commits_total": _nullable("integer", "Commits of offsets since the task was started."),
            "errors": object_of(
                {
                    "failed": _nullable("integer", "Records that could not be processed."),
                    "skipped": _nullable("integer", "Skipped records."),
                    "logged": _nullable("integer", "Records whose errors were logged."),
                    "dead_lettered": _nullable("integer", "Records written as dead letters."),
                },
                description="Numbers of records with errors since the task was started.",
            ),
            "backlog_records": _nullable(
                "integer",
                "Records (offsets) between a running sink's position and the end of its partitions.",
            ),
            **STALL,
            "step_ms": _nullable(
                "integer", "Milliseconds in the current step; null if no step is in progress."
            ),
            "last_batch_age_ms": _nullable(
                "integer", "Milliseconds since the task's latest batch was written."
            ),
        },
        description="Times are in milliseconds; null if unknown or not applicable to the task.",
    ),
    "ConnectorSeries": object_of(
        {
            "step_ms": {**NUMBER, "description": "Duration of a sample."},
            "start_ms": {
                **NUMBER,
                "description": "Start of the first sample in milliseconds since the epoch, a multiple of the step.",
            },
            "tasks": list_of(ref("TaskSeries")),
            "worker_ids": {**list_of(TEXT), "description": "Workers that responded."},
            "silent": _SILENT_WORKERS,
        }
    ),
    "TaskSeries": object_of(
        {
            "id": NUMBER,
            "records_per_second": _samples("number", "Records written per second."),
            "poll_ms": _samples("number", "Mean duration of a source's polls that returned records."),
            "write_ms": _samples("number", "Mean duration of writes, or of puts for a Java sink."),
            "commit_ms": _samples("number", "Mean duration of commits of offsets."),
            "backlog_records": _samples(
                "integer",
                "Records (offsets) between a running sink's position and the end of its partitions.",
            ),
        },
        description="One value for each sample, oldest first; null if there is no measurement.",
    ),
}
