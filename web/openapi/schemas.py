"""Schemas of request and response bodies by name. Fields have the same order as in the bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from web.openapi.operation import Schema
from web.openapi.progress import PROGRESS
from web.openapi.shapes import NULLABLE_TEXT, NUMBER, TEXT, list_of, map_of, object_of, ref
from web.openapi.supervision import SUPERVISION

_STATES: Final = ["UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING"]
_INITIAL_STATES: Final = ("RUNNING", "PAUSED", "STOPPED")


def _case_insensitive_pattern(word: str) -> str:
    """Return a pattern that matches a word in any letter case; JSON Schema has no case-insensitive flag."""
    return "".join(f"[{letter}{letter.lower()}]" for letter in word)


REQUEST_CONFIG: Final[Schema] = map_of({"type": ["string", "number", "boolean", "null"]})
"""Config values accepted in requests."""

_STATE_FIELDS: Final[Mapping[str, Schema]] = {
    "state": {"type": "string", "enum": [*_STATES]},
    "worker_id": TEXT,
    "version": {
        **NULLABLE_TEXT,
        "description": "Version of the plugin; null until the instance has started.",
    },
    "trace": {
        **TEXT,
        "description": "Cause of a failure, or the reason why no worker may run the instance; omitted otherwise.",
    },
}
_PAIR: Final[Mapping[str, Schema]] = {
    "partition": {"type": "object"},
    "offset": {"type": ["object", "null"]},
}
_OFFSET: Final = object_of(_PAIR)
_OFFSET_WITH_LAG: Final = object_of(
    {
        **_PAIR,
        "lag": {
            "type": ["integer", "null"],
            "description": "Lag of a sink, with `expand=lag`; null if the end offset is unknown.",
        },
    },
    optional=("lag",),
)
_KIND: Final[Schema] = {"type": "string", "enum": ["source", "sink", "unknown"]}
_TASK: Final[Schema] = object_of({"connector": TEXT, "task": NUMBER})
_INFO: Final[Mapping[str, Schema]] = {
    "name": TEXT,
    "config": ref("ConnectorConfig"),
    "tasks": list_of(_TASK),
    "type": _KIND,
}
_TASK_STATE: Final = object_of({"id": NUMBER, **_STATE_FIELDS}, optional=("trace",))

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Error": object_of(
        {"error_code": NUMBER, "message": NULLABLE_TEXT},
        description="An error; `error_code` is the HTTP status.",
    ),
    "Message": object_of({"message": TEXT}),
    "ConnectorOffsets": object_of({"offsets": list_of(_OFFSET_WITH_LAG)}),
    "SentOffsets": object_of({"offsets": {**list_of(_OFFSET), "minItems": 1}}),
    "ServerInfo": object_of({"version": TEXT, "commit": TEXT, "kafka_cluster_id": NULLABLE_TEXT}),
    "WorkerStatus": object_of(
        {
            "status": {"type": "string", "enum": ["healthy", "starting", "unhealthy"]},
            "message": TEXT,
            "stalled_tasks": NUMBER,
            "stalled": list_of(ref("StalledTask")),
            "stalled_connectors": list_of(ref("StalledConnector")),
            "down": list_of(ref("DownPart")),
        },
        optional=("stalled_tasks", "stalled", "stalled_connectors", "down"),
    ),
    "ConnectorConfig": {
        **map_of(NULLABLE_TEXT),
        "description": "Values by key; variables (`${…}`) are not resolved.",
    },
    "SentConfig": {
        **REQUEST_CONFIG,
        "description": "Values by key; numbers and booleans are stored as strings, as written.",
    },
    "CreateConnectorRequest": object_of(
        {
            "name": TEXT,
            "config": ref("SentConfig"),
            "initial_state": {
                "type": ["string", "null"],
                "pattern": f"^({'|'.join(map(_case_insensitive_pattern, _INITIAL_STATES))})$",
                "description": "Case-insensitive; default: RUNNING (KIP-980).",
            },
            "initial_offsets": {
                **list_of(_OFFSET),
                "type": ["array", "null"],
                "minItems": 1,
                "description": "Offsets to start from (KIP-995). With exactly-once support, tasks of a deleted source "
                "connector with the same name are fenced first.",
            },
        },
        optional=("name", "initial_state", "initial_offsets"),
    ),
    "ConnectorInfo": object_of(_INFO),
    "CreatedConnector": object_of(
        {
            **_INFO,
            "offsets_status": {**TEXT, "description": "Confirmation that `initial_offsets` are set."},
        },
        optional=("offsets_status",),
    ),
    "ConnectorStateInfo": object_of(
        {
            "name": TEXT,
            "connector": object_of(_STATE_FIELDS, optional=("trace",)),
            "tasks": list_of(_TASK_STATE),
            "type": _KIND,
            "supervision": ref("Supervision"),
            "progress": ref("Progress"),
        },
        optional=("supervision", "progress"),
    ),
    **SUPERVISION,
    **PROGRESS,
    "TaskState": _TASK_STATE,
    "TaskInfo": object_of(
        {
            "id": _TASK,
            "config": {
                **map_of(NULLABLE_TEXT),
                "type": ["object", "null"],
                "description": "Null while the task configs are incomplete.",
            },
        }
    ),
    "ExpandedConnector": object_of(
        {"status": ref("ConnectorStateInfo"), "info": ref("ConnectorInfo"), "progress": ref("Progress")},
        optional=("status", "info", "progress"),
        description="The parts requested by `expand`.",
    ),
    "ActiveTopics": {
        **map_of(object_of({"topics": list_of(TEXT)})),
        "description": "One field, named after the connector.",
    },
    "PluginInfo": object_of(
        {
            "class": TEXT,
            "type": {
                "type": "string",
                "enum": ["sink", "source", "transformation", "predicate", "converter", "header_converter"],
            },
            "version": TEXT,
            "runtime": {"type": "string", "enum": ["java", "python"]},
        },
        optional=("version", "runtime"),
    ),
    "ConnectorPart": object_of(
        {
            "part": {**TEXT, "description": "`connector`, or the key that names the class."},
            "class": TEXT,
            "version": NULLABLE_TEXT,
            "runtime": {"type": "string", "enum": ["java", "python"]},
        },
        description="A plugin named in a connector's config, with the running version.",
    ),
    "ConfigKeyInfo": object_of(
        {
            "name": TEXT,
            "type": {
                "type": "string",
                "enum": ["BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"],
            },
            "required": {"type": "boolean"},
            "default_value": NULLABLE_TEXT,
            "importance": {"type": "string", "enum": ["HIGH", "MEDIUM", "LOW"]},
            "documentation": NULLABLE_TEXT,
            "group": NULLABLE_TEXT,
            "order_in_group": NUMBER,
            "width": {"type": "string", "enum": ["NONE", "SHORT", "MEDIUM", "LONG"]},
            "display_name": NULLABLE_TEXT,
            "dependents": list_of(TEXT),
        }
    ),
    "ConfigValueInfo": object_of(
        {
            "name": TEXT,
            "value": NULLABLE_TEXT,
            "recommended_values": list_of(TEXT),
            "errors": list_of(TEXT),
            "visible": {"type": "boolean"},
        }
    ),
    "ConfigInfos": object_of(
        {
            "name": TEXT,
            "error_count": NUMBER,
            "groups": list_of(TEXT),
            "configs": list_of(
                object_of(
                    {
                        "definition": {"anyOf": [dict(ref("ConfigKeyInfo")), {"type": "null"}]},
                        "value": ref("ConfigValueInfo"),
                    }
                )
            ),
        }
    ),
}
