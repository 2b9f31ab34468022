"""Schemas of task metrics, Kraal's addition to Connect's responses, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.metrics.series import RECENT, SAMPLES
from web.openapi.operation import Schema
from web.openapi.shapes import NUMBER, TEXT, list_of, object_of, ref
from web.openapi.supervision import STALL

_SILENT: Final[Schema] = {**list_of(TEXT), "description": "Workers that did not answer."}


def _maybe(kind: str, about: str) -> Schema:
    return {"type": [kind, "null"], "description": about}


def _samples(kind: str, about: str, max_items: int = SAMPLES, min_items: int = 0) -> Schema:
    return {
        **list_of({"type": [kind, "null"]}),
        "minItems": min_items,
        "maxItems": max_items,
        "description": about,
    }


PROGRESS: Final[Mapping[str, Schema]] = {
    "Progress": object_of(
        {
            "tasks": list_of(ref("TaskProgress")),
            "stall_cause": _maybe("string", "Why the connector itself is stalled; null: it is not."),
            "recent_records_per_second": _samples(
                "number",
                "All tasks together, one value each 5 seconds, oldest first; null: unknown.",
                RECENT,
                RECENT,
            ),
            "silent": _SILENT,
        },
        about="With `expand=progress`: metrics of running and failed tasks.",
    ),
    "TaskProgress": object_of(
        {
            "id": NUMBER,
            "worker_id": TEXT,
            "records_per_second": _maybe(
                "number", "Records written each second, over the window of the metrics."
            ),
            "records_total": _maybe("integer", "Records written since the task was started."),
            "read_total": _maybe("integer", "Records read since then, before transforms and errors."),
            "poll_ms": _maybe("number", "Duration of a source's latest poll that returned records."),
            "write_ms": _maybe("number", "Duration of the latest write."),
            "commit_ms": _maybe("number", "Duration of the latest commit of offsets."),
            "commits_total": _maybe("integer", "Commits of offsets since the task was started."),
            "errors": object_of(
                {
                    "failed": _maybe("integer", "Records that could not be processed."),
                    "skipped": _maybe("integer", "Skipped records."),
                    "logged": _maybe("integer", "Those that were logged."),
                    "dead_lettered": _maybe("integer", "Those that were written as dead letters."),
                },
                about="Since the task was started.",
            ),
            "backlog_records": _maybe(
                "integer",
                "Records (offsets) between a running sink's position and the end of its partitions.",
            ),
            **STALL,
            "step_ms": _maybe("integer", "Milliseconds in the current step; null: no step is in progress."),
            "last_batch_age_ms": _maybe("integer", "Milliseconds since its latest batch was written."),
        },
        about="Times are in milliseconds; null: unknown, or not of this task.",
    ),
    "ConnectorSeries": object_of(
        {
            "step_ms": {**NUMBER, "description": "Duration of a sample."},
            "start_ms": {
                **NUMBER,
                "description": "When the first sample began: milliseconds since the epoch, a multiple of the step.",
            },
            "tasks": list_of(ref("TaskSeries")),
            "worker_ids": {**list_of(TEXT), "description": "Workers that answered."},
            "silent": _SILENT,
        }
    ),
    "TaskSeries": object_of(
        {
            "id": NUMBER,
            "records_per_second": _samples("number", "Records written each second."),
            "poll_ms": _samples("number", "Mean duration of a source's polls that returned records."),
            "write_ms": _samples("number", "Mean duration of writes; of a Java sink: of its puts."),
            "commit_ms": _samples("number", "Mean duration of commits of offsets."),
            "backlog_records": _samples(
                "integer",
                "Records (offsets) between a running sink's position and the end of its partitions.",
            ),
        },
        about="One value for each sample, oldest first; null: a gap, or nothing to measure.",
    ),
}
