"""`initial_state` of KIP-980."""

from __future__ import annotations

from tests.differential.allowances import error
from tests.differential.configs import creation, idle, source
from tests.differential.script import Step, ask, family, states


def _initial_states() -> list[Step]:
    steps: list[Step] = []
    for value, wanted, paused in (
        ("STOPPED", ["STOPPED"], ["PAUSED"]),
        ("paused", ["PAUSED"], ["PAUSED"]),
        ("Running", ["RUNNING", "RUNNING"], ["PAUSED", "PAUSED"]),
        (None, ["RUNNING", "RUNNING"], ["PAUSED", "PAUSED"]),
    ):
        name = f"begun-{value}"
        steps += [
            ask(
                f"begin {value}",
                "POST /connectors",
                creation(name, source(name), initial_state=value),
            ),
            ask(f"{value} is its state", f"GET /connectors/{name}/status", until=states(*wanted)),
            ask(f"{value} is not in its config", f"GET /connectors/{name}/config"),
            ask(f"and it has tasks, if it is to run: {value}", f"GET /connectors/{name}/tasks"),
            ask(f"pause what began {value}", f"PUT /connectors/{name}/pause"),
            ask(f"{value} is paused", f"GET /connectors/{name}/status", until=states(*paused)),
            ask(f"and has tasks, if it did run: {value}", f"GET /connectors/{name}/tasks"),
            ask(f"resume what began {value}", f"PUT /connectors/{name}/resume"),
            ask(f"{value} runs", f"GET /connectors/{name}/status", until=states("RUNNING", "RUNNING")),
            ask(f"delete what began {value}", f"DELETE /connectors/{name}"),
        ]
    steps += [
        ask(
            f"begin {value!r}",
            "POST /connectors",
            {**idle("x"), "initial_state": value},
            error("initial-state", 500, 400),
        )
        for value in ("", "DONE", "FAILED", 1, ["STOPPED"])
    ]
    return steps


STEPS = family("initial state", _initial_states())
