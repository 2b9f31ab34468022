"""Schema of `GET /admin/assignments`, inline because it is only documented where `/admin` is served."""

from __future__ import annotations

from typing import Final

from kraal.core.ids import Json
from web.openapi.operation import Schema
from web.openapi.shapes import MAYBE_TEXT, NUMBER, TEXT, list_of, object_of

_TEXTS: Final = list_of(TEXT)


def _about(schema: Schema, about: str) -> dict[str, Json]:
    return {**schema, "description": about}


_LISTED: Final[Schema] = {**_TEXTS, "type": ["array", "null"]}
_REBALANCE: Final = object_of({"completed_ms": NUMBER, "reason": TEXT, "delay_ms": NUMBER}, maybe=True)
_MAYBE_NUMBER: Final[Schema] = {"type": ["integer", "null"]}
_LATEST: Final = object_of(
    {
        "generation": NUMBER,
        "completed_ms": NUMBER,
        "leader": MAYBE_TEXT,
        "reason": _about(MAYBE_TEXT, "Reason of the rebalance; null if another worker led it."),
        "delay_ms": _about(
            _MAYBE_NUMBER, "Delay until the next rebalance; null if another worker led this one."
        ),
    }
)
_WORKER: Final = object_of(
    {
        "url": MAYBE_TEXT,
        "kind": {"type": "string", "enum": ["static", "wildcard"]},
        "static_connectors": _about(
            _LISTED, "Connectors that it lists; null: no list, it runs any connector."
        ),
        "static_tasks": _about(_LISTED, "Ids of tasks that it lists; null: no list, it runs any task."),
        "connectors": _about(_TEXTS, "Connectors assigned to it."),
        "tasks": _about(_TEXTS, "Ids of tasks assigned to it."),
    }
)
_WAITING: Final = object_of(
    {
        "connector": TEXT,
        "task": _about(_MAYBE_NUMBER, "Null: the connector itself."),
        "state": {"type": "string", "enum": ["unlisted", "moving", "lost"]},
        "reason": TEXT,
    }
)

ASSIGNMENTS: Final[Schema] = object_of(
    {
        "protocol": _about(MAYBE_TEXT, "Protocol of the group; null in standalone mode."),
        "generation": NUMBER,
        "leader": MAYBE_TEXT,
        "note": _about(MAYBE_TEXT, "Why static assignments are ignored; null: they apply."),
        "rebalance": _about(_REBALANCE, "The latest rebalance and its reason."),
        "rebalances": _about(
            list_of(_LATEST),
            "The last ten rebalances that the leader took part in since it started, the latest first.",
        ),
        "workers": list_of(_WORKER),
        "waiting": _about(list_of(_WAITING), "Connectors and tasks that are assigned to no worker."),
    }
)
