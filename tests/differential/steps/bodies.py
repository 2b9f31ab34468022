"""Steps that send invalid bodies to every endpoint that accepts a body."""

from __future__ import annotations

from collections.abc import Mapping

from tests.differential.allowances import (
    Allowance,
    error,
    whole,
)
from tests.differential.configs import idle, source
from tests.differential.script import Step, ask, family, states

_UNREADABLE = error("unreadable-body", 500, 400)

_ENDPOINTS: Mapping[str, str] = {
    "create": "POST /connectors",
    "put": "PUT /connectors/body/config",
    "patch": "PATCH /connectors/body/config",
    "offsets": "PATCH /connectors/body/offsets",
    "validate": "PUT /connector-plugins/FileStreamSource/config/validate",
    "logger": "PUT /admin/loggers/body.example",
}
_INVALID_BODIES: Mapping[str, str | bytes] = {
    "truncated": '{"name": "x"',
    "XML": "<xml/>",
    "blank": "  ",
    "a single quote": "{'name': 'x'}",
    "a trailing comma": '{"name": "x",}',
    "an unquoted word": "nonsense",
    "not UTF-8": b'{"name": "\xff"}',
    "an array": "[]",
    "a string": '"name"',
    "a number": "12",
    "true": "true",
    "NaN": '{"name": NaN}',
    "an object as a value": '{"config": {"a": {}}, "a": {}, "offsets": {}, "level": {}}',
    "an array as a value": '{"config": {"a": [1]}, "a": [1], "offsets": "x", "level": [1]}',
}
"""Bodies that are invalid for all endpoints."""


_MEDIA_TYPES = (
    "text/plain",
    "application/x-yaml",
    "application/json;charset=utf-8",
    "APPLICATION/JSON",
    "application/merge-patch+json",
)


def _make_invalid_body_steps() -> list[Step]:
    return [
        ask(f"{endpoint}: {description}", line, body, _UNREADABLE)
        for endpoint, line in _ENDPOINTS.items()
        for description, body in _INVALID_BODIES.items()
    ]


def _allow_media_type(endpoint: str, media_type: str) -> list[Allowance]:
    """Return the allowances for a body that is valid only as a map of strings, but is not a complete config."""
    if "application/json" not in media_type.lower():
        return []
    return {
        "create": [_UNREADABLE],
        "offsets": [_UNREADABLE],
        "validate": [error("validate-refused", 500, 400)],
    }.get(endpoint, [])


def _make_media_type_steps() -> list[Step]:
    """Return steps with valid and invalid media types."""
    steps = [
        ask(
            f"{endpoint}: as {media_type}",
            line,
            {"a": "b"},
            *_allow_media_type(endpoint, media_type),
            content_type=media_type,
        )
        for endpoint, line in _ENDPOINTS.items()
        for media_type in _MEDIA_TYPES
    ]
    for endpoint, line in _ENDPOINTS.items():
        steps += [
            ask(
                f"{endpoint}: with an invalid type",
                line,
                {"a": "b"},
                whole("broken-type", 400, 415),
                content_type="json",
            ),
            ask(f"{endpoint}: without a type", line, {"a": "b"}, content_type=""),
            ask(f"{endpoint}: without a body", line, None, _UNREADABLE),
            ask(f"{endpoint}: with an empty body", line, "", _UNREADABLE),
            ask(f"{endpoint}: null", line, "null", _UNREADABLE),
        ]
    return steps


STEPS = family(
    "bodies",
    ask("create the connector", "POST /connectors", idle("body")),
    _make_invalid_body_steps(),
    _make_media_type_steps(),
    ask(
        "initial offsets",
        "POST /connectors",
        {
            **idle("offset"),
            "initial_offsets": [{"partition": {"filename": "DIR/x"}, "offset": {"position": 4}}],
        },
        whole("initial-offsets", 500, 201),
    ),
    ask(
        "read the initial offsets",
        "GET /connectors/offset/offsets",
        None,
        whole("initial-offsets", 404, 200),
    ),
    ask(
        "delete the connector with offsets",
        "DELETE /connectors/offset",
        None,
        whole("initial-offsets", 404, 204),
    ),
    ask("an unknown field", "POST /connectors", {**idle("x"), "more": 1}, _UNREADABLE),
    ask("no config", "POST /connectors", {"name": "x"}, _UNREADABLE),
    ask("a null config", "POST /connectors", {"name": "x", "config": None}, _UNREADABLE),
    ask("a config that is a string", "POST /connectors", {"name": "x", "config": "a=b"}, _UNREADABLE),
    ask("a name that is an object", "POST /connectors", {"name": {}, "config": {}}, _UNREADABLE),
    ask(
        "a duplicate key",
        "PUT /connectors/body/config",
        '{"connector.class": "none", "connector.class": "FileStreamSource", "topic": "a", "topic": "b"}',
    ),
    ask(
        "a byte order mark",
        "PUT /connectors/body/config",
        b'\xef\xbb\xbf{"connector.class": "FileStreamSource", "topic": "b"}',
    ),
    ask(
        "text after the JSON",
        "PUT /connectors/body/config",
        '{"connector.class": "FileStreamSource", "topic": "b"} more',
        _UNREADABLE,
    ),
    ask(
        "numbers in several notations",
        "PUT /connectors/body/config",
        '{"connector.class": "FileStreamSource", "topic": "b", "a": 1.50, "b": 1E400, "c": -0, "d": 0.1e-7}',
    ),
    ask(
        "an unknown field of offsets",
        "PATCH /connectors/body/offsets",
        {"offsets": [], "more": 1},
        _UNREADABLE,
    ),
    ask(
        "an unknown field of one offset",
        "PATCH /connectors/body/offsets",
        {"offsets": [{"partition": {}, "offset": {}, "more": 1}]},
        _UNREADABLE,
    ),
    ask(
        "a partition that is a string",
        "PATCH /connectors/body/offsets",
        {"offsets": [{"partition": "p", "offset": {}}]},
        _UNREADABLE,
    ),
    ask("a body for a GET", "GET /connectors/body/status", "{}", until=states("STOPPED")),
    ask("a body for a pause", "PUT /connectors/body/pause", {}),
    ask("a body for a stop", "PUT /connectors/body/stop", "not even JSON"),
    ask("a body for a restart", "POST /connectors/none/restart?includeTasks=true", {}),
    ask("a body for a DELETE", "DELETE /connectors/none", {}),
    ask(
        "a body above the limit",
        "PUT /connectors/body/config",
        source("body", note="x" * 1_000_001),
        whole("body-limit", 200, 413),
    ),
    ask("delete the connector", "DELETE /connectors/body"),
)
