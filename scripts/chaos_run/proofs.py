"""Proves the delivery of each pipe, and compares the proofs with the lines that the sinks have written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scripts.chaos_run.lines import Delivery
from scripts.chaos_run.members import Member
from scripts.chaos_run.pipes import Pipe
from scripts.harness.proofs import prove


def find_disagreements(
    member: Member, deliveries: Mapping[str, Delivery], pipes: Sequence[Pipe]
) -> list[str]:
    """Prove the source and the sink of each pipe on a worker; return how the proofs differ from the deliveries."""
    disagreements: list[str] = []
    for pipe in pipes:
        delivery = deliveries[pipe.name]
        for role, compare in (("source", compare_source), ("sink", compare_sink)):
            proof = prove(member.process, f"{pipe.name}-{role}")
            disagreements += [f"{pipe.name}-{role}: {difference}" for difference in compare(proof, delivery)]
    return disagreements


def compare_source(proof: Mapping[str, Any], delivery: Delivery) -> Iterator[str]:
    """Yield how the proof of a pipe's source differs from the pipe's delivery. Pure.

    The proof counts lines that the source wrote twice as repeated. It does not count lines as missing that only the
    sink file lacks.
    """
    result = proof["result"]
    if result is None:
        yield f"the proof is {proof['state']}: {proof['reason']}"
        return
    missing, unexpected = result["missing"], result["unexpected"]
    if missing["rows"] and not delivery.missing_count:
        records = missing["source_records"][:3]
        yield f"the proof reports {missing['rows']} missing lines, but all were delivered: {records}"
    if unexpected is None:
        yield "the proof is partial, although the source file has all lines"
    elif unexpected["rows"] != delivery.unknown_count:
        yield f"the proof found {unexpected['rows']} unexpected records instead of {delivery.unknown_count}"
    if result["expected_rows"] != delivery.written_count:
        yield f"the proof read {result['expected_rows']} lines of the source instead of {delivery.written_count}"


def compare_sink(proof: Mapping[str, Any], delivery: Delivery) -> Iterator[str]:
    """Yield how the proof of a pipe's sink differs from the pipe's delivery. Pure.

    Lines that a source wrote twice are twice in the topic, so the proof does not count them as repeated. It does not
    count lines as missing that never reached the topic.
    """
    result = proof["result"]
    if result is None:
        yield f"the proof is {proof['state']}: {proof['reason']}"
        return
    missing, unexpected, stored = result["missing"], result["unexpected"]["rows"], result["stored_rows"]
    if missing["rows"] and not delivery.missing_count:
        yield f"the proof reports {missing['rows']} missing lines, but all were delivered: {missing['offsets'][:3]}"
    if unexpected != delivery.unknown_count:
        yield f"the proof found {unexpected} unexpected lines instead of {delivery.unknown_count}"
    if stored != delivery.delivered_count:
        yield f"the proof read {stored} lines instead of {delivery.delivered_count}"
