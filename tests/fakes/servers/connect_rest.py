"""An ASGI application with the parts of a Connect worker's REST API that the dashboard uses, in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

HIDE_ME = "geheim-Wort"
KEYS: list[tuple[str, str, bool, str | None, str, str | None, str]] = [
    ("name", "STRING", True, None, "HIGH", "Common", "Globally unique name."),
    ("connector.class", "STRING", True, None, "HIGH", "Common", "Name or alias."),
    ("tasks.max", "INT", False, "1", "HIGH", "Common", "Maximum <b>tasks</b>."),
    ("file", "STRING", False, None, "HIGH", None, "File <script>alert(1)</script>"),
    ("topic", "STRING", True, None, "HIGH", None, "Topic."),
    ("phrase", "PASSWORD", False, None, "MEDIUM", None, "Secret."),
    ("tolerant", "BOOLEAN", False, "false", "LOW", "Errors", "Whether."),
]
ResponseContent = tuple[int, Any]


class Problem(Exception):
    """An error response."""

    def __init__(self, status: int, message: str, retry_after: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


@dataclass
class Connector:
    """A connector's state."""

    config: dict[str, str | None]
    state: str = "RUNNING"
    tasks: list[str] = field(default_factory=lambda: ["RUNNING"])
    type: str = "source"
    offsets: list[dict[str, Any]] = field(default_factory=list)
    versions: list[dict[str, Any]] = field(default_factory=list)
    lags: list[int | None] | None = None
    """Lag of each offset, for `expand=lag`; None if the worker does not report lags, like a Java worker."""


@dataclass
class FakeConnect:
    """The worker. `requests` records modifying requests. `problems` contains errors for the next modifying requests."""

    connectors: dict[str, Connector] = field(default_factory=dict)
    plugins: list[dict[str, str]] = field(
        default_factory=lambda: [
            {"class": "org.example.FileSource", "type": "source", "version": "4.3.0"},
            {"class": "org.example.FileSink", "type": "sink", "version": "4.3.0"},
            {"class": "org.example.Cast$Value", "type": "transformation", "version": "4.3.0"},
        ]
    )
    keys: list[tuple[str, str, bool, str | None, str, str | None, str]] = field(
        default_factory=lambda: list(KEYS)
    )
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    paths: dict[str, Any] = field(default_factory=dict)
    """Paths of the OpenAPI document; if empty, the worker has no document, like a Java worker."""
    on_request: Any = None
    """Called with the method and the path segments of each request before its response."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        path = scope["raw_path"].decode("ascii").partition("?")[0]
        segments = [unquote(segment) for segment in path.strip("/").split("/")]
        query = parse_qs(scope["query_string"].decode("ascii"))
        headers: list[tuple[bytes, bytes]] = [(b"content-type", b"application/json")]
        try:
            status, value = self._handle(
                scope["method"], segments, query, json.loads(body) if body else None, path
            )
        except Problem as problem:
            status, value = problem.status, {"error_code": problem.status, "message": problem.message}
            if problem.retry_after is not None:
                headers.append((b"retry-after", problem.retry_after.encode("ascii")))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        content = b"" if value is None else json.dumps(value).encode()
        await send({"type": "http.response.body", "body": content})

    def _handle(
        self, method: str, segments: list[str], query: dict[str, list[str]], body: Any, path: str
    ) -> ResponseContent:
        if self.on_request is not None:
            self.on_request(method, segments)
        if method != "GET" and segments[-1] != "validate":
            text = "&".join(f"{key}={value[0]}" for key, value in query.items())
            self.requests.append((method, f"{path}?{text}" if text else path, body))
            if self.problems:
                raise self.problems.pop(0)
        match method, *segments:
            case "GET", "":
                return 200, {"version": "4.3.0", "commit": "abc", "kafka_cluster_id": "k"}
            case "GET", "openapi.json" if self.paths:
                return 200, {"openapi": "3.1.0", "paths": self.paths}
            case "GET", "connectors":
                return 200, {name: self._expand(name, query.get("expand", [])) for name in self.connectors}
            case "POST", "connectors":
                return self._create(body)
            case _, "connectors", name, *rest:
                return self._connector(method, name, rest, query, body)
            case _, "connector-plugins", *rest:
                return self._plugin(method, rest, body)
            case _:
                pass
        raise Problem(404, "HTTP 404 Not Found")

    def _expand(self, name: str, parts: list[str]) -> dict[str, Any]:
        connector = self.connectors[name]
        info = {"name": name, "config": connector.config, "tasks": [], "type": connector.type}
        return {
            part: {"status": self.status(name), "info": info}[part]
            for part in parts
            if part in ("status", "info")
        }

    def status(self, name: str) -> dict[str, Any]:
        """Return a connector's status."""
        connector = self.connectors[name]
        return {
            "name": name,
            "connector": {"state": connector.state, "worker_id": "w:1"},
            "tasks": [
                {"id": n, "state": state, "worker_id": "w:1"} for n, state in enumerate(connector.tasks)
            ],
            "type": connector.type,
        }

    def _create(self, body: Any) -> ResponseContent:
        name = body["name"]
        if name in self.connectors:
            raise Problem(409, f"Connector {name} already exists")
        offsets = body.get("initial_offsets", [])
        self.connectors[name] = Connector(config={**body["config"], "name": name}, offsets=offsets)
        offsets_status = {"offsets_status": "The offsets are set."} if offsets else {}
        return 201, {"name": name, "config": body["config"], "tasks": [], "type": "source", **offsets_status}

    def _connector(
        self, method: str, name: str, rest: list[str], query: dict[str, list[str]], body: Any
    ) -> ResponseContent:
        if name not in self.connectors:
            status = f"No status found for connector {name}"
            raise Problem(404, status if rest == ["status"] else f"Connector {name} not found")
        connector = self.connectors[name]
        match method, *rest:
            case "GET", "status":
                return 200, self.status(name)
            case "GET", "config":
                return 200, connector.config
            case "GET", "configs":
                return 200, {"current": connector.versions[0], "earlier": connector.versions[1:]}
            case "GET", "topics":
                return 200, {name: {"topics": []}}
            case "PUT", "config":
                connector.config = body
                return 200, {"name": name, "config": body, "tasks": [], "type": connector.type}
            case ("DELETE",):
                del self.connectors[name]
                return 204, None
            case "PUT", ("pause" | "resume" | "stop") as action:
                connector.state = {"pause": "PAUSED", "resume": "RUNNING", "stop": "STOPPED"}[action]
                connector.tasks = [] if action == "stop" else connector.tasks
                return (204 if action == "stop" else 202), None
            case "POST", "restart":
                return self._restart(name, query)
            case "POST", "tasks", _, "restart":
                return 204, None
            case _, "offsets":
                return self._offsets(method, connector, body, query.get("expand", []))
            case _:
                pass
        raise Problem(404, "HTTP 404 Not Found")

    def _restart(self, name: str, query: dict[str, list[str]]) -> ResponseContent:
        includes_tasks, only_failed = (
            query.get(key, ["false"])[0] == "true" for key in ("includeTasks", "onlyFailed")
        )
        if not includes_tasks and not only_failed:
            return 204, None
        statuses = self.status(name)
        for instance in [statuses["connector"], *(statuses["tasks"] if includes_tasks else [])]:
            if not only_failed or instance["state"] == "FAILED":
                instance["state"] = "RESTARTING"
        return 202, statuses

    def _offsets(self, method: str, connector: Connector, body: Any, expand: list[str]) -> ResponseContent:
        if method == "GET" and expand == ["lag"] and connector.lags is not None:
            pairs = zip(connector.offsets, connector.lags, strict=True)
            return 200, {"offsets": [{**offset, "lag": lag} for offset, lag in pairs]}
        if method == "GET":
            return 200, {"offsets": connector.offsets}
        if connector.state != "STOPPED" or connector.tasks:
            raise Problem(
                400, "Connectors must be in the STOPPED state before their offsets can be modified."
            )
        if method == "DELETE":
            connector.offsets = []
            return 200, {"message": "The offsets for this connector have been reset successfully"}
        for change in body["offsets"]:
            connector.offsets = [
                pair for pair in connector.offsets if pair["partition"] != change["partition"]
            ]
            connector.offsets += [change] if change["offset"] is not None else []
        return 200, {"message": "The offsets for this connector have been altered successfully"}

    def _plugin(self, method: str, rest: list[str], body: Any) -> ResponseContent:
        match method, *rest:
            case ("GET",):
                return 200, self.plugins
            case "GET", plugin, "config":
                if all(plugin not in info["class"] for info in self.plugins):
                    raise Problem(404, f"Unknown plugin {plugin}.")
                return 200, [_definition(*key) for key in self.keys]
            case "PUT", _, "config", "validate":
                return 200, self._validate(body)
            case _:
                pass
        raise Problem(404, "HTTP 404 Not Found")

    def _validate(self, config: dict[str, str | None]) -> dict[str, Any]:
        plugin = config.get("connector.class") or ""
        if all(not info["class"].endswith(plugin) for info in self.plugins):
            text = f"Failed to find any class that implements Connector and which name matches {plugin}, available are"
            raise Problem(500, f"org.apache.kafka.connect.runtime.rest.errors.BadRequestException: {text}")
        infos = []
        for key in self.keys:
            name, kind, required, default = key[:4]
            value, errors = config.get(name), []
            if required and not value:
                errors.append(f'Missing required configuration "{name}" which has no default value.')
            elif kind == "INT" and value is not None and not value.isdecimal():
                errors.append(f"Invalid value {value} for configuration {name}: Not a number of type INT")
            elif kind == "PASSWORD" and value == f"bad {HIDE_ME}":
                errors.append(f"Invalid value {value} for configuration {name}")
            displayed_value = (
                "[hidden]" if kind == "PASSWORD" and value else value if value is not None else default
            )
            config_value = {
                "name": name,
                "value": displayed_value,
                "recommended_values": [],
                "errors": errors,
                "visible": True,
            }
            infos.append({"definition": _definition(*key), "value": config_value})
        count = sum(len(info["value"]["errors"]) for info in infos)
        return {"name": plugin, "error_count": count, "groups": ["Common", "Errors"], "configs": infos}


def _definition(
    name: str,
    kind: str,
    required: bool,  # noqa: FBT001 - a row of KEYS
    default: str | None,
    importance: str,
    group: str | None,
    documentation: str,
) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "required": required,
        "default_value": default,
        "importance": importance,
        "documentation": documentation,
        "group": group,
        "order_in_group": -1,
        "width": "NONE",
        "display_name": name,
        "dependents": [],
    }
