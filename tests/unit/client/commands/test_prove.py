"""Tests for `kraal prove`: output, polling and exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.commands.test_ledger import make_response
from tests.unit.client.conftest import Kraal

PATH = "/connectors/orders-sink/proof"
RUNNING: dict[str, Any] = {
    "connector": "orders-sink",
    "state": "RUNNING",
    "started_ms": 1_700_000_000_000,
    "ended_ms": None,
    "since_ms": None,
    "sample_percent": None,
    "reason": None,
    "result": None,
}


def make_state(state: str, missing: int = 0) -> dict[str, Any]:
    offsets = [{"topic": "orders", "partition": 0, "first": 3, "last": 4}]
    return RUNNING | {
        "state": state,
        "ended_ms": 1_700_000_001_000,
        "result": {
            "partitions": [{"topic": "orders", "partition": 0, "first": 0, "end": 12_345}],
            "source_offsets": None,
            "partial": False,
            "expected_rows": 7,
            "stored_rows": 7,
            "missing": {"rows": missing, "offsets": offsets if missing else [], "source_records": []},
            "repeated": {"rows": 0, "offsets": []},
            "unexpected": {"rows": 0, "offsets": []},
            "dead_letters": 1,
            "tolerated": None,
            "dropped": None,
        },
    }


def script(worker: Connect, *states: dict[str, Any], query: str = "") -> None:
    worker.script("POST", f"{PATH}{query}", ScriptedResponse(202, RUNNING))
    worker.script("GET", PATH, *(ScriptedResponse(body=state) for state in states))


def test_prove_polls_until_the_proof_has_ended(kraal: Kraal, worker: Connect) -> None:
    script(worker, RUNNING, RUNNING, make_state("PROVED"))
    assert kraal.out("prove", "orders-sink") == (
        "proved up to orders-0@12,345 (2023-11-14 22:13 UTC): 0 missing, 0 repeated, 0 unexpected, 1 dead letters\n"
    )
    assert worker.requests() == [f"POST {PATH}", *[f"GET {PATH}"] * 3]


def test_other_proof_is_not_shown(kraal: Kraal, worker: Connect) -> None:
    earlier = make_state("DIFFERENT") | {"started_ms": RUNNING["started_ms"] - 1}
    script(worker, RUNNING, earlier, make_state("PROVED"))
    assert kraal.out("prove", "orders-sink").startswith("proved up to orders-0@12,345")
    script(worker, earlier)
    assert "responds with another proof of orders-sink than the one that was started" in kraal.error(
        "prove", "orders-sink", code=2
    )


def test_differences_have_exit_code_1(kraal: Kraal, worker: Connect) -> None:
    script(worker, make_state("DIFFERENT", missing=2))
    result = kraal("prove", "orders-sink")
    assert (result.exit_code, result.stdout.splitlines()[1:]) == (1, ["missing: orders-0@3 to @4"])
    result = kraal("prove", "orders-sink", "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)) == (1, make_state("DIFFERENT", missing=2))


def test_undecided_proof_has_exit_code_2(kraal: Kraal, worker: Connect) -> None:
    script(worker, RUNNING | {"state": "UNDECIDED", "reason": "it has no file"})
    assert kraal.error("prove", "orders-sink", code=2) == (
        "Error: orders-sink could not be proved: it has no file"
    )


def test_counts_of_the_ledger_follow_an_undecided_proof(kraal: Kraal, worker: Connect) -> None:
    script(worker, RUNNING | {"state": "UNDECIDED", "reason": "it prints its records"})
    worker.script("GET", "/connectors/orders-sink/ledger", ScriptedResponse(body=make_response()))
    result = kraal("prove", "orders-sink")
    assert result.exit_code == 2
    assert result.stdout == (
        "ledger: 12,345 read, 12,340 written, 2 dropped, 1 dead letters, 2 tolerated errors, 0 batches whose records "
        "are not all accounted for. `kraal ledger orders-sink` shows the positions\n"
    )


def test_since_is_a_time_in_utc(kraal: Kraal, worker: Connect) -> None:
    script(worker, make_state("PROVED"), query="?since=1795737600000")
    assert kraal("prove", "orders-sink", "--since", "2026-11-27").exit_code == 0


@pytest.mark.parametrize(("text", "query"), [("5", "5"), ("0.25", "0.25"), ("100", "100")])
def test_sample_is_a_percentage(kraal: Kraal, worker: Connect, text: str, query: str) -> None:
    script(worker, make_state("PROVED") | {"sample_percent": float(text)}, query=f"?sample={query}")
    output = kraal.out("prove", "orders-sink", "--sample", text)
    assert output.startswith(f"proved in a sample of {text} % (2023-11-14 22:13 UTC): 0 missing")


def test_failed_request_has_exit_code_2(kraal: Kraal, worker: Connect) -> None:
    worker.refuse("POST", PATH, 404, "HTTP 404 Not Found")
    assert kraal.error("prove", "orders-sink", code=2).endswith(
        "this worker does not run proofs: it is not a Kraal worker, or an older one"
    )
