"""Features of a worker's REST API, derived from the responses to `GET /` and `GET /openapi.json`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

_LIST_PATH: Final = "/connectors"
_STATUS_PATH: Final = "/connectors/{connector}/status"
_LOGGERS_PATH: Final = "/admin/loggers"
_PATHS: Final = {
    "assignments": "/admin/assignments",
    "loggers": _LOGGERS_PATH,
    "versions": "/connectors/{connector}/plugins",
    "topics": "/connectors/{connector}/topics",
    "health": "/health",
    "changes": "/changes",
    "series": "/connectors/{connector}/series",
    "history": "/connectors/{connector}/history",
    "configs": "/connectors/{connector}/configs",
    "logs": "/connectors/{connector}/logs",
    "dead_letters": "/connectors/{connector}/dead-letters",
    "events": "/events",
    "proofs": "/connectors/{connector}/proof",
    "ledger": "/connectors/{connector}/ledger",
    "tables": "/connectors/{connector}/tables",
}


@dataclass(frozen=True, slots=True)
class Features:
    """Features of a worker's REST API; pages omit unavailable data."""

    kraal: bool = False
    version: str = ""
    """Version of Connect."""
    commit: str = ""
    kafka_cluster_id: str = ""
    assignments: bool = False
    """`GET /admin/assignments`."""
    loggers: bool = False
    """`GET /admin/loggers`."""
    supervision: bool = False
    """`GET /connectors/{c}/status?expand=supervision`."""
    versions: bool = False
    """`GET /connectors/{c}/plugins`."""
    topics: bool = True
    health: bool = False
    changes: bool = False
    """`GET /changes`."""
    progress: bool = False
    """`expand=progress`: task metrics."""
    series: bool = False
    history: bool = False
    configs: bool = False
    """`GET /connectors/{c}/configs`: previous configs."""
    logs: bool = False
    dead_letters: bool = False
    events: bool = False
    proofs: bool = False
    ledger: bool = False
    tables: bool = False


def detect_features(root: Any, document: Any, *, admin: bool = False) -> Features:
    """Return the features of a worker.

    `root` is the response to `GET /`. `document` is the response to `GET /openapi.json`, or None for an Apache Kafka
    worker, which has no such endpoint. `admin` is whether paths that start with `/admin/` are served although the
    document does not list them.
    """
    root = root if isinstance(root, Mapping) else {}
    common_features = Features(
        version=_text(root, "version"),
        commit=_text(root, "commit"),
        kafka_cluster_id=_text(root, "kafka_cluster_id"),
        loggers=True,
    )
    if not isinstance(document, Mapping) or not isinstance(document.get("paths"), Mapping):
        return common_features
    paths = document["paths"]
    flags: dict[str, Any] = {
        name: path in paths or (admin and path.startswith("/admin/")) for name, path in _PATHS.items()
    }
    return replace(
        common_features,
        **flags,
        kraal=True,
        supervision="supervision" in _expand_values(paths, _STATUS_PATH),
        progress="progress" in _expand_values(paths, _LIST_PATH),
    )


def _text(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    return value if isinstance(value, str) else ""


def _expand_values(paths: Mapping[str, Any], path: str) -> list[str]:
    """Return the values that a path documents for `expand`."""
    match paths.get(path):
        case {"get": {"parameters": [*parameters]}}:
            pass
        case _:
            return []
    for parameter in parameters:
        match parameter:
            case {"name": "expand", "schema": {"items": {"enum": [*values]}} | {"enum": [*values]}}:
                return [str(value) for value in values]
            case _:
                continue
    return []
