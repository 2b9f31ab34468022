"""Passwords: who may send a request, when `rest.extension.classes` says that not everybody may.

Asked before anything else is looked at. As in Java, only what workers ask of each other needs no password: that is
signed, and `web.internal` looks after it. Source: JaasBasicAuthFilter (Kafka 4.3.0).
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING

from web.errors import error_answer

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope

    from kraal.config.basic_auth import BasicAuth

_INTERNAL = {
    "POST": re.compile(rb"/connectors/[^/]+/tasks/?"),
    "PUT": re.compile(rb"/connectors/[^/]+/fence/?"),
}
_ASKS = {"WWW-Authenticate": 'Basic realm="Kafka Connect"'}


def may_pass(auth: BasicAuth, scope: Scope) -> bool:
    """Whether a request is a worker's, or has the password of a user."""
    internal = _INTERNAL.get(scope["method"])
    if internal is not None and internal.fullmatch(scope["raw_path"]):
        return True
    sent = [value for name, value in scope["headers"] if name == b"authorization"]
    return len(sent) == 1 and auth.admits(sent[0].decode("latin-1"))


def refusal() -> Response:
    """Return the answer to everybody else."""
    return error_answer(HTTPStatus.UNAUTHORIZED, "User cannot access the resource.", dict(_ASKS))
