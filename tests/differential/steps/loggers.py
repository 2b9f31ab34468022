"""Steps that read and set log levels with `/admin/loggers`."""

from __future__ import annotations

from typing import Any

from tests.differential.allowances import error, fields, of_json
from tests.differential.exchange import DISTRIBUTED
from tests.differential.script import ask, family, has

_LOGGER = "/admin/loggers/example.of"
_LEVEL_AND_TIME = '"level":"DEBUG","last_modified":"TIME"'
"""Both fields must be present: Java sets the level before the time, and reads both without a lock."""


def _select_test_loggers(loggers: Any) -> Any:
    return (
        {name: level for name, level in loggers.items() if name.startswith("example")}
        if isinstance(loggers, dict)
        else loggers
    )


_OTHER_LOGGERS = of_json("loggers", _select_test_loggers)

STEPS = family(
    "loggers",
    ask("all", "GET /admin/loggers", None, _OTHER_LOGGERS),
    ask("the root", "GET /admin/loggers/root", None, fields("loggers", "level")),
    ask("the root in upper case", "GET /admin/loggers/ROOT", None, fields("loggers", "level")),
    ask("an unknown logger", "GET /admin/loggers/example.of.none"),
    ask("set", f"PUT {_LOGGER}.one", {"level": "DEBUG"}),
    ask("read the level", f"GET {_LOGGER}.one"),
    ask("list the logger", "GET /admin/loggers", None, _OTHER_LOGGERS),
    ask("set in lower case", f"PUT {_LOGGER}.one", {"level": "warn"}),
    ask("read the level set in lower case", f"GET {_LOGGER}.one"),
    ask("set an unchanged level", f"PUT {_LOGGER}.one", {"level": "WARN"}),
    ask("set another", f"PUT {_LOGGER}.two", {"level": "TRACE"}),
    ask("set the parent", f"PUT {_LOGGER}", {"level": "ERROR"}),
    ask("read a child of the parent", f"GET {_LOGGER}.two"),
    ask("read an unknown child", f"GET {_LOGGER}.two.below"),
    *(
        ask(f"set {level}", f"PUT {_LOGGER}.one", {"level": level})
        for level in ("OFF", "FATAL", "INFO", "ALL", "Info")
    ),
    ask("with more fields", f"PUT {_LOGGER}.one", {"level": "DEBUG", "more": "x"}),
    ask("for this worker", f"PUT {_LOGGER}.one?scope=worker", {"level": "INFO"}),
    ask("for this worker, in upper case", f"PUT {_LOGGER}.one?scope=WORKER", {"level": "DEBUG"}),
    ask("for an unknown scope", f"PUT {_LOGGER}.one?scope=world", {"level": "INFO"}),
    ask("for the cluster", f"PUT {_LOGGER}.three?scope=cluster", {"level": "DEBUG"}),
    ask(
        "read the level set for the cluster",
        f"GET {_LOGGER}.three",
        until=has(_LEVEL_AND_TIME),
        only=DISTRIBUTED,
    ),
    ask("for the cluster, an unknown level", f"PUT {_LOGGER}.three?scope=cluster", {"level": "LOUD"}),
    ask("for the cluster, no level", f"PUT {_LOGGER}.three?scope=cluster", {}),
    ask("an unknown level", f"PUT {_LOGGER}.one", {"level": "LOUD"}),
    ask("an empty level", f"PUT {_LOGGER}.one", {"level": ""}, error("empty-level", 500, 404)),
    ask("a null level", f"PUT {_LOGGER}.one", {"level": None}),
    ask("a level that is a number", f"PUT {_LOGGER}.one", {"level": 5}),
    ask("no level", f"PUT {_LOGGER}.one", {"lvl": "INFO"}),
    ask("a name with blanks", "PUT /admin/loggers/example%20of", {"level": "DEBUG"}),
    ask("a name with a non-ASCII letter", "PUT /admin/loggers/example.%C3%BC", {"level": "DEBUG"}),
    ask("HEAD of all", "HEAD /admin/loggers"),
)
