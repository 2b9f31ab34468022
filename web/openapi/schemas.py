"""The shapes of bodies, by name; fields in the order in which answers have them (contract 1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.ids import Json
from web.openapi.operation import Schema

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "integer"}
_MAYBE_TEXT: Final[Schema] = {"type": ["string", "null"]}
_STATES: Final = ["UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING"]
_INITIAL: Final = ("RUNNING", "PAUSED", "STOPPED")


def _any_case(word: str) -> str:
    """Return the pattern of a word in any letter case; JSON schemas have no flag for it."""
    return "".join(f"[{letter}{letter.lower()}]" for letter in word)


def _object(
    fields: Mapping[str, Schema], *, optional: tuple[str, ...] = (), about: str = ""
) -> dict[str, Json]:
    """Return the schema of an object with these fields and no others."""
    described: dict[str, Json] = {"description": about} if about else {}
    return {
        "type": "object",
        **described,
        "properties": {name: dict(schema) for name, schema in fields.items()},
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


def ref(name: str) -> Schema:
    """Return what stands for the named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(schema: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": dict(schema)}


def map_of(schema: Schema) -> Schema:
    """Return the schema of an object whose fields may have any name."""
    return {"type": "object", "additionalProperties": dict(schema)}


SENT_CONFIG: Final[Schema] = map_of({"type": ["string", "number", "boolean", "null"]})
"""What is taken where a config is."""

_STATE_FIELDS: Final[Mapping[str, Schema]] = {
    "state": {"type": "string", "enum": [*_STATES]},
    "worker_id": _TEXT,
    "version": {**_MAYBE_TEXT, "description": "The plugin's; null when nothing runs yet."},
    "trace": {**_TEXT, "description": "Why it failed, or why no worker may run it; there only then."},
}
_OFFSET: Final = _object({"partition": {"type": "object"}, "offset": {"type": ["object", "null"]}})
_KIND: Final[Schema] = {"type": "string", "enum": ["source", "sink", "unknown"]}
_TASK: Final[Schema] = _object({"connector": _TEXT, "task": _NUMBER})
_TASK_STATE: Final = _object({"id": _NUMBER, **_STATE_FIELDS}, optional=("trace",))

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Error": _object(
        {"error_code": _NUMBER, "message": _MAYBE_TEXT}, about="Any error; `error_code` is the status."
    ),
    "Message": _object({"message": _TEXT}),
    "ConnectorOffsets": _object({"offsets": list_of(_OFFSET)}),
    "SentOffsets": _object({"offsets": {**list_of(_OFFSET), "minItems": 1}}),
    "ServerInfo": _object({"version": _TEXT, "commit": _TEXT, "kafka_cluster_id": _MAYBE_TEXT}),
    "WorkerStatus": _object(
        {"status": {"type": "string", "enum": ["healthy", "starting", "unhealthy"]}, "message": _TEXT}
    ),
    "ConnectorConfig": {
        **map_of(_MAYBE_TEXT),
        "description": "Texts by key; what `${…}` stands for is not shown.",
    },
    "SentConfig": {
        **SENT_CONFIG,
        "description": "By key; numbers and booleans are taken as texts, as they are written.",
    },
    "CreateConnectorRequest": _object(
        {
            "name": _TEXT,
            "config": ref("SentConfig"),
            "initial_state": {
                "type": ["string", "null"],
                "pattern": f"^({'|'.join(map(_any_case, _INITIAL))})$",
                "description": "In any letter case; RUNNING when left out (KIP-980).",
            },
        },
        optional=("name", "initial_state"),
    ),
    "ConnectorInfo": _object(
        {"name": _TEXT, "config": ref("ConnectorConfig"), "tasks": list_of(_TASK), "type": _KIND}
    ),
    "ConnectorStateInfo": _object(
        {
            "name": _TEXT,
            "connector": _object(_STATE_FIELDS, optional=("trace",)),
            "tasks": list_of(_TASK_STATE),
            "type": _KIND,
        }
    ),
    "TaskState": _TASK_STATE,
    "TaskInfo": _object(
        {
            "id": _TASK,
            "config": {
                **map_of(_MAYBE_TEXT),
                "type": ["object", "null"],
                "description": "Null while the set of tasks is not whole.",
            },
        }
    ),
    "ExpandedConnector": _object(
        {"status": ref("ConnectorStateInfo"), "info": ref("ConnectorInfo")},
        optional=("status", "info"),
        about="What `expand` asks for.",
    ),
    "ActiveTopics": {
        **map_of(_object({"topics": list_of(_TEXT)})),
        "description": "One field, of the connector's name.",
    },
    "PluginInfo": _object(
        {
            "class": _TEXT,
            "type": {
                "type": "string",
                "enum": ["sink", "source", "transformation", "predicate", "converter", "header_converter"],
            },
            "version": _TEXT,
        },
        optional=("version",),
    ),
    "ConfigKeyInfo": _object(
        {
            "name": _TEXT,
            "type": {
                "type": "string",
                "enum": ["BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"],
            },
            "required": {"type": "boolean"},
            "default_value": _MAYBE_TEXT,
            "importance": {"type": "string", "enum": ["HIGH", "MEDIUM", "LOW"]},
            "documentation": _TEXT,
            "group": _MAYBE_TEXT,
            "order_in_group": _NUMBER,
            "width": {"type": "string", "enum": ["NONE", "SHORT", "MEDIUM", "LONG"]},
            "display_name": _TEXT,
            "dependents": list_of(_TEXT),
        }
    ),
    "ConfigValueInfo": _object(
        {
            "name": _TEXT,
            "value": _MAYBE_TEXT,
            "recommended_values": list_of(_TEXT),
            "errors": list_of(_TEXT),
            "visible": {"type": "boolean"},
        }
    ),
    "ConfigInfos": _object(
        {
            "name": _TEXT,
            "error_count": _NUMBER,
            "groups": list_of(_TEXT),
            "configs": list_of(
                _object(
                    {
                        "definition": {"anyOf": [dict(ref("ConfigKeyInfo")), {"type": "null"}]},
                        "value": ref("ConfigValueInfo"),
                    }
                )
            ),
        }
    ),
}
