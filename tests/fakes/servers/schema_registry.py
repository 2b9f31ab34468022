"""An in-memory schema registry on loopback with Confluent's REST API.

Supports subjects, versions, ids shared between subjects, references, compatibility, deletion and users. Avro schemas
are parsed by fastavro, which validates Kraal's schemas independently. A schema is compatible unless it has a new field
without a default, which is sufficient for tests of rejections.
Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import fastavro
from typing_extensions import override


class _ErrorResponse(Exception):
    """An error response."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error_code": code, "message": message}


@dataclass
class SchemaRegistryServer:
    """The state of the registry, and the requests it has received."""

    url: str = ""
    user_info: str | None = None
    """Required credentials as user:password; None if none are required."""
    token: str | None = None
    is_unavailable: bool = False
    """Whether every response is a 503."""
    requests: list[str] = field(default_factory=list)
    """Method and path of each request."""
    schemas: list[dict[str, Any]] = field(default_factory=list)
    """Schemas by id, starting at 1."""
    subjects: dict[str, list[int]] = field(default_factory=dict)
    """Ids by version, starting at 1; 0 is a deleted version."""
    levels: dict[str, str] = field(default_factory=lambda: {"": "BACKWARD"})
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, subject: str, schema: object, kind: str = "AVRO", **fields: object) -> int:
        """Register a schema as another client; return its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return int(self.register(subject, {"schema": text, "schemaType": kind, **fields})["id"])

    def text(self, schema_id: int) -> Any:
        """Return the text of a registered schema."""
        return json.loads(self.schemas[schema_id - 1]["schema"])

    def latest(self, subject: str) -> Any:
        """Return a subject's latest schema."""
        return self.text(self.subjects[subject][-1])

    # --- requests -----------------------------------------------------------------------------------------------

    def register(self, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
        schema = self._parse_schema(body)
        with self.lock:
            versions = self.subjects.setdefault(subject, [])
            known_id = next(
                (schema_id for schema_id in versions if schema_id and self.schemas[schema_id - 1] == schema),
                None,
            )
            if known_id is not None:
                return {"id": known_id}
            self._check_compatible(subject, versions, schema)
            if schema not in self.schemas:
                self.schemas.append(schema)
            versions.append(self.schemas.index(schema) + 1)
            return {"id": versions[-1]}

    def find_schema(self, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
        schema = self._parse_schema(body)
        for version, schema_id in enumerate(self._versions(subject), 1):
            if schema_id and self.schemas[schema_id - 1] == schema:
                return self._describe_version(subject, version)
        raise _ErrorResponse(404, 40403, "Schema not found")

    def names(self) -> list[str]:
        return sorted(self.subjects)

    def versions(self, subject: str) -> list[int]:
        return [version for version, schema_id in enumerate(self._versions(subject), 1) if schema_id]

    def version(self, subject: str, number: str) -> dict[str, Any]:
        versions = self.versions(subject)
        version = versions[-1] if number in {"latest", "-1"} else int(number)
        if version not in versions:
            raise _ErrorResponse(404, 40402, f"Version {number} not found.")
        return self._describe_version(subject, version)

    def get_schema(self, schema_id: str) -> dict[str, Any]:
        number = int(schema_id)
        if not 0 < number <= len(self.schemas):
            raise _ErrorResponse(404, 40403, f"Schema {number} not found")
        return dict(self.schemas[number - 1])

    def list_versions(self, schema_id: str) -> list[dict[str, Any]]:
        self.get_schema(schema_id)
        return [
            {"subject": subject, "version": version}
            for subject, ids in self.subjects.items()
            for version, version_id in enumerate(ids, 1)
            if version_id == int(schema_id)
        ]

    def delete(self, subject: str) -> list[int]:
        deleted_versions = self.versions(subject)
        del self.subjects[subject]
        return deleted_versions

    def config(self, subject: str) -> dict[str, str]:
        return {"compatibilityLevel": self.levels.get(subject, self.levels[""])}

    def set_config(self, subject: str, body: Mapping[str, Any]) -> dict[str, str]:
        self.levels[subject] = body["compatibility"]
        return {"compatibility": body["compatibility"]}

    def test(self, subject: str, body: Mapping[str, Any]) -> dict[str, bool]:
        try:
            self._check_compatible(subject, self._versions(subject), self._parse_schema(body))
        except _ErrorResponse:
            return {"is_compatible": False}
        return {"is_compatible": True}

    # --- implementation -----------------------------------------------------------------------------------------

    def _parse_schema(self, body: Mapping[str, Any]) -> dict[str, Any]:
        kind, references = body.get("schemaType") or "AVRO", body.get("references") or []
        schema: dict[str, Any] = {"schema": body["schema"]}
        if kind != "AVRO":
            schema["schemaType"] = kind
        if references:
            schema["references"] = references
        if kind == "AVRO":
            self._check_avro(schema["schema"], references)
        return schema

    def _check_avro(self, text: str, references: list[dict[str, Any]]) -> None:
        named_schemas: dict[str, Any] = {}
        try:
            for reference in references:
                referenced_version = self.version(reference["subject"], str(reference["version"]))
                fastavro.parse_schema(json.loads(referenced_version["schema"]), named_schemas=named_schemas)
            fastavro.parse_schema(json.loads(text), named_schemas=named_schemas)
        except Exception as exc:
            raise _ErrorResponse(422, 42201, f"Invalid schema {text}, details: {exc}") from exc

    def _check_compatible(self, subject: str, versions: list[int], schema: Mapping[str, Any]) -> None:
        versions_before = [schema_id for schema_id in versions if schema_id]
        if (
            self.config(subject)["compatibilityLevel"] == "NONE"
            or not versions_before
            or schema.get("schemaType")
        ):
            return
        old_schema, new_schema = self.text(versions_before[-1]), json.loads(schema["schema"])
        old_fields = _fields(old_schema)
        if any(
            name not in old_fields and "default" not in definition
            for name, definition in _fields(new_schema).items()
        ):
            message = (
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
            )
            raise _ErrorResponse(409, 409, message)

    def _versions(self, subject: str) -> list[int]:
        if subject not in self.subjects:
            raise _ErrorResponse(404, 40401, f"Subject '{subject}' not found.")
        return self.subjects[subject]

    def _describe_version(self, subject: str, version: int) -> dict[str, Any]:
        schema_id = self.subjects[subject][version - 1]
        return {"subject": subject, "version": version, "id": schema_id, **self.schemas[schema_id - 1]}

    def is_authorized(self, authorization: str | None) -> bool:
        if self.token is not None:
            return authorization == f"Bearer {self.token}"
        if self.user_info is None:
            return True
        return authorization == f"Basic {base64.b64encode(self.user_info.encode()).decode()}"

    def respond(self, method: str, path: str, body: Any) -> Any:
        for verb, pattern, name, receives_body in _ROUTES:
            match = re.fullmatch(pattern, path)
            if verb == method and match is not None:
                parts = [unquote(part or "") for part in match.groups()]
                return getattr(self, name)(*parts, *([body] if receives_body else []))
        raise _ErrorResponse(404, 404, f"HTTP 404 Not Found: {method} {path}")


def _fields(schema: Any) -> dict[str, Any]:
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    return {field["name"]: field for field in fields}


_ROUTES: list[tuple[str, str, str, bool]] = [
    ("GET", "/subjects", "names", False),
    ("POST", "/subjects/([^/]+)/versions", "register", True),
    ("POST", "/subjects/([^/]+)", "find_schema", True),
    ("DELETE", "/subjects/([^/]+)", "delete", False),
    ("GET", "/subjects/([^/]+)/versions", "versions", False),
    ("GET", "/subjects/([^/]+)/versions/([^/]+)", "version", False),
    ("GET", r"/schemas/ids/(\d+)", "get_schema", False),
    ("GET", r"/schemas/ids/(\d+)/versions", "list_versions", False),
    ("GET", "/config(?:/([^/]+))?", "config", False),
    ("PUT", "/config(?:/([^/]+))?", "set_config", True),
    ("POST", "/compatibility/subjects/([^/]+)/versions/latest", "test", True),
]
"""Method, path pattern, name of the handler, and whether the handler receives the body."""


@contextmanager
def schema_registry() -> Iterator[SchemaRegistryServer]:
    """Run a registry until the end of the block."""
    registry = SchemaRegistryServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._respond()

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - names defined by BaseHTTPRequestHandler

        def _respond(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            registry.requests.append(f"{self.command} {parts.path}")
            try:
                status, result = 200, self._dispatch(parts.path, body)
            except _ErrorResponse as exc:
                status, result = exc.status, exc.body
            content = json.dumps(result).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _dispatch(self, path: str, body: Any) -> Any:
            if registry.is_unavailable:
                raise _ErrorResponse(503, 50301, "Service unavailable")
            if not registry.is_authorized(self.headers["Authorization"]):
                raise _ErrorResponse(401, 40101, "Unauthorized")
            return registry.respond(self.command, path, body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            del format, args

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False  # clients keep their connections open

    with Server(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join(5)
