"""`initial_state` of KIP-980."""

from __future__ import annotations

from tests.differential.allowances import error
from tests.differential.configs import creation, idle, source
from tests.differential.script import Step, ask, family, states


def _initial_states() -> list[Step]:
    steps: list[Step] = []
    for given, wanted, paused in (
        ("STOPPED", ["STOPPED"], ["PAUSED"]),
        ("paused", ["PAUSED"], ["PAUSED"]),
        ("Running", ["RUNNING", "RUNNING"], ["PAUSED", "PAUSED"]),
        (None, ["RUNNING", "RUNNING"], ["PAUSED", "PAUSED"]),
    ):
        name = f"begun-{given}"
        steps += [
            ask(f"begin {given}", "POST /connectors", creation(name, source(name), initial_state=given)),
            ask(f"{given} is its state", f"GET /connectors/{name}/status", until=states(*wanted)),
            ask(f"{given} is not in its config", f"GET /connectors/{name}/config"),
            ask(f"and it has tasks, if it is to run: {given}", f"GET /connectors/{name}/tasks"),
            ask(f"pause what began {given}", f"PUT /connectors/{name}/pause"),
            ask(f"{given} is paused", f"GET /connectors/{name}/status", until=states(*paused)),
            ask(f"and has tasks, if it did run: {given}", f"GET /connectors/{name}/tasks"),
            ask(f"resume what began {given}", f"PUT /connectors/{name}/resume"),
            ask(f"{given} runs", f"GET /connectors/{name}/status", until=states("RUNNING", "RUNNING")),
            ask(f"delete what began {given}", f"DELETE /connectors/{name}"),
        ]
    steps += [
        ask(
            f"begin {given!r}",
            "POST /connectors",
            {**idle("x"), "initial_state": given},
            error("initial-state", 500, 400),
        )
        for given in ("", "DONE", "FAILED", 1, ["STOPPED"])
    ]
    return steps


STEPS = family("initial state", _initial_states())
