"""Proves the delivery of each pipe's sink, and compares the proofs with the lines that the sinks have written."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from scripts.chaos_run.lines import Delivery
from scripts.chaos_run.members import Member
from scripts.chaos_run.pipes import Pipe

TIMEOUT_S: Final = 300.0
"""Timeout of one proof, which may wait for Spark."""
_POLL_INTERVAL_S: Final = 0.5
_ACCEPTED: Final = 202


def find_disagreements(
    member: Member, deliveries: Mapping[str, Delivery], pipes: Sequence[Pipe]
) -> list[str]:
    """Prove the delivery of each pipe on a worker; return how the proofs differ from the deliveries."""
    return [
        f"{pipe.name}: {difference}"
        for pipe in pipes
        for difference in compare(_prove(member, f"{pipe.name}-sink"), deliveries[pipe.name])
    ]


def compare(proof: Mapping[str, Any], delivery: Delivery) -> Iterator[str]:
    """Yield how the state of a proof differs from a delivery. Pure.

    Lines that a source wrote twice are twice in the topic, so they are not repeated for the proof. Lines that never
    reached the topic are not missing for the proof.
    """
    result = proof["result"]
    if result is None:
        yield f"the proof is {proof['state']}: {proof['reason']}"
        return
    missing, unexpected, stored = result["missing"], result["unexpected"]["rows"], result["stored_rows"]
    if missing["rows"] and not delivery.missing_count:
        yield f"the proof lacks {missing['rows']} lines that were delivered: {missing['offsets'][:3]}"
    if unexpected != delivery.unknown_count:
        yield f"the proof found {unexpected} unexpected lines instead of {delivery.unknown_count}"
    if stored != delivery.delivered_count:
        yield f"the proof read {stored} lines instead of {delivery.delivered_count}"


def _prove(member: Member, sink: str) -> Mapping[str, Any]:
    """Prove the delivery of a sink; return the state of the proof."""
    path = f"/connectors/{sink}/proof"
    response = member.process.post(path)
    if response.status != _ACCEPTED:
        return {"state": "REFUSED", "reason": f"{response.status} {response.body}", "result": None}
    deadline_s = time.monotonic() + TIMEOUT_S
    state: Mapping[str, Any] = response.body
    while state["state"] == "RUNNING" and time.monotonic() < deadline_s:
        time.sleep(_POLL_INTERVAL_S)
        state = member.process.get(path).body
    return state
