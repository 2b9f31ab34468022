"""Tests for the comparison of the proofs of a pipe with its lines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scripts.chaos_run.lines import Delivery
from scripts.chaos_run.proofs import compare_sink, compare_source

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
    assert list(compare_sink(make_proof(), DELIVERY)) == []


def test_loss_that_both_find_is_no_disagreement() -> None:
    lossy_delivery = replace(DELIVERY, missing_count=1, first_missing=7)
    assert list(compare_sink(make_proof(missing=1), lossy_delivery)) == []
    assert list(compare_sink(make_proof(), lossy_delivery)) == [], "the line may not have reached the topic"


def test_false_alarms_and_unread_lines_are_disagreements() -> None:
    assert list(compare_sink(make_proof(missing=1), DELIVERY)) == [
        f"the proof reports 1 missing lines, but all were delivered: {OFFSETS}"
    ]
    assert list(compare_sink(make_proof(unexpected=2), DELIVERY)) == [
        "the proof found 2 unexpected lines instead of 0"
    ]
    assert list(compare_sink(make_proof(stored=102), DELIVERY)) == ["the proof read 102 lines instead of 103"]


def test_proof_without_a_result_is_a_disagreement() -> None:
    undecided = {"state": "UNDECIDED", "reason": "Spark has ended", "result": None}
    assert list(compare_sink(undecided, DELIVERY)) == ["the proof is UNDECIDED: Spark has ended"]


def make_source_proof(missing: int = 0, unexpected: int | None = 0, expected: int = 100) -> dict[str, Any]:
    records = [{"partition": {"filename": "f"}, "after": None, "first": 7, "last": 7}] if missing else []
    result = {
        "missing": {"rows": missing, "source_records": records},
        "unexpected": None if unexpected is None else {"rows": unexpected},
        "expected_rows": expected,
    }
    return {"state": "DIFFERENT", "reason": None, "result": result}


def test_proof_of_a_source_agrees_with_the_written_lines() -> None:
    assert list(compare_source(make_source_proof(), DELIVERY)) == []
    lossy_delivery = replace(DELIVERY, missing_count=1, first_missing=7)
    assert list(compare_source(make_source_proof(missing=1), lossy_delivery)) == []


def test_false_alarms_and_partial_proofs_of_a_source_are_disagreements() -> None:
    proof = make_source_proof(missing=1, unexpected=2, expected=99)
    assert list(compare_source(proof, DELIVERY)) == [
        f"the proof reports 1 missing lines, but all were delivered: {proof['result']['missing']['source_records']}",
        "the proof found 2 unexpected records instead of 0",
        "the proof read 99 lines of the source instead of 100",
    ]
    assert list(compare_source(make_source_proof(unexpected=None), DELIVERY)) == [
        "the proof is partial, although the source file has all lines"
    ]
    undecided = {"state": "UNDECIDED", "reason": "Spark has ended", "result": None}
    assert list(compare_source(undecided, DELIVERY)) == ["the proof is UNDECIDED: Spark has ended"]
