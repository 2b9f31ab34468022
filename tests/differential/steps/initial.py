"""Steps that create connectors with initial states (KIP-980)."""

from __future__ import annotations

from tests.differential.allowances import error
from tests.differential.configs import creation, idle, source
from tests.differential.script import Step, ask, family, states


def _initial_states() -> list[Step]:
    steps: list[Step] = []
    for value, created_states, paused_states in (
        ("STOPPED", ["STOPPED"], ["PAUSED"]),
        ("paused", ["PAUSED"], ["PAUSED"]),
        ("Running", ["RUNNING", "RUNNING"], ["PAUSED", "PAUSED"]),
        (None, ["RUNNING", "RUNNING"], ["PAUSED", "PAUSED"]),
    ):
        name = f"begun-{value}"
        steps += [
            ask(
                f"create {value}",
                "POST /connectors",
                creation(name, source(name), initial_state=value),
            ),
            ask(f"state of {value}", f"GET /connectors/{name}/status", until=states(*created_states)),
            ask(f"config of {value}", f"GET /connectors/{name}/config"),
            ask(f"tasks of {value}", f"GET /connectors/{name}/tasks"),
            ask(f"pause {value}", f"PUT /connectors/{name}/pause"),
            ask(f"paused: {value}", f"GET /connectors/{name}/status", until=states(*paused_states)),
            ask(f"tasks of paused {value}", f"GET /connectors/{name}/tasks"),
            ask(f"resume {value}", f"PUT /connectors/{name}/resume"),
            ask(f"running: {value}", f"GET /connectors/{name}/status", until=states("RUNNING", "RUNNING")),
            ask(f"delete {value}", f"DELETE /connectors/{name}"),
        ]
    steps += [
        ask(
            f"invalid state {value!r}",
            "POST /connectors",
            {**idle("x"), "initial_state": value},
            error("initial-state", 500, 400),
        )
        for value in ("", "DONE", "FAILED", 1, ["STOPPED"])
    ]
    return steps


STEPS = family("initial state", _initial_states())
