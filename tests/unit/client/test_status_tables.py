"""Verdicts on statuses."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.client.status_tables import Verdict, failure_cause, verdict


def shown(connector: str, *tasks: str) -> dict[str, Any]:
    return {"connector": {"state": connector}, "tasks": [{"state": state} for state in tasks]}


@pytest.mark.parametrize(
    ("status", "wanted", "expected"),
    [
        (None, "RUNNING", Verdict.PENDING),
        (shown("RUNNING", "RUNNING"), "RUNNING", Verdict.READY),
        (shown("RUNNING"), "RUNNING", Verdict.WITHOUT_TASKS),
        (shown("RUNNING", "RUNNING", "UNASSIGNED"), "RUNNING", Verdict.PENDING),
        (shown("RUNNING", "FAILED", "UNASSIGNED"), "RUNNING", Verdict.FAILED),
        (shown("FAILED"), "RUNNING", Verdict.FAILED),
        (shown("PAUSED", "RUNNING"), "PAUSED", Verdict.PENDING),
        (shown("STOPPED", "RUNNING"), "STOPPED", Verdict.PENDING),
        (shown("RUNNING", "FAILED"), "STOPPED", Verdict.PENDING),
        (shown("STOPPED"), "STOPPED", Verdict.READY),
    ],
)
def test_whether_a_wait_is_over(status: dict[str, Any] | None, wanted: str, expected: Verdict) -> None:
    assert verdict(status, wanted) is expected


def test_the_cause_in_a_trace_without_causes_is_the_first_nonempty_line() -> None:
    assert failure_cause({"trace": "\n  java.lang.Exception: no\n\tat a.b\n"}) == "java.lang.Exception: no"
    assert failure_cause({"trace": None}) == failure_cause({"trace": ""}) == ""
