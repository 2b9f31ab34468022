"""Operations by path and method, with the paths of the route tables.

Every path with `GET` also has `HEAD`, and every path has `OPTIONS`; they are not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from web.openapi.assignments import ASSIGNMENTS
from web.openapi.operation import Operation, Query, Schema
from web.openapi.schemas import SENT_CONFIG
from web.openapi.shapes import TEXT, list_of, map_of, ref

_FLAG: Final[Schema] = {"type": "boolean", "default": False}
_ONE: Final = "/connectors/{connector}"
_FORWARDED: Final = (409, 503)
_STEERED: Final = (
    "getConnectorStatus",
    "pauseConnector",
    "resumeConnector",
    "stopConnector",
    "restartConnector",
)
_CREATED: Final = ("getConnector", "listTasks", *_STEERED, "deleteConnector")
_STOPPED: Final = ("getConnectorOffsets", "alterConnectorOffsets", "resetConnectorOffsets", *_STEERED)

Operations = Mapping[str, Mapping[str, Operation]]
"""By path, then by method in lower case."""

_CONNECTORS: Final[Operations] = {
    "/connectors": {
        "get": Operation(
            name="listConnectors",
            tag="connectors",
            summary="Names of all connectors; with expand, what they are and how they do",
            query=(
                Query(
                    name="expand",
                    about="What to tell of each connector, instead of its name alone.",
                    schema={"type": "string", "enum": ["status", "info"]},
                    many=True,
                ),
            ),
            answers={
                200: {"anyOf": [dict(list_of(TEXT)), dict(map_of(ref("ExpandedConnector")))]},
            },
        ),
        "post": Operation(
            name="createConnector",
            tag="connectors",
            summary="Create a connector",
            about="Answers when its config is stored.",
            body="CreateConnectorRequest",
            then=_CREATED,
            answers={201: "ConnectorInfo"},
            located=(201,),
            errors=_FORWARDED,
        ),
    },
    _ONE: {
        "get": Operation(
            name="getConnector",
            tag="connectors",
            summary="A connector's config and tasks",
            answers={200: "ConnectorInfo"},
        ),
        "delete": Operation(
            name="deleteConnector",
            tag="connectors",
            summary="Delete a connector, and stop it and its tasks",
            answers={204: None},
            errors=_FORWARDED,
        ),
    },
    f"{_ONE}/config": {
        "get": Operation(
            name="getConnectorConfig",
            tag="connectors",
            summary="A connector's config, as it was written",
            answers={200: "ConnectorConfig"},
        ),
        "put": Operation(
            name="putConnectorConfig",
            tag="connectors",
            summary="Replace a connector's config, or create it",
            body="SentConfig",
            then=_CREATED,
            answers={200: "ConnectorInfo", 201: "ConnectorInfo"},
            located=(201,),
            errors=_FORWARDED,
        ),
        "patch": Operation(
            name="patchConnectorConfig",
            tag="connectors",
            summary="Change some keys of a connector's config; null takes one away",
            body="SentConfig",
            answers={200: "ConnectorInfo"},
            errors=_FORWARDED,
        ),
    },
    f"{_ONE}/status": {
        "get": Operation(
            name="getConnectorStatus",
            tag="connectors",
            summary="States of a connector and its tasks",
            query=(
                Query(
                    name="expand",
                    about="What to tell beside the states: automatic restarts, and tasks that make no progress.",
                    schema={"type": "string", "enum": ["supervision"]},
                    many=True,
                ),
            ),
            answers={200: "ConnectorStateInfo"},
        ),
    },
    f"{_ONE}/pause": {
        "put": Operation(
            name="pauseConnector",
            tag="connectors",
            summary="Have a connector and its tasks do nothing for now",
            then=(*_STEERED, "deleteConnector"),
            answers={202: None},
            errors=_FORWARDED,
        ),
    },
    f"{_ONE}/resume": {
        "put": Operation(
            name="resumeConnector",
            tag="connectors",
            summary="Have a paused or stopped connector go on",
            then=(*_STEERED, "deleteConnector"),
            answers={202: None},
            errors=_FORWARDED,
        ),
    },
    f"{_ONE}/stop": {
        "put": Operation(
            name="stopConnector",
            tag="connectors",
            summary="Stop a connector and give up its tasks",
            then=(*_STOPPED, "deleteConnector"),
            answers={204: None},
            errors=_FORWARDED,
        ),
    },
    f"{_ONE}/restart": {
        "post": Operation(
            name="restartConnector",
            tag="connectors",
            summary="Restart a connector, its tasks, or those of them that failed",
            about="With neither parameter the connector alone is restarted, and the answer has no body (KIP-745).",
            query=(
                Query(name="includeTasks", about="Its tasks as well.", schema=_FLAG),
                Query(name="onlyFailed", about="Only what is FAILED.", schema=_FLAG),
            ),
            then=(*_STEERED, "deleteConnector"),
            answers={202: "ConnectorStateInfo", 204: None},
            errors=_FORWARDED,
        ),
    },
}

_TASKS: Final[Operations] = {
    f"{_ONE}/tasks": {
        "get": Operation(
            name="listTasks",
            tag="tasks",
            summary="A connector's tasks with their configs",
            answers={200: list_of(ref("TaskInfo"))},
        ),
        "post": Operation(
            name="putTaskConfigs",
            tag="internal",
            summary="Between workers: what a connector's tasks are to be",
            body=list_of(ref("SentConfig")),
            answers={204: None},
            errors=(*_FORWARDED, 403),
            internal=True,
        ),
    },
    f"{_ONE}/tasks/{{task}}/status": {
        "get": Operation(
            name="getTaskStatus",
            tag="tasks",
            summary="State of a task",
            answers={200: "TaskState"},
        ),
    },
    f"{_ONE}/tasks/{{task}}/restart": {
        "post": Operation(
            name="restartTask",
            tag="tasks",
            summary="Restart a task",
            answers={204: None},
            errors=_FORWARDED,
        ),
    },
    f"{_ONE}/fence": {
        "put": Operation(
            name="fenceZombies",
            tag="internal",
            summary="Between workers: shut out the producers of a connector's older tasks",
            answers={204: None},
            errors=(*_FORWARDED, 400, 403),
            internal=True,
        ),
    },
}

_TOPICS: Final[Operations] = {
    f"{_ONE}/topics": {
        "get": Operation(
            name="getConnectorTopics",
            tag="topics",
            summary="Topics that a connector has used",
            answers={200: "ActiveTopics"},
            errors=(403,),
        ),
    },
    f"{_ONE}/topics/reset": {
        "put": Operation(
            name="resetConnectorTopics",
            tag="topics",
            summary="Forget the topics that a connector has used",
            answers={200: None},
            errors=(403, 503),
        ),
    },
}

_OFFSETS: Final[Operations] = {
    f"{_ONE}/offsets": {
        "get": Operation(
            name="getConnectorOffsets",
            tag="offsets",
            summary="Where a connector goes on",
            answers={200: "ConnectorOffsets"},
        ),
        "patch": Operation(
            name="alterConnectorOffsets",
            tag="offsets",
            summary="Change where a stopped connector goes on; null forgets a partition",
            body="SentOffsets",
            answers={200: "Message"},
            errors=_FORWARDED,
        ),
        "delete": Operation(
            name="resetConnectorOffsets",
            tag="offsets",
            summary="Have a stopped connector begin anew",
            answers={200: "Message"},
            errors=(400, *_FORWARDED),
        ),
    },
}

_PLUGINS: Final[Operations] = {
    "/connector-plugins": {
        "get": Operation(
            name="listPlugins",
            tag="plugins",
            summary="Plugins of this worker",
            query=(
                Query(
                    name="connectorsOnly",
                    about="Leave out all but connectors.",
                    schema={"type": "boolean", "default": True},
                ),
            ),
            answers={200: list_of(ref("PluginInfo"))},
            errors=(503,),
        ),
    },
    "/connector-plugins/{plugin}/config": {
        "get": Operation(
            name="getPluginConfig",
            tag="plugins",
            summary="The keys that a plugin's config may have",
            query=(
                Query(
                    name="version",
                    about="Refuse, unless the plugin has this version, or one in this range (KIP-891).",
                    schema={"type": "string"},
                ),
            ),
            answers={200: list_of(ref("ConfigKeyInfo"))},
            errors=(400, 503),
        ),
    },
    "/connector-plugins/{plugin}/config/validate": {
        "put": Operation(
            name="validatePluginConfig",
            tag="plugins",
            summary="Check a connector's config",
            about="Errors of the config are in the answer, which is 200 all the same.",
            body="SentConfig",
            answers={200: "ConfigInfos"},
        ),
    },
}

_WORKER: Final[Operations] = {
    "/": {
        "get": Operation(
            name="getServerInfo",
            tag="worker",
            summary="Which Connect this is, and of which Kafka cluster",
            answers={200: "ServerInfo"},
        ),
    },
    "/health": {
        "get": Operation(
            name="getHealth",
            tag="worker",
            summary="Whether this worker has started and works",
            answers={200: "WorkerStatus", 500: "WorkerStatus", 503: "WorkerStatus"},
        ),
    },
    "/metrics": {
        "get": Operation(
            name="getMetrics",
            tag="worker",
            summary="The worker's numbers, for Prometheus",
            about="Unknown with `metrics.endpoint.enabled=false`.",
            answers={200: {"type": "string"}},
            media_type="text/plain",
        ),
    },
    "/openapi.json": {
        "get": Operation(
            name="getOpenApi",
            tag="worker",
            summary="This document",
            answers={200: {"type": "object"}},
        ),
    },
}

_LEVEL: Final[Schema] = {
    "type": "object",
    "properties": {"level": dict(TEXT), "last_modified": {"type": ["integer", "null"]}},
    "required": ["level", "last_modified"],
    "additionalProperties": False,
}

ADMIN: Final[Operations] = {
    "/admin/assignments": {
        "get": Operation(
            name="getAssignments",
            tag="worker",
            summary="Who may run what, what runs where, what waits and why (KIP-987)",
            answers={200: ASSIGNMENTS},
            errors=(404, 409),
        ),
    },
    "/admin/loggers": {
        "get": Operation(
            name="listLoggers",
            tag="loggers",
            summary="Levels of all loggers of this worker",
            answers={200: map_of(_LEVEL)},
        ),
    },
    "/admin/loggers/{logger}": {
        "get": Operation(
            name="getLogger",
            tag="loggers",
            summary="The level that counts for a logger",
            answers={200: _LEVEL},
        ),
        "put": Operation(
            name="setLoggerLevel",
            tag="loggers",
            summary="Set the level of a logger and of all below it",
            body={**SENT_CONFIG, "properties": {"level": dict(TEXT)}, "required": ["level"]},
            query=(
                Query(
                    name="scope",
                    about="This worker, or all of the cluster.",
                    schema={"type": "string", "enum": ["worker", "cluster"], "default": "worker"},
                ),
            ),
            answers={200: list_of(TEXT), 204: None},
            errors=(503,),
        ),
    },
}
"""Paths below `/admin`; documented for the listeners that serve them."""

PATHS: Final[Operations] = {**_CONNECTORS, **_TASKS, **_TOPICS, **_OFFSETS, **_PLUGINS, **_WORKER}
"""All other paths."""
