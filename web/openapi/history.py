"""Schemas of the answers from the journal, Kraal's addition to Connect."""

from __future__ import annotations

from typing import Final

from kraal.core.ids import Json
from kraal.core.log_levels import LEVELS
from kraal.journal.causes import REMOVED
from kraal.journal.events import EventKind
from web.openapi.operation import Query, Schema
from web.openapi.shapes import MAYBE_TEXT, NUMBER, TEXT, list_of, map_of, object_of

_STATES: Final = ["UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING", REMOVED]


def _about(schema: Schema, about: str) -> dict[str, Json]:
    return {**schema, "description": about}


_MS: Final = _about(NUMBER, "Milliseconds since the epoch; -1: unknown.")
_BY: Final = _about(TEXT, "Who requested it, such as `PUT from 10.0.0.7`; empty: no request.")
_TASK: Final = _about({"type": ["integer", "null"]}, "Null: the connector itself.")
_DROPPED: Final = _about(NUMBER, "Number of older entries for which there was no room.")

HISTORY: Final[Schema] = object_of(
    {
        "worker_id": _about(TEXT, "The worker whose view this is."),
        "since_ms": _about(NUMBER, "Since when the worker records; older states are as it found them."),
        "states": list_of(
            object_of(
                {
                    "ms": _MS,
                    "task": _TASK,
                    "state": {"type": "string", "enum": [*_STATES]},
                    "worker_id": _about(TEXT, "The worker that wrote it."),
                    "generation": NUMBER,
                    "cause": TEXT,
                    "by": _BY,
                    "trace": _about(MAYBE_TEXT, "The first lines; null: none."),
                }
            )
        ),
        "dropped": _DROPPED,
    }
)
_CONFIG: Final[Schema] = {**map_of(MAYBE_TEXT), "description": "With secrets as `[hidden]`."}
CONFIGS: Final[Schema] = object_of(
    {
        "current": object_of(
            {"ms": _MS, "by": _BY, "config": _CONFIG}, about="Null: it was deleted.", maybe=True
        ),
        "earlier": list_of(
            object_of(
                {
                    "ms": _MS,
                    "by": _BY,
                    "config": _CONFIG,
                    "changed": _about(
                        list_of(TEXT),
                        "Keys in which the next version differs; none: the connector was deleted.",
                    ),
                }
            )
        ),
        "dropped": _DROPPED,
    }
)
EVENTS: Final[Schema] = object_of(
    {
        "boot": _about(TEXT, "Identifies the process; another one counts from 1 again."),
        "worker_id": TEXT,
        "events": list_of(
            object_of(
                {
                    "seq": NUMBER,
                    "ms": _MS,
                    "kind": {"type": "string", "enum": [str(kind) for kind in EventKind]},
                    "connector": _about(MAYBE_TEXT, "Null: the worker itself."),
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
    "id": _about(NUMBER, "Rises with each line of a worker: microseconds since the epoch."),
    "ms": _MS,
    "worker_id": TEXT,
    "level": {"type": "string", "enum": [*LEVELS]},
    "logger": TEXT,
    "task": _TASK,
    "message": _about(TEXT, "With the traceback, if there is one."),
}
LOGS: Final[Schema] = object_of(
    {
        "lines": list_of(object_of(LINE_FIELDS)),
        "next": _about(TEXT, "The value of `after` for the lines that follow these."),
        "dropped": _DROPPED,
        "silent": _about(list_of(TEXT), "Workers that run the connector and did not answer."),
    }
)


def limit(maximum: int, default: int) -> Query:
    """Return the parameter `limit`."""
    return Query(
        name="limit",
        about="Maximum number of entries.",
        schema={"type": "integer", "minimum": 1, "maximum": maximum, "default": default},
    )


TASK: Final = Query(
    name="task",
    about="Number of a task, for its entries only. Default: the connector and all its tasks.",
    schema={"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
)
