"""Steps that send requests of the internal API between workers from an external client."""

from __future__ import annotations

from tests.differential.allowances import error, in_standalone, status
from tests.differential.exchange import DISTRIBUTED
from tests.differential.script import ask, family

_SIGNATURE_HEADERS = {
    "X-Connect-Authorization": "bm90IHNpZ25lZA==",
    "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
}
_INVALID_BASE64 = error("base64", 400, 400)
_NO_INTERNAL_API = in_standalone(status("standalone-internal", 500, 400))
_UNREADABLE = error("unreadable-body", 500, 400)

STEPS = family(
    "internal",
    ask("tasks, unsigned", "POST /connectors/none/tasks", [{"a": "b"}], _NO_INTERNAL_API),
    ask(
        "tasks, without a media type",
        "POST /connectors/none/tasks",
        [{"a": "b"}],
        _NO_INTERNAL_API,
        content_type="",
    ),
    ask(
        "tasks, with a wrong signature",
        "POST /connectors/none/tasks",
        [{"a": "b"}],
        _NO_INTERNAL_API,
        headers=_SIGNATURE_HEADERS,
    ),
    ask(
        "tasks, with an unknown algorithm",
        "POST /connectors/none/tasks",
        [],
        headers={**_SIGNATURE_HEADERS, "X-Connect-Request-Signature-Algorithm": "MD2"},
        only=DISTRIBUTED,
    ),
    ask(
        "tasks, with a signature and no algorithm",
        "POST /connectors/none/tasks",
        [],
        _NO_INTERNAL_API,
        headers={"X-Connect-Authorization": "bm90"},
    ),
    ask(
        "tasks, with an invalid signature",
        "POST /connectors/none/tasks",
        [],
        _INVALID_BASE64,
        headers={**_SIGNATURE_HEADERS, "X-Connect-Authorization": "!"},
        only=DISTRIBUTED,
    ),
    ask("no tasks", "POST /connectors/none/tasks", [], _NO_INTERNAL_API),
    ask("tasks, forwarded once", "POST /connectors/none/tasks?forward=false", [], _NO_INTERNAL_API),
    ask("tasks, unreadable", "POST /connectors/none/tasks", "[", _UNREADABLE),
    ask("tasks, an object", "POST /connectors/none/tasks", {}, _UNREADABLE),
    ask("tasks, strings", "POST /connectors/none/tasks", ["a"], _UNREADABLE),
    ask("tasks, without a body", "POST /connectors/none/tasks", None, _UNREADABLE),
    ask("fence, unsigned", "PUT /connectors/none/fence", None, _NO_INTERNAL_API),
    ask(
        "fence, with a wrong signature",
        "PUT /connectors/none/fence",
        None,
        _NO_INTERNAL_API,
        headers=_SIGNATURE_HEADERS,
    ),
    ask(
        "fence, with a body", "PUT /connectors/none/fence", "{}", _NO_INTERNAL_API, headers=_SIGNATURE_HEADERS
    ),
    ask("fence, forwarded once", "PUT /connectors/none/fence?forward=false", None, _NO_INTERNAL_API),
    ask("fence, forwarded twice", "PUT /connectors/none/fence?forward=true", None, _NO_INTERNAL_API),
)
