"""Tests for the comparison of a sink's proof with its lines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scripts.chaos_run.lines import Delivery
from scripts.chaos_run.proofs import compare

DELIVERY = Delivery(
    written_count=100,
    delivered_count=103,
    missing_count=0,
    first_missing=None,
    unknown_count=0,
    unknown_example=b"",
    decrease_count=1,
)
OFFSETS = [{"topic": "pipe-0", "partition": 0, "first": 7, "last": 7}]


def make_proof(missing: int = 0, unexpected: int = 0, stored: int = 103) -> dict[str, Any]:
    result = {
        "missing": {"rows": missing, "offsets": OFFSETS if missing else []},
        "unexpected": {"rows": unexpected},
        "stored_rows": stored,
    }
    return {"state": "DIFFERENT", "reason": None, "result": result}


def test_duplicates_are_no_disagreement() -> None:
    assert list(compare(make_proof(), DELIVERY)) == []


def test_loss_that_both_find_is_no_disagreement() -> None:
    lossy_delivery = replace(DELIVERY, missing_count=1, first_missing=7)
    assert list(compare(make_proof(missing=1), lossy_delivery)) == []
    assert list(compare(make_proof(), lossy_delivery)) == [], "the line may not have reached the topic"


def test_false_alarms_and_unread_lines_are_disagreements() -> None:
    assert list(compare(make_proof(missing=1), DELIVERY)) == [
        f"the proof lacks 1 lines that were delivered: {OFFSETS}"
    ]
    assert list(compare(make_proof(unexpected=2), DELIVERY)) == [
        "the proof found 2 unexpected lines instead of 0"
    ]
    assert list(compare(make_proof(stored=102), DELIVERY)) == ["the proof read 102 lines instead of 103"]


def test_proof_without_a_result_is_a_disagreement() -> None:
    undecided = {"state": "UNDECIDED", "reason": "Spark has ended", "result": None}
    assert list(compare(undecided, DELIVERY)) == ["the proof is UNDECIDED: Spark has ended"]
