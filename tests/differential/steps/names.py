"""Steps with connectors whose names must be escaped in paths."""

from __future__ import annotations

from urllib.parse import quote

from tests.differential.allowances import TASKS_LATER, error, whole
from tests.differential.configs import idle, source
from tests.differential.exchange import DISTRIBUTED
from tests.differential.script import Step, ask, family, has, states, status

_NAMES = (
    "with blanks in it",
    "ünïcödé",
    "雪 ☃ 🦓",
    "a+b",
    "q?x=1#y",
    "a&b=c",
    'quo"te',
    "it's",
    "(a),[b]",
    "a:b@c",
    "~._-",
    "UPPER",
    "a*b!$",
)


def _life_cycle(name: str) -> list[Step]:
    path = f"/connectors/{quote(name, safe='')}"
    return [
        ask(f"create {name}", "POST /connectors", idle(name)),
        ask(f"{name} is there", f"GET {path}", until=status(200)),
        ask(f"{name} is stopped", f"GET {path}/status", until=states("STOPPED")),
        ask(f"patch {name}", f"PATCH {path}/config", {"note": name}),
        ask(f"{name} has no topics", f"GET {path}/topics"),
        ask(f"{name} has no offsets", f"GET {path}/offsets"),
        ask(f"restart task 0 of {name}", f"POST {path}/tasks/0/restart", only=DISTRIBUTED),
        ask(f"delete {name}", f"DELETE {path}"),
        ask(f"{name} is gone", f"GET {path}"),
    ]


_SLASH_STEPS = [
    ask("a slash, put", "PUT /connectors/a%2Fb/config", source("x"), whole("names-in-paths", 400, 201)),
    ask("a slash, read", "GET /connectors/a%2Fb", None, whole("names-in-paths", 400, 200)),
    ask("a slash, in lower case", "GET /connectors/a%2fb/config", None, whole("names-in-paths", 400, 200)),
    ask("a slash, deleted", "DELETE /connectors/a%2Fb", None, whole("names-in-paths", 400, 204)),
    ask("a slash, unknown", "GET /connectors/a%2Fc/status", None, whole("names-in-paths", 400, 404)),
    ask(
        "a slash of a plugin", "GET /connector-plugins/a%2Fb/config", None, whole("names-in-paths", 400, 404)
    ),
    ask("a percent, put", "PUT /connectors/a%25b/config", source("x"), whole("names-in-paths", 400, 201)),
    ask("a percent, read", "GET /connectors/a%25b", None, whole("names-in-paths", 400, 200)),
    ask("a percent, deleted", "DELETE /connectors/a%25b", None, whole("names-in-paths", 400, 204)),
    ask("a backslash", "GET /connectors/a%5Cb", None, whole("names-in-paths", 400, 404)),
    ask("an escaped escape", "GET /connectors/a%252Fb", None, whole("names-in-paths", 400, 404)),
    ask("a semicolon", "GET /connectors/none;v=1", None, error("names-in-paths", 404, 404)),
    ask("an escaped semicolon", "GET /connectors/none%3Bv=1"),
    ask("a dot", "GET /connectors/."),
    ask("dots", "GET /connectors/none/../none"),
    ask("escaped dots", "GET /connectors/%2e%2e/none", None, whole("names-in-paths", 400, 404)),
    ask("a broken escape", "GET /connectors/a%zz", None, whole("names-in-paths", 400, 400)),
    ask("a truncated escape", "GET /connectors/a%2", None, whole("names-in-paths", 400, 400)),
    ask("invalid UTF-8", "GET /connectors/a%ff", None, whole("names-in-paths", 400, 400)),
    ask("a null byte", "GET /connectors/a%00b", None, whole("names-in-paths", 400, 404)),
    ask("a line feed", "GET /connectors/a%0Ab", None, whole("names-in-paths", 400, 404)),
    ask("a blank", "GET /connectors/%20"),
    ask("a plus", "GET /connectors/a+b"),
    ask(
        "put with surrounding blanks",
        "PUT /connectors/%20around%20/config",
        source("x"),
        TASKS_LATER,
    ),
    ask("read with surrounding blanks", "GET /connectors/%20around%20", until=has('"task":0')),
    ask("read without surrounding blanks", "GET /connectors/around"),
    ask("delete with surrounding blanks", "DELETE /connectors/%20around%20"),
    ask(
        "put with a control character",
        "PUT /connectors/a%07b/config",
        source("x"),
        whole("names-in-paths", 400, 400),
    ),
    ask("a very long name", f"GET /connectors/{'x' * 2000}"),
    ask("a name far too long", f"GET /connectors/{'x' * 20_000}", None, whole("long-uri", 414, 404)),
    ask("an invalid query", "GET /connectors?expand=%zz"),
    ask("a query without names", "GET /connectors?&&="),
]

STEPS = [
    *family("names", [step for name in _NAMES for step in _life_cycle(name)]),
    *family("odd paths", _SLASH_STEPS),
]
