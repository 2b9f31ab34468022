"""Steps that send concurrent requests. Their order is random, but the final state is deterministic."""

from __future__ import annotations

from tests.differential.allowances import VERSIONS, in_any_order
from tests.differential.configs import creation, idle, source
from tests.differential.exchange import DISTRIBUTED
from tests.differential.script import ask, ask_concurrently, family, states, status

_ORDER = in_any_order("list-order")
_NAMES = [f"many-{n}" for n in range(8)]
_CONNECTOR = "/connectors/raced"
_CREATED_OR_GONE = (201, 204, 404, 409)

STEPS = family(
    "concurrent",
    ask_concurrently(
        "create one connector six times",
        [("POST /connectors", idle("once"))] * 6,
        allowed_statuses=(201, 409),
    ),
    ask("list it once", "GET /connectors", None, _ORDER),
    ask_concurrently(
        "delete one connector six times", [("DELETE /connectors/once", None)] * 6, allowed_statuses=(204, 404)
    ),
    ask("wait until it is deleted", "GET /connectors/once/status", until=status(404)),
    ask_concurrently("create eight", [("POST /connectors", idle(name)) for name in _NAMES]),
    ask(
        "list all eight",
        "GET /connectors",
        None,
        _ORDER,
        until=lambda response: set(_NAMES) <= set(response.json),
    ),
    ask_concurrently(
        "reconfigure eight", [(f"PUT /connectors/{name}/config", source(name, note="x")) for name in _NAMES]
    ),
    ask_concurrently("read eight", [(f"GET /connectors/{name}/config", None) for name in _NAMES]),
    ask_concurrently("delete eight", [(f"DELETE /connectors/{name}", None) for name in _NAMES]),
    ask(
        "wait until all eight are deleted",
        "GET /connectors",
        until=lambda response: "many" not in response.body,
    ),
    ask_concurrently(
        "create and delete",
        [("POST /connectors", idle("raced")), (f"DELETE {_CONNECTOR}", None)] * 5,
        allowed_statuses=_CREATED_OR_GONE,
        only=DISTRIBUTED,  # Java's standalone herder responds with 500 if its own stop is late
    ),
    ask_concurrently(
        "create after the race", [("POST /connectors", idle("raced"))], allowed_statuses=(201, 409)
    ),
    ask("read after the race", f"GET {_CONNECTOR}", until=status(200)),
    ask("status after the race", f"GET {_CONNECTOR}/status", until=states("STOPPED")),
    ask("delete after the race", f"DELETE {_CONNECTOR}"),
    ask("create a running connector", "POST /connectors", creation("raced", source("raced", tasks_max="1"))),
    ask("running", f"GET {_CONNECTOR}/status", until=states("RUNNING", "RUNNING")),
    ask_concurrently(
        "restart it eight times",
        [(f"POST {_CONNECTOR}/restart?includeTasks=true", None)] * 8,
        allowed_statuses=(202,),
    ),
    ask(
        "running after restarts",
        f"GET {_CONNECTOR}/status",
        None,
        VERSIONS,
        until=states("RUNNING", "RUNNING"),
    ),
    ask_concurrently(
        "restart its task eight times",
        [(f"POST {_CONNECTOR}/tasks/0/restart", None)] * 8,
        allowed_statuses=(204,),
    ),
    ask(
        "running after task restarts",
        f"GET {_CONNECTOR}/status",
        None,
        VERSIONS,
        until=states("RUNNING", "RUNNING"),
    ),
    ask_concurrently(
        "pause and resume",
        [(f"PUT {_CONNECTOR}/pause", None), (f"PUT {_CONNECTOR}/resume", None)] * 4,
        allowed_statuses=(202,),
    ),
    ask("resume after the race", f"PUT {_CONNECTOR}/resume"),
    ask(
        "running after pauses", f"GET {_CONNECTOR}/status", None, VERSIONS, until=states("RUNNING", "RUNNING")
    ),
    ask_concurrently(
        "reconfigure, restart and stop",
        [
            (f"PUT {_CONNECTOR}/config", source("raced", note="raced")),
            (f"POST {_CONNECTOR}/restart?includeTasks=true", None),
            (f"PUT {_CONNECTOR}/stop", None),
        ],
        allowed_statuses=(200, 202, 204),
    ),
    ask("stopped after the race", f"GET {_CONNECTOR}/status", until=states("STOPPED")),
    ask("config after the race", f"GET {_CONNECTOR}/config"),
    ask_concurrently(
        "delete and restart",
        [(f"DELETE {_CONNECTOR}", None), (f"POST {_CONNECTOR}/restart?includeTasks=true", None)],
        allowed_statuses=(202, 204, 404),
    ),
    ask("wait until it is deleted, after the restart", f"GET {_CONNECTOR}/status", until=status(404)),
    ask("list no connectors", "GET /connectors"),
)
