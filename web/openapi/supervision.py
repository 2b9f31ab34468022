"""Schemas of supervision data, Kraal's addition to Connect's states, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.cluster.decisions.auto_restart import GivenUp
from kraal.config.connector.auto_restart import Restarted
from web.openapi.operation import Schema
from web.openapi.shapes import NUMBER, TEXT, list_of, object_of, ref

_FLAG: Final[Schema] = {"type": "boolean"}


def _maybe(kind: str, about: str) -> Schema:
    return {"type": [kind, "null"], "description": about}


STALL: Final[Mapping[str, Schema]] = {
    "stalled": {
        **_FLAG,
        "description": "Whether it has made no progress for longer than `task.stall.timeout.ms`.",
    },
    "stall_cause": _maybe("string", "Why, as a sentence; null: it is not stalled."),
}
_RESTARTS: Final[Mapping[str, Schema]] = {
    "worker_id": TEXT,
    "supervised": {**_FLAG, "description": "Whether it is restarted automatically after a failure."},
    "restarts": {**NUMBER, "description": "Number of automatic restarts."},
    "restarts_in_window": {**NUMBER, "description": "Number of automatic restarts that count against `max`."},
    "last_restart_ms": _maybe("integer", "Milliseconds since the epoch; null: never."),
    "next_restart_ms": _maybe("integer", "Milliseconds since the epoch; null: none is planned."),
    "given_up": {
        "type": ["string", "null"],
        "enum": [*(each.value for each in GivenUp), None],
        "description": "Why it stays FAILED although it is supervised.",
    },
    "why": _maybe("string", "The same as a sentence."),
}

SUPERVISION: Final[Mapping[str, Schema]] = {
    "Supervision": object_of(
        {
            "policy": object_of(
                {
                    "restart": {"type": "string", "enum": [each.value for each in Restarted]},
                    "max": NUMBER,
                    "window_ms": NUMBER,
                    "backoff_ms": NUMBER,
                },
                about="The connector's settings for automatic restarts.",
            ),
            "connector": ref("SupervisedInstance"),
            "tasks": list_of(ref("SupervisedTask")),
            "silent": {**list_of(TEXT), "description": "Workers that did not answer."},
        },
        optional=("connector",),
        about="With `expand=supervision`: data of running and failed instances.",
    ),
    "SupervisedInstance": object_of({**_RESTARTS, **STALL}),
    "SupervisedTask": object_of(
        {
            "id": NUMBER,
            **_RESTARTS,
            **STALL,
            "step_ms": _maybe("integer", "Milliseconds in the current step; null: no step is in progress."),
            "last_batch_age_ms": _maybe("integer", "Milliseconds since its latest batch was written."),
            "last_batch_way": _maybe("string", "How the worker carried out the latest batch, and why."),
        }
    ),
    "StalledTask": object_of(
        {
            "connector": TEXT,
            "task": NUMBER,
            "cause": TEXT,
            "stalled_ms": {**NUMBER, "description": "Milliseconds since its last progress."},
            "step_ms": _maybe("integer", "Milliseconds in the current step; null: no step is in progress."),
            "last_batch_age_ms": _maybe("integer", "Milliseconds since its latest batch was written."),
        }
    ),
    "StalledConnector": object_of(
        {
            "connector": TEXT,
            "cause": TEXT,
            "stalled_ms": {**NUMBER, "description": "Milliseconds since its last progress."},
        }
    ),
    "DownPart": object_of(
        {
            "part": {**TEXT, "description": "`spark`, `lane`, `plugins-jvm`, or `plugins-jvm:CONNECTOR`."},
            "why": TEXT,
            "down_ms": {**NUMBER, "description": "Milliseconds since it was up."},
        },
        about="A part of the worker that tasks need and that is down.",
    ),
}
