"""Steps that send concurrent requests. Their order is random, but the final state is deterministic."""

from __future__ import annotations

from tests.differential.allowances import VERSIONS, in_any_order
from tests.differential.configs import creation, idle, source
from tests.differential.exchange import DISTRIBUTED
from tests.differential.script import ask, at_once, family, states, status

_ORDER = in_any_order("list-order")
_MANY = [f"many-{n}" for n in range(8)]
_RACED = "/connectors/raced"
_CREATED_OR_GONE = (201, 204, 404, 409)

STEPS = family(
    "concurrent",
    at_once("create one connector six times", [("POST /connectors", idle("once"))] * 6, among=(201, 409)),
    ask("list it once", "GET /connectors", None, _ORDER),
    at_once("delete one connector six times", [("DELETE /connectors/once", None)] * 6, among=(204, 404)),
    ask("wait until it is deleted", "GET /connectors/once/status", until=status(404)),
    at_once("create eight", [("POST /connectors", idle(name)) for name in _MANY]),
    ask(
        "list all eight",
        "GET /connectors",
        None,
        _ORDER,
        until=lambda response: set(_MANY) <= set(response.json),
    ),
    at_once(
        "reconfigure eight", [(f"PUT /connectors/{name}/config", source(name, note="x")) for name in _MANY]
    ),
    at_once("read eight", [(f"GET /connectors/{name}/config", None) for name in _MANY]),
    at_once("delete eight", [(f"DELETE /connectors/{name}", None) for name in _MANY]),
    ask(
        "wait until all eight are deleted",
        "GET /connectors",
        until=lambda response: "many" not in response.body,
    ),
    at_once(
        "create and delete",
        [("POST /connectors", idle("raced")), (f"DELETE {_RACED}", None)] * 5,
        among=_CREATED_OR_GONE,
        only=DISTRIBUTED,  # Java's standalone herder responds with 500 if its own stop is late
    ),
    at_once("create after the race", [("POST /connectors", idle("raced"))], among=(201, 409)),
    ask("read after the race", f"GET {_RACED}", until=status(200)),
    ask("status after the race", f"GET {_RACED}/status", until=states("STOPPED")),
    ask("delete after the race", f"DELETE {_RACED}"),
    ask("create a running connector", "POST /connectors", creation("raced", source("raced", tasks_max="1"))),
    ask("running", f"GET {_RACED}/status", until=states("RUNNING", "RUNNING")),
    at_once("restart it eight times", [(f"POST {_RACED}/restart?includeTasks=true", None)] * 8, among=(202,)),
    ask("running after restarts", f"GET {_RACED}/status", None, VERSIONS, until=states("RUNNING", "RUNNING")),
    at_once("restart its task eight times", [(f"POST {_RACED}/tasks/0/restart", None)] * 8, among=(204,)),
    ask(
        "running after task restarts",
        f"GET {_RACED}/status",
        None,
        VERSIONS,
        until=states("RUNNING", "RUNNING"),
    ),
    at_once(
        "pause and resume", [(f"PUT {_RACED}/pause", None), (f"PUT {_RACED}/resume", None)] * 4, among=(202,)
    ),
    ask("resume after the race", f"PUT {_RACED}/resume"),
    ask("running after pauses", f"GET {_RACED}/status", None, VERSIONS, until=states("RUNNING", "RUNNING")),
    at_once(
        "reconfigure, restart and stop",
        [
            (f"PUT {_RACED}/config", source("raced", note="raced")),
            (f"POST {_RACED}/restart?includeTasks=true", None),
            (f"PUT {_RACED}/stop", None),
        ],
        among=(200, 202, 204),
    ),
    ask("stopped after the race", f"GET {_RACED}/status", until=states("STOPPED")),
    ask("config after the race", f"GET {_RACED}/config"),
    at_once(
        "delete and restart",
        [(f"DELETE {_RACED}", None), (f"POST {_RACED}/restart?includeTasks=true", None)],
        among=(202, 204, 404),
    ),
    ask("wait until it is deleted, after the restart", f"GET {_RACED}/status", until=status(404)),
    ask("list no connectors", "GET /connectors"),
)
