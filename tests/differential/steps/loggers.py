"""`/admin/loggers`."""

from __future__ import annotations

from typing import Any

from tests.differential.allowances import error, fields, of_json
from tests.differential.exchange import DISTRIBUTED
from tests.differential.script import ask, family, has

_OURS = "/admin/loggers/example.of"
_SET = '"level":"DEBUG","last_modified":"TIME"'
"""Java sets the level before its time, and reads both without a lock."""


def _select_test_loggers(loggers: Any) -> Any:
    return (
        {name: level for name, level in loggers.items() if name.startswith("example")}
        if isinstance(loggers, dict)
        else loggers
    )


_NAMES = of_json("loggers", _select_test_loggers)

STEPS = family(
    "loggers",
    ask("all", "GET /admin/loggers", None, _NAMES),
    ask("the root", "GET /admin/loggers/root", None, fields("loggers", "level")),
    ask("the root in other letters", "GET /admin/loggers/ROOT", None, fields("loggers", "level")),
    ask("an unknown one", "GET /admin/loggers/example.of.none"),
    ask("set", f"PUT {_OURS}.one", {"level": "DEBUG"}),
    ask("it is set", f"GET {_OURS}.one"),
    ask("it is listed", "GET /admin/loggers", None, _NAMES),
    ask("set in small letters", f"PUT {_OURS}.one", {"level": "warn"}),
    ask("it is set so", f"GET {_OURS}.one"),
    ask("set as it is", f"PUT {_OURS}.one", {"level": "WARN"}),
    ask("set another", f"PUT {_OURS}.two", {"level": "TRACE"}),
    ask("set both", f"PUT {_OURS}", {"level": "ERROR"}),
    ask("both are set", f"GET {_OURS}.two"),
    ask("one below is not known", f"GET {_OURS}.two.below"),
    *(
        ask(f"set {level}", f"PUT {_OURS}.one", {"level": level})
        for level in ("OFF", "FATAL", "INFO", "ALL", "Info")
    ),
    ask("with more fields", f"PUT {_OURS}.one", {"level": "DEBUG", "more": "x"}),
    ask("for this worker", f"PUT {_OURS}.one?scope=worker", {"level": "INFO"}),
    ask("for this worker, in other letters", f"PUT {_OURS}.one?scope=WORKER", {"level": "DEBUG"}),
    ask("for whom nobody knows", f"PUT {_OURS}.one?scope=world", {"level": "INFO"}),
    ask("for the cluster", f"PUT {_OURS}.three?scope=cluster", {"level": "DEBUG"}),
    ask("which reads it", f"GET {_OURS}.three", until=has(_SET), only=DISTRIBUTED),
    ask("for the cluster, badly", f"PUT {_OURS}.three?scope=cluster", {"level": "LOUD"}),
    ask("for the cluster, nothing", f"PUT {_OURS}.three?scope=cluster", {}),
    ask("an unknown level", f"PUT {_OURS}.one", {"level": "LOUD"}),
    ask("an empty level", f"PUT {_OURS}.one", {"level": ""}, error("empty-level", 500, 404)),
    ask("a level that is null", f"PUT {_OURS}.one", {"level": None}),
    ask("a level that is a number", f"PUT {_OURS}.one", {"level": 5}),
    ask("no level", f"PUT {_OURS}.one", {"lvl": "INFO"}),
    ask("a name with blanks", "PUT /admin/loggers/example%20of", {"level": "DEBUG"}),
    ask("a name with letters of all kinds", "PUT /admin/loggers/example.%C3%BC", {"level": "DEBUG"}),
    ask("HEAD of all", "HEAD /admin/loggers"),
)
