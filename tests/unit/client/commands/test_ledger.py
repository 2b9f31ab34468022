"""Tests for `kraal ledger`: output and exit codes."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.conftest import Kraal

PATH = "/connectors/orders-sink/ledger"


def make_response(*, breaks: int = 0, problem: str | None = None) -> dict[str, Any]:
    law_break = {"ranges": "orders-0@5 to @9", "reason": "1 of 4 records", "time_ms": 1_700_000_000_000}
    return {
        "connector": "orders-sink",
        "problem": problem,
        "tasks": [
            {
                "task": 0, "batches": 7, "read": 12_345, "written": 12_340, "dropped": 2, "dead_letters": 1,
                "tolerated": 2, "batches_without_read": 0, "batches_without_written": 0,
                "breaks": [law_break] * breaks, "break_count": breaks,
            }
        ],
        "partitions": [
            {
                "partition": {"kafka_topic": "orders", "kafka_partition": 0}, "since": 0, "end": 12_345, "repeated": 3,
                "uncounted": [{"start": 100, "end": 110}], "uncounted_count": 1,
            },
            {
                "partition": {"filename": "a"}, "since": None, "end": {"position": 7}, "repeated": 0,
                "uncounted": [], "uncounted_count": 0,
            },
        ],
    }  # fmt: skip


def test_ledger_lists_tasks_partitions_and_uncounted_ranges(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", PATH, ScriptedResponse(body=make_response()))
    assert kraal.out("ledger", "orders-sink").splitlines() == [
        "TASK   BATCHES   READ     WRITTEN   DROPPED   DEAD   TOLERATED   BREAKS",
        "0      7         12,345   12,340    2         1      2           0",
        "",
        "PARTITION           SINCE   END               REPEATED   UNCOUNTED",
        "orders-0            0       12,345            3          1",
        '{"filename": "a"}   -       {"position": 7}   0          0',
        "not counted: orders-0 from 100 to 110",
    ]


def test_records_that_are_not_accounted_for_have_exit_code_1(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", PATH, *[ScriptedResponse(body=make_response(breaks=1))] * 2)
    result = kraal("ledger", "orders-sink")
    assert result.exit_code == 1
    assert "task 0, orders-0@5 to @9 (2023-11-14 22:13 UTC): 1 of 4 records\n" in result.stdout
    assert kraal("ledger", "orders-sink", "-o", "json").exit_code == 1


def test_json_output_is_the_response(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", PATH, ScriptedResponse(body=make_response()))
    assert json.loads(kraal.out("ledger", "orders-sink", "-o", "json")) == make_response()


def test_problem_of_the_ledger_is_shown(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", PATH, ScriptedResponse(body=make_response(problem="no broker")))
    result = kraal("ledger", "orders-sink")
    assert result.exit_code == 0
    assert (
        result.stderr
        == "Error: totals may be missing, because the ledger cannot be read or written: no broker\n"
    )


def test_worker_without_a_ledger_is_explained(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", PATH, ScriptedResponse(404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
    assert "this worker has no ledger: set ledger.storage.topic" in kraal.error(
        "ledger", "orders-sink", code=2
    )
