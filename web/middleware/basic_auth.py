"""Basic authentication, enabled through `rest.extension.classes`.

It is checked before anything else. As in Java, only requests between workers need no password: they are signed, and
`web.routes.internal` verifies them. Source: JaasBasicAuthFilter (Kafka 4.3.0).
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING

from web.errors import error_answer

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope

    from kraal.config.worker.basic_auth import BasicAuth

_INTERNAL = {
    "POST": re.compile(rb"/connectors/[^/]+/tasks/?"),
    "PUT": re.compile(rb"/connectors/[^/]+/fence/?"),
}
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="Kafka Connect"'}


def may_pass(auth: BasicAuth, scope: Scope) -> bool:
    """Whether the request is internal or carries a user's password."""
    internal = _INTERNAL.get(scope["method"])
    if internal is not None and internal.fullmatch(scope["raw_path"]):
        return True
    credentials = [value for name, value in scope["headers"] if name == b"authorization"]
    return len(credentials) == 1 and auth.admits(credentials[0].decode("latin-1"))


def refusal() -> Response:
    """Return the answer to unauthorized requests."""
    return error_answer(HTTPStatus.UNAUTHORIZED, "User cannot access the resource.", dict(_CHALLENGE))
