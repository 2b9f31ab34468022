"""Schemas of supervision data by name. Supervision data is Kraal's addition to Connect's states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.cluster.decisions.auto_restart import NoRestartReason
from kraal.config.connector.auto_restart import RestartScope
from web.openapi.operation import Schema
from web.openapi.shapes import NUMBER, TEXT, list_of, object_of, ref

_FLAG: Final[Schema] = {"type": "boolean"}


def _nullable(kind: str, description: str) -> Schema:
    return {"type": [kind, "null"], "description": description}


STALL: Final[Mapping[str, Schema]] = {
    "stalled": {
        **_FLAG,
        "description": "Whether the instance has made no progress for longer than `task.stall.timeout.ms`.",
    },
    "stall_cause": _nullable("string", "Reason for the stall; null if the instance is not stalled."),
}
_RESTARTS: Final[Mapping[str, Schema]] = {
    "worker_id": TEXT,
    "supervised": {
        **_FLAG,
        "description": "Whether the instance is restarted automatically after a failure.",
    },
    "restarts": {**NUMBER, "description": "Number of automatic restarts."},
    "restarts_in_window": {**NUMBER, "description": "Number of automatic restarts that count against `max`."},
    "last_restart_ms": _nullable("integer", "Milliseconds since the epoch; null if never restarted."),
    "next_restart_ms": _nullable("integer", "Milliseconds since the epoch; null if none is planned."),
    "given_up": {
        "type": ["string", "null"],
        "enum": [*(reason.value for reason in NoRestartReason), None],
        "description": "Reason why the instance stays FAILED although it is supervised.",
    },
    "why": _nullable("string", "The reason in `given_up` as a sentence."),
}

SUPERVISION: Final[Mapping[str, Schema]] = {
    "Supervision": object_of(
        {
            "policy": object_of(
                {
                    "restart": {
                        "type": "string",
                        "enum": [restart_scope.value for restart_scope in RestartScope],
                    },
                    "max": NUMBER,
                    "window_ms": NUMBER,
                    "backoff_ms": NUMBER,
                },
                description="The connector's settings for automatic restarts.",
            ),
            "connector": ref("SupervisedInstance"),
            "tasks": list_of(ref("SupervisedTask")),
            "silent": {**list_of(TEXT), "description": "Workers that did not respond."},
        },
        optional=("connector",),
        description="With `expand=supervision`: data of running and failed instances.",
    ),
    "SupervisedInstance": object_of({**_RESTARTS, **STALL}),
    "SupervisedTask": object_of(
        {
            "id": NUMBER,
            **_RESTARTS,
            **STALL,
            "step_ms": _nullable(
                "integer", "Milliseconds in the current step; null if no step is in progress."
            ),
            "last_batch_age_ms": _nullable(
                "integer", "Milliseconds since the task's latest batch was written."
            ),
            "last_batch_way": _nullable("string", "Write path of the latest batch, and the reason for it."),
        }
    ),
    "StalledTask": object_of(
        {
            "connector": TEXT,
            "task": NUMBER,
            "cause": TEXT,
            "stalled_ms": {**NUMBER, "description": "Milliseconds since the task last made progress."},
            "step_ms": _nullable(
                "integer", "Milliseconds in the current step; null if no step is in progress."
            ),
            "last_batch_age_ms": _nullable(
                "integer", "Milliseconds since the task's latest batch was written."
            ),
        }
    ),
    "StalledConnector": object_of(
        {
            "connector": TEXT,
            "cause": TEXT,
            "stalled_ms": {**NUMBER, "description": "Milliseconds since the connector last made progress."},
        }
    ),
    "DownPart": object_of(
        {
            "part": {
                **TEXT,
                "description": "`spark`, `lane`, `group`, `plugins-jvm`, or `plugins-jvm:CONNECTOR`.",
            },
            "why": TEXT,
            "down_ms": {**NUMBER, "description": "Milliseconds since the failure."},
        },
        description="A failed component of the worker that tasks require.",
    ),
}
