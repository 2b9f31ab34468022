"""Requests proofs of connectors' delivery over REST."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from kraal.testing.process import WorkerProcess

TIMEOUT_S: Final = 300.0
"""Timeout of one proof, which may wait for Spark."""
_POLL_INTERVAL_S: Final = 0.5
_ACCEPTED: Final = 202


def prove(worker: WorkerProcess, connector: str) -> Mapping[str, Any]:
    """Prove the delivery of a connector; return the state of the proof, as in the REST response."""
    path = f"/connectors/{connector}/proof"
    response = worker.post(path)
    if response.status != _ACCEPTED:
        return {"state": "REFUSED", "reason": f"{response.status} {response.body}", "result": None}
    deadline_s = time.monotonic() + TIMEOUT_S
    state: Mapping[str, Any] = response.body
    while state["state"] == "RUNNING" and time.monotonic() < deadline_s:
        time.sleep(_POLL_INTERVAL_S)
        state = worker.get(path).body
    return state


def count_differences(state: Mapping[str, Any]) -> list[int]:
    """Return the number of missing, repeated and unexpected rows of a proof, in which all three were judged."""
    return [state["result"][kind]["rows"] for kind in ("missing", "repeated", "unexpected")]
