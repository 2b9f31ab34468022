"""Schema of `GET /admin/assignments`, which is documented only if the main listeners serve `/admin`."""

from __future__ import annotations

from typing import Final

from kraal.core.ids import Json
from web.openapi.operation import Schema
from web.openapi.shapes import NULLABLE_TEXT, NUMBER, TEXT, list_of, object_of

_TEXTS: Final = list_of(TEXT)


def _describe(schema: Schema, description: str) -> dict[str, Json]:
    return {**schema, "description": description}


_NULLABLE_TEXTS: Final[Schema] = {**_TEXTS, "type": ["array", "null"]}
_REBALANCE: Final = object_of({"completed_ms": NUMBER, "reason": TEXT, "delay_ms": NUMBER}, nullable=True)
_NULLABLE_NUMBER: Final[Schema] = {"type": ["integer", "null"]}
_PAST_REBALANCE: Final = object_of(
    {
        "generation": NUMBER,
        "completed_ms": NUMBER,
        "leader": NULLABLE_TEXT,
        "reason": _describe(NULLABLE_TEXT, "Reason for the rebalance; null if another worker led it."),
        "delay_ms": _describe(
            _NULLABLE_NUMBER, "Delay until the next rebalance; null if another worker led this one."
        ),
    }
)
_WORKER: Final = object_of(
    {
        "url": NULLABLE_TEXT,
        "kind": {"type": "string", "enum": ["static", "wildcard"]},
        "static_connectors": _describe(
            _NULLABLE_TEXTS, "Connectors in the static assignment; null if the worker runs any connector."
        ),
        "static_tasks": _describe(
            _NULLABLE_TEXTS, "Ids of tasks in the static assignment; null if the worker runs any task."
        ),
        "connectors": _describe(_TEXTS, "Connectors assigned to the worker."),
        "tasks": _describe(_TEXTS, "Ids of tasks assigned to the worker."),
    }
)
_WAITING: Final = object_of(
    {
        "connector": TEXT,
        "task": _describe(_NULLABLE_NUMBER, "Null for the connector itself."),
        "state": {"type": "string", "enum": ["unlisted", "moving", "lost"]},
        "reason": TEXT,
    }
)

ASSIGNMENTS: Final[Schema] = object_of(
    {
        "protocol": _describe(NULLABLE_TEXT, "Protocol of the group; null in standalone mode."),
        "generation": NUMBER,
        "leader": NULLABLE_TEXT,
        "note": _describe(NULLABLE_TEXT, "Reason why static assignments are ignored; null if they apply."),
        "rebalance": _describe(_REBALANCE, "The latest rebalance and its reason."),
        "rebalances": _describe(
            list_of(_PAST_REBALANCE),
            "The last ten rebalances since the startup of the current leader, latest first.",
        ),
        "workers": list_of(_WORKER),
        "waiting": _describe(list_of(_WAITING), "Unassigned connectors and tasks."),
    }
)
