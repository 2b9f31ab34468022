"""Steps that request `/`, `/health`, unknown paths, and every path with all methods and other media types."""

from __future__ import annotations

from tests.differential.allowances import error, fields, in_standalone, status, whole
from tests.differential.script import Step, ask, family

_PATHS = {
    "root": "/",
    "health": "/health",
    "connectors": "/connectors",
    "a connector": "/connectors/none",
    "a config": "/connectors/none/config",
    "tasks": "/connectors/none/tasks",
    "a task's status": "/connectors/none/tasks/0/status",
    "a task's restart": "/connectors/none/tasks/0/restart",
    "a status": "/connectors/none/status",
    "pause": "/connectors/none/pause",
    "resume": "/connectors/none/resume",
    "stop": "/connectors/none/stop",
    "restart": "/connectors/none/restart",
    "fence": "/connectors/none/fence",
    "offsets": "/connectors/none/offsets",
    "topics": "/connectors/none/topics",
    "topics/reset": "/connectors/none/topics/reset",
    "plugins": "/connector-plugins",
    "a plugin's config": "/connector-plugins/FileStreamSource/config",
    "validate": "/connector-plugins/FileStreamSource/config/validate",
    "loggers": "/admin/loggers",
    "a logger": "/admin/loggers/root",
}
_METHODS = {
    "root": "GET",
    "health": "GET",
    "connectors": "GET POST",
    "a connector": "GET DELETE",
    "a config": "GET PUT PATCH",
    "tasks": "GET POST",
    "a task's status": "GET",
    "a task's restart": "POST",
    "a status": "GET",
    "pause": "PUT",
    "resume": "PUT",
    "stop": "PUT",
    "restart": "POST",
    "fence": "PUT",
    "offsets": "GET PATCH DELETE",
    "topics": "GET",
    "topics/reset": "PUT",
    "plugins": "GET",
    "a plugin's config": "GET",
    "validate": "PUT",
    "loggers": "GET",
    "a logger": "GET PUT",
}


_FORM_ALLOWANCES = {
    "tasks": [error("unreadable-body", 500, 400)],
    "fence": [in_standalone(status("standalone-internal", 500, 400))],
}
"""Allowances for bodies of HTML forms."""


def _make_path_steps() -> list[Step]:
    """Return steps with OPTIONS, unsupported methods and unsupported media types for every path."""
    steps = []
    for name, path in _PATHS.items():
        methods = _METHODS[name].split()
        steps.append(ask(f"OPTIONS of {name}", f"OPTIONS {path}"))
        steps += [
            ask(f"{method} of {name}", f"{method} {path}")
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
            if method not in methods
        ]
        steps += [
            ask(f"{method} of {name} for XML", f"{method} {path}", headers={"Accept": "application/xml"})
            for method in methods
        ]
        steps += [
            ask(
                f"{method} of {name} with a form",
                f"{method} {path}",
                "a=b",
                *_FORM_ALLOWANCES.get(name, []),
                content_type="application/x-www-form-urlencoded",
            )
            for method in methods
            if method not in ("GET", "DELETE")
        ]
    return steps


STEPS = family(
    "worker",
    ask("version", "GET /", None, fields("commit", "commit")),
    ask("health", "GET /health"),
    ask("HEAD of the root", "HEAD /"),
    ask("HEAD of connectors", "HEAD /connectors"),
    ask("HEAD of no connector", "HEAD /connectors/none"),
    ask("HEAD of health", "HEAD /health"),
    ask("a slash at the end", "GET /connectors/"),
    ask("two slashes", "GET //connectors", None, whole("names-in-paths", 400, 404)),
    ask("unknown path", "GET /none"),
    ask("unknown path by POST", "POST /none", {}),
    ask("unknown path below a connector", "GET /connectors/none/none"),
    ask("the removed path tasks-config", "GET /connectors/none/tasks-config"),
    ask("unknown path below admin", "GET /admin/none"),
    ask("an unknown method", "BREW /connectors"),
    ask("TRACE", "TRACE /connectors"),
    ask("HTTP's own asterisk", "OPTIONS *", None, whole("names-in-paths", 404, 404)),
    ask("metrics", "GET /metrics", None, whole("metrics", 404, 200)),
    ask("assignments", "GET /admin/assignments", None, whole("assignments", 404, 200)),
    ask("events", "GET /events", None, whole("events", 404, 200)),
    ask("changes", "GET /changes?wait_ms=0", None, whole("changes", 404, 200)),
    ask(
        "changes of metrics, for a worker",
        "GET /changes?forward=false&kinds=numbers&wait_ms=0",
        None,
        whole("changes", 404, 200),
    ),
    ask("the API's description", "GET /openapi.json", None, whole("openapi", 404, 200)),
    ask(
        "several types including JSON",
        "GET /connectors",
        headers={"Accept": "text/html, application/json;q=0.5"},
    ),
    ask("any application type", "GET /connectors", headers={"Accept": "application/*"}),
    ask("a broken Accept", "GET /connectors", headers={"Accept": "json"}),
    ask(
        "a GET with a form's type",
        "GET /connectors",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    ),
    ask("from another origin", "GET /connectors", headers={"Origin": "http://elsewhere.example"}),
    _make_path_steps(),
)
