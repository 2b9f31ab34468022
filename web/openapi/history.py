"""Schemas of the journal's responses, which are Kraal's extension of Connect's API."""

from __future__ import annotations

from typing import Final

from kraal.core.ids import Json
from kraal.core.log_levels import LEVELS
from kraal.journal.causes import REMOVED
from kraal.journal.events import EventKind
from web.openapi.operation import Query, Schema
from web.openapi.shapes import NULLABLE_TEXT, NUMBER, TEXT, list_of, map_of, object_of

_STATES: Final = ["UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING", REMOVED]


def _describe(schema: Schema, description: str) -> dict[str, Json]:
    return {**schema, "description": description}


_MS: Final = _describe(NUMBER, "Milliseconds since the epoch; -1 if unknown.")
_BY: Final = _describe(
    TEXT, "Author of the request, such as `PUT from 10.0.0.7`; empty if there was no request."
)
_TASK: Final = _describe({"type": ["integer", "null"]}, "Null for the connector itself.")
_DROPPED: Final = _describe(NUMBER, "Number of older entries that were dropped.")

HISTORY: Final[Schema] = object_of(
    {
        "worker_id": _describe(TEXT, "The worker that recorded the history."),
        "since_ms": _describe(
            NUMBER, "Time at which the worker started recording. Older states were stored before that time."
        ),
        "states": list_of(
            object_of(
                {
                    "ms": _MS,
                    "task": _TASK,
                    "state": {"type": "string", "enum": [*_STATES]},
                    "worker_id": _describe(TEXT, "The worker that wrote the state."),
                    "generation": NUMBER,
                    "cause": TEXT,
                    "by": _BY,
                    "trace": _describe(
                        NULLABLE_TEXT, "First lines of the stack trace; null if there is none."
                    ),
                }
            )
        ),
        "dropped": _DROPPED,
    }
)
_CONFIG: Final[Schema] = {
    **map_of(NULLABLE_TEXT),
    "description": "Config, with secrets replaced by `[hidden]`.",
}
CONFIGS: Final[Schema] = object_of(
    {
        "current": object_of(
            {"ms": _MS, "by": _BY, "config": _CONFIG},
            description="Null if the connector was deleted.",
            nullable=True,
        ),
        "earlier": list_of(
            object_of(
                {
                    "ms": _MS,
                    "by": _BY,
                    "config": _CONFIG,
                    "changed": _describe(
                        list_of(TEXT),
                        "Keys that differ in the next version; empty if the connector was deleted.",
                    ),
                }
            )
        ),
        "dropped": _DROPPED,
    }
)
EVENTS: Final[Schema] = object_of(
    {
        "boot": _describe(TEXT, "Id of the process; a new process restarts the sequence at 1."),
        "worker_id": TEXT,
        "events": list_of(
            object_of(
                {
                    "seq": NUMBER,
                    "ms": _MS,
                    "kind": {"type": "string", "enum": [str(kind) for kind in EventKind]},
                    "connector": _describe(NULLABLE_TEXT, "Null for the worker itself."),
                    "task": {"type": ["integer", "null"]},
                    "text": TEXT,
                    "by": _BY,
                }
            )
        ),
        "dropped": _DROPPED,
    }
)
LINE_FIELDS: Final[dict[str, Schema]] = {
    "id": _describe(NUMBER, "Microseconds since the epoch, strictly increasing on each worker."),
    "ms": _MS,
    "worker_id": TEXT,
    "level": {"type": "string", "enum": [*LEVELS]},
    "logger": TEXT,
    "task": _TASK,
    "message": _describe(TEXT, "Message, including a traceback if there is one."),
}
LOGS: Final[Schema] = object_of(
    {
        "lines": list_of(object_of(LINE_FIELDS)),
        "next": _describe(TEXT, "Value of `after` with which to request the following lines."),
        "dropped": _DROPPED,
        "silent": _describe(list_of(TEXT), "Workers that run the connector and did not respond."),
    }
)


def limit(maximum: int, default: int) -> Query:
    """Return the query parameter `limit`."""
    return Query(
        name="limit",
        description="Maximum number of entries.",
        schema={"type": "integer", "minimum": 1, "maximum": maximum, "default": default},
    )


TASK: Final = Query(
    name="task",
    description="Task number: returns only entries of this task. Default: the connector and all its tasks.",
    schema={"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
)
