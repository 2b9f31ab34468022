"""The shape of `GET /admin/assignments`, spelled out where it is used: it stands only where `/admin` is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.ids import Json
from web.openapi.operation import Schema

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "integer"}
_TEXTS: Final[Schema] = {"type": "array", "items": dict(_TEXT)}
_MAYBE_TEXT: Final[Schema] = {"type": ["string", "null"]}


def _object(fields: Mapping[str, Schema], *, maybe: bool = False) -> dict[str, Json]:
    return {
        "type": ["object", "null"] if maybe else "object",
        "properties": {name: dict(schema) for name, schema in fields.items()},
        "required": [*fields],
        "additionalProperties": False,
    }


def _list(schema: Schema) -> dict[str, Json]:
    return {"type": "array", "items": dict(schema)}


def _about(schema: Schema, about: str) -> dict[str, Json]:
    return {**schema, "description": about}


_LISTED: Final[Schema] = {**_TEXTS, "type": ["array", "null"]}
_REBALANCE: Final = _object({"completed_ms": _NUMBER, "reason": _TEXT, "delay_ms": _NUMBER}, maybe=True)
_WORKER: Final = _object(
    {
        "url": _MAYBE_TEXT,
        "kind": {"type": "string", "enum": ["static", "wildcard"]},
        "static_connectors": _about(_LISTED, "What it lists; null: nothing, it runs whatever it is given."),
        "static_tasks": _about(_LISTED, "Ids of tasks that it lists."),
        "connectors": _about(_TEXTS, "What is assigned to it."),
        "tasks": _about(_TEXTS, "Ids of tasks that are assigned to it."),
    }
)
_WAITING: Final = _object(
    {
        "connector": _TEXT,
        "task": _about({"type": ["integer", "null"]}, "Null: the connector itself."),
        "state": {"type": "string", "enum": ["unlisted", "moving", "lost"]},
        "reason": _TEXT,
    }
)

ASSIGNMENTS: Final[Schema] = _object(
    {
        "protocol": _about(_MAYBE_TEXT, "What the group speaks; null in standalone."),
        "generation": _NUMBER,
        "leader": _MAYBE_TEXT,
        "note": _about(_MAYBE_TEXT, "Why static assignments are ignored; null: they are not."),
        "rebalance": _about(_REBALANCE, "The last one, and what made it necessary."),
        "workers": _list(_WORKER),
        "waiting": _about(_list(_WAITING), "What is assigned to nobody."),
    }
)
